package authserver

import (
	"context"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/visit"
)

// Login finds out who visits a page: [LoginFunc], or what [LoginAt], [Users] and [OIDC] return.
type Login interface {
	// join makes the login one of a server, with its pages and what it keeps.
	join(v *pages, k *records) error
	// visitor returns who is logged in at the browser that sends a request.
	visitor(r *http.Request) (person, bool)
	// enter answers a request of a visitor who is unknown; back is a path of ours.
	enter(w http.ResponseWriter, r *http.Request, back string) error
	// serve answers for a page of the login.
	serve(w http.ResponseWriter, r *http.Request, page string) error
	// active reports whether the person of a grant may still log in.
	active(ctx context.Context, g *grant) (bool, error)
}

// person is who has logged in.
type person struct {
	Subject string `json:"sub"`
	Login   string `json:"login,omitzero"` // what the login itself has to know of it
}

// maxSubject bounds a subject, in bytes (OpenID Connect Core, section 2).
const maxSubject = 255

// mayUse asks whether the person of a grant may still use it (revision 2025-03-26, third-party
// authorization).
func (s *site) mayUse(ctx context.Context, g *grant) (bool, error) {
	if s.opts.Active != nil {
		if ok, err := s.opts.Active(ctx, g.Subject); err != nil || !ok {
			return ok, err
		}
	}
	return s.opts.Login.active(ctx, g)
}

// visitor returns who visits a page.
func (s *site) visitor(r *http.Request) (person, bool) {
	who, ok := s.opts.Login.visitor(r)
	return who, ok && who.Subject != "" && len(who.Subject) <= maxSubject
}

// LoginFunc is a login that the program has already: a session cookie, or a proxy in front. It
// returns the subject that tokens have, and must not believe anything that another site could make
// the browser send.
type LoginFunc func(r *http.Request) (subject string, ok bool)

func (f LoginFunc) join(*pages, *records) error { return nil }

func (f LoginFunc) visitor(r *http.Request) (person, bool) {
	subject, ok := f(r)
	return person{Subject: subject}, ok
}

func (f LoginFunc) enter(w http.ResponseWriter, _ *http.Request, _ string) error {
	http.Error(w, "Log in first, and open the page again.", http.StatusUnauthorized)
	return nil
}

func (f LoginFunc) serve(w http.ResponseWriter, r *http.Request, _ string) error {
	http.NotFound(w, r)
	return nil
}

func (f LoginFunc) active(context.Context, *grant) (bool, error) { return true, nil }

// LoginAt is a login whose visitors, where they are unknown, are sent to a page first: with the
// address to come back to in the parameter return_to, a path on this host.
func LoginAt(page string, f LoginFunc) Login { return &loginAt{f, page} }

type loginAt struct {
	LoginFunc
	page string
}

func (l *loginAt) enter(w http.ResponseWriter, _ *http.Request, back string) error {
	w.Header().Set("Location", visit.WithQuery(l.page, "return_to", back))
	w.WriteHeader(http.StatusFound)
	return nil
}

// session is the value of the cookie of a visitor who has logged in at a page of ours.
type session struct {
	Person person    `json:"person"`
	Until  time.Time `json:"until"`
}

const (
	sessionCookie = "troupe-auth-login"
	sessionLife   = time.Hour
)

// logIn lets the browser know that its visitor has logged in.
func (v *pages) logIn(w http.ResponseWriter, who person) error {
	return v.cookies.Write(w, sessionCookie, &session{who, time.Now().Add(sessionLife)}, sessionLife)
}

// loggedIn returns who has logged in.
func (v *pages) loggedIn(r *http.Request) (person, bool) {
	var s session
	if !v.cookies.Read(r, sessionCookie, &s) || !time.Now().Before(s.Until) {
		return person{}, false
	}
	return s.Person, true
}
