package auth_test

import (
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// The first request leads to a login, by discovery, registration and a person who sees what it is
// about; the call goes on, and another program needs none (AUTH-15, AUTH-21,
// AUTH-30, AUTH-33, AUTH-40, AUTH-41).
func TestFirstLogin(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		p := w.start()
		p.good("read")
		p.asks("after a call", 1)
		r := p.requests()[0]
		if r.Server != w.server.endpoint() || r.Resource != w.server.endpoint() || r.Issuer != w.as.URL || r.ClientID == "" || r.Why == "" ||
			!slices.Equal(r.Scopes, []string{"tools:read", "offline_access"}) || !slices.Equal(r.New, r.Scopes) {
			t.Errorf("the person was shown %+v", r)
		}
		if n := seen(w.as, registration); n != 1 {
			t.Errorf("the program was registered %d times, want once", n)
		}
		for _, s := range w.as.Seen() {
			if (s.Route == "authorization" || s.Route == "token") && (s.Resource != w.server.endpoint() || s.ClientID != r.ClientID) {
				t.Errorf("a request to the authorization server: got %+v, want the resource %s by the client %s", s, r.Resource, r.ClientID)
			}
		}
		again := w.start()
		again.good("read")
		again.asks("in another program", 0)
		if n := seen(w.as, func(r *peers.OIDCRequest) bool { return r.Route == "token" }); n != 1 {
			t.Errorf("the token endpoint was asked %d times, want once", n)
		}
	})
}
