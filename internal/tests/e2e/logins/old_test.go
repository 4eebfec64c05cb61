package logins_test

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// A client of a server as revision 2025-03-26 has it, which publishes nothing of itself, finds our
// authorization server by its metadata at the origin of the server, or without that at the default
// endpoints (AUTH-10, AUTH-11, AUTH-12).
func TestOldServer(t *testing.T) {
	t.Parallel() // with the others, which wait
	const resource, server = "/.well-known/oauth-protected-resource", "/.well-known/"
	for name, hidden := range map[string]string{"metadata at the origin": resource, "default endpoints": server} {
		t.Run(name, func(t *testing.T) {
			for _, m := range makers {
				if m.version.Era() == mcp.EraModern {
					continue
				}
				t.Run(m.name, func(t *testing.T) {
					w := listenChanged(t, embedded(t), nil, mcp.V2025_03_26)
					w.front.hidden = []string{hidden}
					c := m.open(w, mcp.V2025_03_26)
					w.calls(c, "read")
					w.asks("after a call", "")
					asked := w.front.paths()
					for _, path := range []string{"/register", "/authorize", "/token"} {
						if !slices.Contains(asked, path) {
							t.Errorf("%s was not asked for, but %q", path, asked)
						}
					}
				})
			}
		})
	}
}
