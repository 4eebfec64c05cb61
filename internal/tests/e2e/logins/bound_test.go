package logins_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcpserver/auth"
)

// A server that takes no tokens but those that are bound to a key, and wants a nonce of its own in
// each proof (RFC 9449, sections 7 and 9), is used by the clients that know of that: ours learns it
// of the server. Each gets the nonce by one refusal, and a tool that needs more scopes is the same.
func TestBoundTokens(t *testing.T) {
	t.Parallel() // with the others, which wait
	w := listenChanged(t, oidc(t, "jwt"), func(o *auth.Options) {
		o.RequireDPoP, o.NonceKey = true, bytes.Repeat([]byte{7}, 32)
	})
	w.bound = true
	each(t, func(t *testing.T, m maker) {
		if !m.binds {
			return
		}
		one := w.with(t)
		c := m.open(one, m.version)
		one.calls(c, "read", "read")
		const nonce = `DPoP error="use_dpop_nonce"`
		for _, challenge := range one.front.refusals(401) {
			if !strings.HasPrefix(challenge, "DPoP resource_metadata=") && !strings.HasPrefix(challenge, nonce) {
				t.Errorf("the challenge %s", challenge)
			}
		}
		wants := func(challenge string) bool { return strings.HasPrefix(challenge, nonce) }
		if got := one.front.refusals(401); !slices.ContainsFunc(got, wants) {
			t.Errorf("no nonce was asked for: the challenges %q", got)
		}
		one.calls(c, "write", "read")
		if got := one.front.refusals(403); len(got) != 1 || !strings.HasPrefix(got[0], `DPoP error="insufficient_scope", scope="tools:read tools:write"`) {
			t.Errorf("with too few scopes: the challenges %q", got)
		}
		if one.front.lastToken() != "" {
			t.Error("a bearer token was let in")
		}
	})
}
