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
	maxSessions = 64
)

// sessions are the login links that were not used, and the browsers that used one. Only hashes are
// kept.
type sessions struct {
	mu       sync.Mutex // guards both maps: handlers of requests look and write, and none waits under it
	tickets  keys
	browsers keys
}

// keys are hashes of secrets, with their ends.
type keys map[[sha256.Size]byte]time.Time

// issue returns a new secret. Beyond most the one that ends first is dropped.
func (k *keys) issue(now time.Time, life time.Duration, most int) string {
	if *k == nil {
		*k = make(keys)
	}
	var first [sha256.Size]byte
	for key, end := range *k {
		if !end.After(now) {
			delete(*k, key)
		} else if at, ok := (*k)[first]; !ok || end.Before(at) {
			first = key
		}
	}
	if len(*k) >= most {
		delete(*k, first)
	}
	secret := rand.Text()
	(*k)[sha256.Sum256([]byte(secret))] = now.Add(life)
	return secret
}

func (k keys) has(secret string, now time.Time) bool {
	return k[sha256.Sum256([]byte(secret))].After(now)
}

// has reports whether a request is of a browser that has logged in.
func (s *sessions) has(r *http.Request, now time.Time) bool {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.browsers.has(cookie.Value, now)
}

// ticket returns the secret of a login link.
func (s *sessions) ticket(now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tickets.issue(now, ticketLife, maxTickets)
}

// redeem returns a session for a login link that was not used.
func (s *sessions) redeem(ticket string, now time.Time) (session string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tickets.has(ticket, now) {
		return "", false
	}
	delete(s.tickets, sha256.Sum256([]byte(ticket)))
	return s.browsers.issue(now, sessionLife, maxSessions), true
}

// drop ends the session of a request.
func (s *sessions) drop(r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.browsers, sha256.Sum256([]byte(cookie.Value)))
	}
}

// cookieName is the name of the session's cookie. Browsers send cookies to all ports of a host, so
// that it has the port; the prefix __Host- is taken over TLS only.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "0"
	}
	if r.TLS != nil {
		return "__Host-troupe-console-" + port
	}
	return "troupe-console-" + port
}

// LoginPath returns the path and query of a login link: it counts once, and for ten minutes. It is
// for one person's eyes.
func (c *Console) LoginPath() string {
	return "/login?ticket=" + c.sessions.ticket(time.Now())
}

// loginPage asks before it uses the link up: programs that look at links beforehand do not press
// the button.
func (c *Console) loginPage(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, http.StatusOK, "login", view{Title: "Log in", Body: r.URL.Query().Get("ticket")})
}

func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	session, ok := c.sessions.redeem(r.PostFormValue("ticket"), time.Now())
	if !ok {
		c.say(w, r, http.StatusUnauthorized, "This login link was used, or is older than ten minutes. Start the command again for another one.")
		return
	}
	c.setCookie(w, r, session, int(sessionLife.Seconds()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (c *Console) logout(v *visit) error {
	c.sessions.drop(v.r)
	c.setCookie(v.w, v.r, "", -1)
	c.say(v.w, v.r, http.StatusOK, "You are logged out.")
	return nil
}

func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: age, Secure: r.TLS != nil, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}
