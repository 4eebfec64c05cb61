package logins_test

import (
	"slices"
	"testing"
)

// The first request of a client leads to a login, by what the server says of itself, and a tool
// that needs more to another one, for all that the tool needs; then it succeeds, and no person is
// asked again (AUTH-04, AUTH-20, AUTH-21, AUTH-45, AUTH-50, AUTH-60).
func TestLogin(t *testing.T) {
	as := oidc(t, "jwt")
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := k.listen(t, as)
			each(t, func(t *testing.T, m maker) {
				one := w.with(t)
				c := m.open(one, m.version)
				one.calls(c, "read", "read")
				if got := c.revision(); got != string(m.version) {
					t.Errorf("the revision is %s, want %s", got, m.version)
				}
				one.asks("after a call", "tools:read")
				for _, challenge := range one.front.refusals(401) {
					if challenge != one.front.noToken() {
						t.Errorf("without a token the challenge is %s, want %s", challenge, one.front.noToken())
					}
				}
				if got := one.front.refusals(403); got != nil {
					t.Errorf("with the base scopes: the challenges %q", got)
				}
				one.calls(c, "write", "read", "write")
				asked := []string{"tools:read", "tools:read tools:write"}
				if m.narrow && as.narrow { // the second request was refused, without a page
					asked = append(asked, asked[1])
				}
				one.asks("after a tool that needs more", asked...)
				if got := one.front.refusals(403); !slices.Equal(got, []string{one.front.tooFew()}) {
					t.Errorf("with too few scopes: the challenges %q, want one %q", got, one.front.tooFew())
				}
				if n := c.helped(); n != len(asked)-2 {
					t.Errorf("the application has helped %d times, want %d", n, len(asked)-2)
				}
			})
		})
	}
}

// calls calls tools that have to answer.
func (w *world) calls(c client, tools ...string) {
	w.Helper()
	for _, tool := range tools {
		if got, err := c.call(tool); err != nil || got != tool+": done" {
			w.Fatalf("calling %s: got %q, %v\nthe person was asked for %q, and refused were %+v", tool, got, err, w.person.requests(), w.front.answers)
		}
	}
}

// asks checks what the person was asked for.
func (w *world) asks(when string, want ...string) {
	w.Helper()
	if got := w.person.requests(); !slices.Equal(got, want) {
		w.Errorf("%s: the person was asked for %q, want %q", when, got, want)
	}
}
