package console

import (
	"net/http"
	"strings"
	"time"

	site "github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// Login is how people log in at a console that is for several: [Users] or [OIDC].
type Login interface {
	// join is called once, by the console whose login it is.
	join(c *Console) error
	// begin answers a browser that is to log in, and goes back to a path of the console then.
	begin(w http.ResponseWriter, r *http.Request, back string) error
	// finish answers the form of begin, or the way back from a provider.
	finish(w http.ResponseWriter, r *http.Request) error
	// role returns what a person who has logged in may do now; [Stranger] ends the session.
	role(who *person) Role
}

// person is a visitor who has logged in.
type person struct {
	Name string
	Role Role   // at the login
	Mark string // of what the person has logged in with; a session counts while that is so
}

// addressOf is where a request comes from.
func (c *Console) addressOf(r *http.Request) string {
	return webserver.Address(r, c.opts.HTTPS && r.TLS == nil)
}

// enter logs a browser in: with a new session always, so that one which was planted is worth nothing.
func (c *Console) enter(w http.ResponseWriter, r *http.Request, who person, back string) {
	c.log.Info("a person logs in at the console", "name", who.Name, "address", c.addressOf(r))
	c.sessions.drop(c.cookie(r))
	c.setCookie(w, r, c.sessions.begin(who, time.Now()), int(sessionLife.Seconds()))
	w.Header().Set("Location", pathOf(back))
	w.WriteHeader(http.StatusSeeOther)
}

// pathOf is a path of the console to go back to.
func pathOf(back string) string {
	if len(back) > maxBack || !site.IsPath(back) || strings.HasPrefix(back, "/login") {
		return "/"
	}
	return back
}

// maxBack bounds an address that a browser goes back to, in bytes.
const maxBack = 2048

// loginPath is where a browser logs in that wants a page.
func loginPath(r *http.Request) string { return site.WithQuery("/login", "back", r.URL.RequestURI()) }

// serveLogin answers a step of a login.
func (c *Console) serveLogin(w http.ResponseWriter, r *http.Request, step func(http.ResponseWriter, *http.Request) error) {
	if err := step(w, r); err != nil && r.Context().Err() == nil {
		c.log.Warn("a person is not logged in at the console", "address", c.addressOf(r), "error", err)
		c.say(w, r, http.StatusBadGateway, "The login did not succeed. Begin again.")
	}
}
