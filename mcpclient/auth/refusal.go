package auth

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

// wish is what a login is to bring.
type wish struct {
	metadata string   // address of the resource metadata, from the challenge; unchecked
	scopes   []string // that the challenge names; nil for none
	dpop     bool     // the server wants a token that is bound to a key
	had      []string // scopes of the token that was refused for want of more
	more     []string // scopes that were missing, with had; nil if that is not what was wrong
	why      string   // for people
	unasked  bool     // no refusal has asked for it
}

// refused decides what a refusal leads to (AUTH-22, AUTH-60 to AUTH-62).
func (k *keeper) refused(c *actors.Context, m *refused) {
	if !k.current(m.used) { // there is another token meanwhile
		m.end(nil)
		return
	}
	w := &wish{metadata: m.challenges.ResourceMetadata(), scopes: m.challenges.Scopes(), dpop: m.challenges.Wants("dpop")}
	t := k.now.Load()
	switch {
	case m.status == http.StatusForbidden:
		k.stepUp(c, m, w)
	case t != nil && t.Refresh != "":
		w.why = "the server does not take the token any more, and it cannot be renewed"
		k.renew(c, renewal{m.waiter, w})
	default:
		if w.why = "the server wants to know who uses it"; t != nil {
			w.why = "the server does not take the token any more"
		}
		k.needLogin(c, m.waiter, w)
	}
}

// stepUp asks for more scopes, if the server has said which and they are more.
func (k *keeper) stepUp(c *actors.Context, m *refused, w *wish) {
	if !m.challenges.WantsScopes() {
		m.end(errForbidden)
		return
	}
	var asked []string
	if t := k.now.Load(); t != nil {
		w.had, asked = t.Scopes, t.Asked
	}
	more := without(w.scopes, w.had)
	names := sanitize.Line(strings.Join(more, " "), 300)
	switch {
	case len(more) == 0:
		m.end(errNothingNew)
		return
	case k.server.OAuth.Scopes != nil && !slices.ContainsFunc(more, func(s string) bool { return slices.Contains(k.server.OAuth.Scopes, s) }):
		m.end(fmt.Errorf("the server wants more for this, and oauth.scopes does not name it: add %s", names))
		return
	}
	w.had = slices.Concat(w.had, without(asked, more)) // all that was asked for before
	w.why, w.more = "the server wants more for this: "+names, slices.Concat(w.had, more)
	k.needLogin(c, m.waiter, w)
}

// without returns the scopes that are not among others.
func without(scopes, others []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(others, s) })
}

var (
	errForbidden  = errors.New("the server forbids it to this account")
	errUnattended = errors.New("the next call asks for it")
	errNothingNew = errors.New("the server wants scopes that the token has")
)

// needLogin has a request wait for a login, which begins if none is under way.
func (k *keeper) needLogin(c *actors.Context, waiter *waiter, w *wish) {
	e := &LoginError{Server: k.shown(), keeper: k.Credential, before: k.now.Load(), scopes: w.more}
	if k.login == nil {
		switch {
		case waiter.unattended:
			e.Err = errUnattended
		case !k.elsewhere():
			e.Err = k.begin(c, w)
		}
	}
	waiter.end(e)
}
