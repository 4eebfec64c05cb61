package connect

import (
	"net/http"

	"github.com/troupe-dev/troupe/internal/visit"
)

// Login finds out who visits a page: [LoginFunc], or [OIDC].
type Login interface {
	// Visitor returns who is logged in at the browser that sends r; not ok if that is unknown. It
	// must not believe anything that another site could make the browser send.
	Visitor(r *http.Request) (issuer, subject string, ok bool)
}

// LoginFunc is a login that the program has already: a session cookie, or a proxy in front. The
// issuer and subject are those of mcpserver.Principal; the issuer is empty, and the subject its
// ID, where principals have neither.
type LoginFunc func(r *http.Request) (issuer, subject string, ok bool)

// Visitor implements [Login].
func (f LoginFunc) Visitor(r *http.Request) (issuer, subject string, ok bool) { return f(r) }

// LoginAt is a login whose visitors, where they are unknown, are sent to a page first: with the
// address to come back to in the parameter return_to, a path on this host.
func LoginAt(page string, f LoginFunc) Login { return &loginAt{f, page} }

type loginAt struct {
	LoginFunc
	page string
}

// entrance is a login that unknown visitors can be sent to.
type entrance interface {
	// enter returns the address to send the browser to; back is a path of ours.
	enter(back string) string
}

func (l *loginAt) enter(back string) string { return visit.WithQuery(l.page, "return_to", back) }
