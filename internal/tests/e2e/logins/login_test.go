package logins_test

import (
	"slices"
	"testing"
)

// The first request of a client leads to a login, by what the server says of itself, and a tool
// that needs more to another one, for all that the tool needs; then it succeeds, and no person is
// asked again. The authorization server is another program, or a part of the server (AUTH-04,
// AUTH-08, AUTH-20, AUTH-21, AUTH-45, AUTH-50, AUTH-60).
func TestLogin(t *testing.T) {
	t.Parallel() // with the others, which wait
	for _, as := range []*issuer{oidc(t, "jwt"), embedded(t)} {
		for _, k := range kinds() {
			t.Run(as.name+" "+k.name, func(t *testing.T) {
				w := k.listen(t, as)
				each(t, func(t *testing.T, m maker) { login(w.with(t), m) })
			})
		}
	}
}

func login(w *world, m maker) {
	c := m.open(w, m.version)
	w.calls(c, "read", "read")
	if got := c.revision(); got != string(m.version) {
		w.Errorf("the revision is %s, want %s", got, m.version)
	}
	w.asks("after a call", "tools:read")
	for _, challenge := range w.front.refusals(401) {
		if challenge != w.front.noToken() {
			w.Errorf("without a token the challenge is %s, want %s", challenge, w.front.noToken())
		}
	}
	if got := w.front.refusals(403); got != nil {
		w.Errorf("with the base scopes: the challenges %q", got)
	}
	w.calls(c, "write", "read", "write")
	asked, refused, helped := []string{"tools:read", "tools:read tools:write"}, []string{w.front.tooFew()}, 0
	if m.narrow && w.as.narrow { // the second request was refused, without a page
		asked, helped = append(asked, asked[1]), 1
	}
	if m.stuck && w.as.renews { // it has tried in vain with the same scopes
		refused, helped = append(refused, refused[0]), 1
	}
	w.asks("after a tool that needs more", asked...)
	if got := w.front.refusals(403); !slices.Equal(got, refused) {
		w.Errorf("with too few scopes: the challenges %q, want %q", got, refused)
	}
	if n := c.helped(); n != helped {
		w.Errorf("the application has helped %d times, want %d", n, helped)
	}
}

// calls calls tools that have to answer.
func (w *world) calls(c client, tools ...string) {
	w.Helper()
	for _, tool := range tools {
		if got, err := c.call(tool); err != nil || got != tool+": done" {
			w.Fatalf("calling %s: got %q, %v\nthe person was asked for %q, and refused were %q and %q", tool, got, err, w.person.requests(), w.front.refusals(401), w.front.refusals(403))
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
