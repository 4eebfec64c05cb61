package e2e

import (
	"maps"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// gateway: the fixture behind a gateway with plain names is to each client what it is
// alone, but for the name of the server and who asks (ERA-12, SECA-34).
func gateway(t *testing.T, b builds) {
	t.Parallel()
	client := peers.Require(t, peers.Client)
	// Of 2026-07-28 over HTTP, without a token, to a server of before there is none: the calls
	// of nobody in particular are made one after the other there (SECA-6), and the page of
	// one is visited by another.
	pairs := []eraPair{
		{"v2", "2026-07-28", "2025-11-25", "stdio"},
		{"v1", "2025-11-25", "2026-07-28", "stdio"},
		{"v1", "2025-11-25", "2025-11-25", "stdio"},
		{"v2", "2025-11-25", "2025-11-25", "http"},
		{"v2", "2025-11-25", "2026-07-28", "http"},
		{"v1", "2025-11-25", "2026-07-28", "sse"},
		{"v2", "2026-07-28", "2026-07-28", "stdio"},
		{"v2", "2026-07-28", "2026-07-28", "http"},
	}
	for _, p := range thinned(pairs, 2) {
		t.Run(p.String(), func(t *testing.T) {
			join(t)
			troupe := &peers.Troupe{Program: b.troupe, Home: t.TempDir()}
			flags := []string{"--expose", "tools", "--names", "plain", "--no-store", "--server-protocol", p.down, "--mcp", "fixture=" + b.fixture + " -stdio"}
			line := append(client[:len(client):len(client)], p.sdk, p.revision, p.transport)
			line = append(line, target(t, troupe, p.transport, flags)...)
			want := expected(p.sdk, p.revision)
			want["server"] = "troupe"
			asked := strings.Split(want["asked"].(string), "; ")
			want["asked"] = "fixture asks: " + strings.Join(asked, "; fixture asks: ")
			compare(t, report(t, line), want)
		})
	}
}

// target is what a client is told to connect to.
func target(t *testing.T, troupe *peers.Troupe, transport string, flags []string) []string {
	t.Helper()
	switch transport {
	case "stdio":
		return troupe.Line(append([]string{"serve", "--stdio"}, flags...)...)
	case "sse":
		return []string{troupe.Serve(t, flags...) + "/sse"}
	}
	return []string{troupe.Serve(t, flags...) + "/mcp"}
}

// expected is what a client sees of the fixture itself.
func expected(sdk, revision string) map[string]any {
	want := map[string]any{"revision": revision}
	maps.Copy(want, everywhereElse)
	maps.Copy(want, instead[sdk])
	return want
}

// compare compares all that there is.
func compare(t *testing.T, got, want map[string]any) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %v, want %v", name, got[name], value)
		}
	}
	for name, value := range got {
		if _, known := want[name]; !known {
			t.Errorf("%s: got %v, which the test does not compare", name, value)
		}
	}
}
