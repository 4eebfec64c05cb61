package auth_test

import (
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// A server that changes to another authorization server is a login there, with a registration of
// its own: the new one is shown neither the client id nor a token of the old one, and the old one
// hears nothing more (AUTH-34, SECA-19).
func TestAuthorizationServerReplaced(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		p := w.start()
		p.good("read")
		old, before := w.as, len(w.as.Seen())
		format := "jwt"
		if _, ok := w.server.(*typeScript); ok {
			format = "opaque"
		}
		w.as = peers.ListenOIDC(t, `{"format":"`+format+`"}`)
		w.server.trust(w.as.URL)
		p.good("read")
		p.good("read")
		p.asks("after the change", 2)
		r := p.requests()
		if r[0].Issuer != old.URL || r[1].Issuer != w.as.URL || r[0].ClientID == r[1].ClientID {
			t.Errorf("the person was asked for %s as %s, then for %s as %s", r[0].Issuer, r[0].ClientID, r[1].Issuer, r[1].ClientID)
		}
		if n := seen(w.as, registration); n != 1 {
			t.Errorf("the program was registered %d times at the new one, want once", n)
		}
		if n := seen(w.as, func(s *peers.OIDCRequest) bool {
			return s.ClientID == r[0].ClientID || s.Status >= 400 || s.Grant == "refresh_token"
		}); n != 0 {
			t.Errorf("the new one has seen %+v", w.as.Seen())
		}
		for _, s := range old.Seen()[before:] {
			if s.ClientID != "resource-server" {
				t.Errorf("the old one has seen %+v afterwards", s)
			}
		}
		again := w.start()
		again.good("read")
		again.asks("in another program", 0)
	})
}
