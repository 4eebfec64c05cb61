package console

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"sync"
	"time"
)

// How long a login link and a session last, and how many of each are kept.
const (
	ticketLife  = 10 * time.Minute
	sessionLife = 12 * time.Hour
	maxTickets  = 16
	maxSessions = 1024
)

// sessions are the login links that were not used, and the browsers that used one. Only hashes are
// kept.
type sessions struct {
	mu       sync.Mutex // guards both maps: handlers of requests look and write, and none waits under it
	tickets  keys
	browsers keys
}

// keys are what secrets are good for, by their hashes.
type keys map[[sha256.Size]byte]right

// right is what a secret is good for.
type right struct {
	end time.Time
	who person // whose session it is
}

// issue returns a new secret. Beyond most the one that ends first is dropped.
func (k *keys) issue(now time.Time, life time.Duration, most int, who person) string {
	if *k == nil {
		*k = make(keys)
	}
	var first [sha256.Size]byte
	for key, of := range *k {
		if !of.end.After(now) {
			delete(*k, key)
		} else if at, ok := (*k)[first]; !ok || of.end.Before(at.end) {
			first = key
		}
	}
	if len(*k) >= most {
		delete(*k, first)
	}
	secret := rand.Text()
	(*k)[sha256.Sum256([]byte(secret))] = right{now.Add(life), who}
	return secret
}

func (k keys) has(secret string, now time.Time) bool {
	return k[sha256.Sum256([]byte(secret))].end.After(now)
}

// of returns whose a session is.
func (s *sessions) of(session string, now time.Time) (who person, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.browsers[sha256.Sum256([]byte(session))].who, s.browsers.has(session, now)
}

// begin returns a new session.
func (s *sessions) begin(who person, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.browsers.issue(now, sessionLife, maxSessions, who)
}

// ticket returns the secret of a login link.
func (s *sessions) ticket(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tickets.issue(now, ticketLife, maxTickets, person{})
}

// redeem uses a login link up, and reports whether it counted.
func (s *sessions) redeem(ticket string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ok := s.tickets.has(ticket, now)
	delete(s.tickets, sha256.Sum256([]byte(ticket)))
	return ok
}

// drop ends a session.
func (s *sessions) drop(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.browsers, sha256.Sum256([]byte(session)))
}

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
