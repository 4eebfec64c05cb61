package setup

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/shellwords"
)

// TestHide: what looks like a secret is not in the record of a server, and what does not is there whole.
func TestHide(t *testing.T) {
	for line, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem .": "",
		"effects lines.txt":                                  "",
		"node server.js --port 8080 --verbose":               "",
		"http://127.0.0.1:8080/mcp":                          "",
		"https://mcp.example.com/v1/tools":                   "",
		"docker run -i --rm ghcr.io/org/server:1.20260101":   "",
		"/tmp/TestOf12345678901234567890/server":             "",
		"server --token abc":                                 "server --token …",
		"server --api-key=abc --port 1":                      "server --api-key=… --port 1",
		"env GITHUB_TOKEN=abc server":                        "env GITHUB_TOKEN=… server",
		"server ghp_0123456789abcdefghijABCDEFGHIJ":          "server [redacted]",
		"server 4f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c":            "server …",
		"https://ada:pw@mcp.example.com/mcp":                 "…",
		"https://mcp.example.com/mcp?key=abc":                "https://mcp.example.com/mcp?…",
		"https://mcp.example.com/s/4f9a8b7c6d5e4f3a2b1c/mcp": "https://mcp.example.com/s/…/mcp",
	} {
		words, err := shellwords.Split(line)
		if err != nil {
			t.Fatal(err)
		}
		shown := hide(words)
		if want == "" {
			want = line
		}
		expected, err := shellwords.Split(want)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(shown, expected) {
			t.Errorf("hide(%q): got %q, want %q", line, shown, expected)
		}
	}
}
