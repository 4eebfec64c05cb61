package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/memo"
)

// How long a login link and a session last, and how many of each are kept.
const (
	ticketLife  = 10 * time.Minute
	sessionLife = 12 * time.Hour
	maxTickets  = 16
	maxSessions = 1024
)

// sessions are the login links that were not used, and the browsers that used one. Only hashes are
// kept. Where there is no room for another one, the one that was not used for the longest time goes.
type sessions struct{ tickets, browsers keys }

// keys are what secrets are good for, by their hashes.
type keys = memo.Map[[sha256.Size]byte, right]

func newSessions() *sessions {
	s := new(sessions)
	s.tickets.Max, s.browsers.Max = maxTickets, maxSessions
	return s
}

// right is what a secret is good for.
type right struct {
	end time.Time
	who person // whose session it is
}

// issue returns a new secret.
func issue(k *keys, end time.Time, who person) string {
	secret := rand.Text()
	k.Set(sha256.Sum256([]byte(secret)), right{end, who}, 0)
	return secret
}

// of returns whose a session is.
func (s *sessions) of(session string, now time.Time) (who person, ok bool) {
	r, _ := s.browsers.Get(sha256.Sum256([]byte(session)))
	return r.who, r.end.After(now)
}

// begin returns a new session.
func (s *sessions) begin(who person, now time.Time) string {
	return issue(&s.browsers, now.Add(sessionLife), who)
}

// ticket returns the secret of a login link.
func (s *sessions) ticket(now time.Time) string {
	return issue(&s.tickets, now.Add(ticketLife), person{})
}

// redeem uses a login link up, and reports whether it counted.
func (s *sessions) redeem(ticket string, now time.Time) bool {
	r, _ := s.tickets.Take(sha256.Sum256([]byte(ticket)))
	return r.end.After(now)
}

// drop ends a session.
func (s *sessions) drop(session string) { s.browsers.Delete(sha256.Sum256([]byte(session))) }

// secure reports whether a browser reaches the console by https.
func (c *Console) secure(r *http.Request) bool { return c.opts.HTTPS || r.TLS != nil }

// cookie is the session that a request brings; empty for none.
func (c *Console) cookie(r *http.Request) string {
	cookie, err := r.Cookie(c.cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// cookieName is the name of the session's cookie. Browsers send cookies to all ports of a host, so
// that it has the port; the prefix __Host-, which no other host can set, is taken by https only.
func (c *Console) cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "0"
	}
	if c.secure(r) {
		return "__Host-troupe-console-" + port
	}
	return "troupe-console-" + port
}

// LoginPath returns the path and query of a login link: it counts once, and for ten minutes. It is
// for one person's eyes. With [Options].Login it is the page where people log in.
func (c *Console) LoginPath() string {
	if c.opts.Login != nil {
		return "/login"
	}
	return "/login?ticket=" + c.sessions.ticket(time.Now())
}

// loginPage asks before it uses the link up: programs that look at links beforehand do not press
// the button.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	if c.opts.Login != nil {
		c.serveLogin(w, r, func(w http.ResponseWriter, r *http.Request) error {
			return c.opts.Login.begin(w, r, pathOf(r.URL.Query().Get("back")))
		})
		return
	}
	c.render(w, r, http.StatusOK, "login", view{Title: "Log in", Body: r.URL.Query().Get("ticket")})
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if c.opts.Login != nil {
		c.serveLogin(w, r, c.opts.Login.finish)
		return
	}
	if !c.sessions.redeem(r.PostFormValue("ticket"), time.Now()) {
		c.say(w, r, http.StatusUnauthorized, "This login link was used, or is older than ten minutes. Start the command again for another one.")
		return
	}
	c.enter(w, r, person{Name: c.opts.Name, Role: Operator}, "/")
}

func (c *Console) logout(v *visit) error {
	c.sessions.drop(c.cookie(v.r))
	c.setCookie(v.w, v.r, "", -1)
	c.say(v.w, v.r, http.StatusOK, "You are logged out.")
	return nil
}

func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: c.cookieName(r), Value: value, Path: "/", MaxAge: age, Secure: c.secure(r), HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
