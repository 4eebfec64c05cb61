package auth_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
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
		for _, route := range []string{"authorization", "token"} {
			if n := seen(w.as, func(s *peers.OIDCRequest) bool {
				return s.Route == route && s.Resource == w.server.endpoint() && s.ClientID == r.ClientID
			}); n != 1 {
				t.Errorf("%s: want one for %s by %s, got %+v", route, r.Resource, r.ClientID, w.as.Seen())
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

// An authorization server that reads client documents gets the address of one for a client id, and
// no registration; renewals have the same (AUTH-30, AUTH-31).
func TestClientDocument(t *testing.T) {
	as := peers.ListenOIDC(t, `{"cimd":true}`)
	w := newWorld(t, as, listenSDK(t, as, false, false))
	const document = "https://client.example/troupe.json" // what as.mjs has there
	p := w.start(func(o *auth.Options, _ *mcpclient.Server) { o.ClientMetadataURL = document })
	p.good("read")
	w.expire()
	p.good("read")
	w.renewals("after a refusal", 1, 0)
	p.asks("at the end", 1)
	for _, s := range as.Seen() {
		if s.Route == "registration" || s.ClientID != "" && s.ClientID != document {
			t.Errorf("the authorization server has seen %+v", s)
		}
	}
}

// A person logs in on another device, with the code that the program shows, and what was waiting
// goes on; such an authorization is renewed as any other (AUTH-40).
func TestDevice(t *testing.T) {
	t.Parallel() // it waits
	as := peers.ListenOIDC(t, `{"device":true}`)
	w := newWorld(t, as, listenSDK(t, as, false, false))
	p := w.start()
	p.visits(func(ctx context.Context, r *auth.Request) error {
		code, err := r.Device(ctx)
		if err != nil {
			return err
		}
		if !strings.HasPrefix(code.URL, as.URL) || code.Code == "" {
			t.Errorf("the person is shown %+v", code)
		}
		page, err := p.person.Visit(ctx, code.FullURL)
		if err == nil && !strings.Contains(page, "Sign-in Success") {
			t.Errorf("the person ends at the page %s", page)
		}
		return err
	})
	p.good("read")
	w.expire()
	p.good("read")
	p.asks("at the end", 1)
	w.renewals("after a refusal", 1, 0)
	if n := seen(as, func(s *peers.OIDCRequest) bool { return s.Route == "authorization" }); n != 0 {
		t.Errorf("%d authorizations were asked for by a browser", n)
	}
}
