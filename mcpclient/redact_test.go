package mcpclient

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// SECA-27: what a variable puts into an address is in no text: not in errors, which repeat what a web server says
// of the address, not in the log, and not in what is shown of the definition.
func TestVariablesInAddresses(t *testing.T) {
	const secret = "hush/hush zqzq"
	t.Setenv("TROUPE_TEST_SECRET", secret)
	for _, address := range []string{"/${TROUPE_TEST_SECRET}/mcp", "/mcp?key=${TROUPE_TEST_SECRET}", "/a${TROUPE_TEST_SECRET:-x}b/mcp"} {
		for _, status := range []int{200, 302, 400, 401, 403, 404, 500} {
			for _, kind := range []string{"http", "sse", ""} {
				t.Run(fmt.Sprint(status, kind, address), func(t *testing.T) {
					web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Location", "/elsewhere"+r.URL.Path)
						w.WriteHeader(status)
						fmt.Fprintf(w, "Cannot %s %s, that is %s", r.Method, r.RequestURI, r.URL.Path)
					}))
					defer web.Close()
					file := filepath.Join(t.TempDir(), ".mcp.json")
					if err := os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers":{"s":{"type":%q,"url":%q}}}`, kind, web.URL+address), 0o600); err != nil {
						t.Fatal(err)
					}
					all, err := LoadConfig(file)
					if err != nil || all[0].Err != nil {
						t.Fatal(err, all[0].Err)
					}
					var log syncBuilder
					o := &Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
					texts := []string{all[0].Address(), all[0].Origin(), strings.Join(all[0].Reach(false), "\n")}
					for range 2 {
						c, err := Dial(t.Context(), all[0], o)
						if err == nil {
							_, err = c.Info(t.Context())
							t.Cleanup(func() { _ = c.Close() })
						}
						if err == nil {
							t.Fatal("it could be used")
						}
						texts = append(texts, err.Error())
						o.Consent = func(context.Context, Server) error { return nil }
					}
					for _, text := range append(texts, log.String()) {
						if strings.Contains(text, "hush") || strings.Contains(text, "zqzq") {
							t.Errorf("the secret is in %s", text)
						}
					}
				})
			}
		}
	}
}

// A value that another one begins with, or contains, leaves nothing of that one behind.
func TestRedactOverlappingValues(t *testing.T) {
	s := Server{inURL: map[string]string{"${USER}": "abcd", "${KEY}": "abcd1234", "${LONG}": "x abcd1234 y", "${PORT}": "80"}}
	for range 20 { // a map has no order
		if got, want := s.Redact("abcd abcd1234 x%20abcd1234%20y x abcd1234 y :80"), "${USER} ${KEY} ${LONG} ${LONG} :80"; got != want {
			t.Fatalf("Redact: got %q, want %q", got, want)
		}
	}
}
