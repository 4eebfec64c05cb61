package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/webserver"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// local serves the pages of a server on stdio, on a port of this machine, while there are any.
//
//	closed ── a page is made ──▶ open ── pageLife after the last, or Close ──▶ closed
//
// The person who owns the process is the user. The address of a page has a secret, which lets
// one browser in, once for each page: other users of the machine may see it when that browser
// starts, and are too late then.
type local struct {
	mu       sync.Mutex // guards what follows: handlers make pages and browsers visit them at once, each for an instant, and both need what is there when they return
	closed   bool
	listener *net.TCPListener // nil while closed
	server   *http.Server
	at       *site
	secret   string
	session  string              // the cookie of a browser that was let in
	entered  map[string]struct{} // the pages whose address was used
}

// localSession is the cookie that stands for a login.
const localSession = "troupe-connect-local"

// open listens, for a page that is made now.
func (l *local) open(c *Connector) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := time.Now().Add(pageLife + time.Minute)
	switch {
	case l.closed:
		return errors.New("connecting an account: the connector is closed")
	case l.listener != nil:
		return l.listener.SetDeadline(until)
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("connecting an account: opening a page on this machine: %w", err)
	}
	if err := listener.SetDeadline(until); err != nil {
		listener.Close()
		return err
	}
	base := &url.URL{Scheme: "http", Host: listener.Addr().String(), Path: "/connect"}
	l.at = newSite(c, base, LoginFunc(func(r *http.Request) (issuer, subject string, ok bool) { return "", "", false }))
	l.at.visitor = func(r *http.Request) (owner, bool) { return owner{local: true}, l.knows(r) }
	l.listener, l.secret, l.session, l.entered = listener, visit.Random(), visit.Random(), make(map[string]struct{})
	l.server = webserver.New(l.handler(l.at))
	l.server.ReadTimeout, l.server.WriteTimeout, l.server.MaxHeaderBytes = 10*time.Second, time.Minute, 64<<10
	l.server.ErrorLog = slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)
	l.server.SetKeepAlivesEnabled(false)
	server := l.server
	asking.SystemOf(c.server).Go("the pages of connect", func() {
		_ = server.Serve(webserver.Limit(ending{listener}, webserver.Limits{Connections: maxConnections}))
		l.forget(server)
	})
	return nil
}

// ending is a listener that ends with its deadline.
type ending struct{ net.Listener }

func (e ending) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // else the server tries again
	}
	return conn, err
}

func (l *local) forget(server *http.Server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server == server {
		l.listener.Close()
		l.listener, l.server = nil, nil
	}
}

// site returns where the pages are, once open was called.
func (l *local) site() *site {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// address is that of a page, with the secret.
func (l *local) address(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at.address("open", l.secret, id)
}

// knows reports whether a browser was let in.
func (l *local) knows(r *http.Request) bool {
	cookie, err := r.Cookie(localSession)
	l.mu.Lock()
	defer l.mu.Unlock()
	return err == nil && oauth.NewSecret(cookie.Value).Equal(oauth.NewSecret(l.session))
}

// enter lets a browser in that has the address of a page first.
func (l *local) enter(secret, id string) (session string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, before := l.entered[id]
	if before || len(l.entered) >= maxEntered || !oauth.NewSecret(secret).Equal(oauth.NewSecret(l.secret)) {
		return "", false
	}
	l.entered[id] = struct{}{}
	return l.session, true
}

// maxConnections bounds the connections of that port: a browser needs a few.
const maxConnections = 64

// maxEntered bounds the pages of one port.
const maxEntered = 10_000

// handler serves the site, and the addresses that let a browser in.
func (l *local) handler(s *site) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != s.base.Host { // DNS rebinding
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		rest, ok := strings.CutPrefix(r.URL.Path, s.path("open")+"/")
		if !ok || r.Method != http.MethodGet {
			s.ServeHTTP(w, r)
			return
		}
		visit.SetHeaders(w.Header(), "")
		secret, id, _ := strings.Cut(rest, "/")
		if p, err := s.c.pageOf(r.Context(), owner{local: true}, id); err != nil || p == nil {
			s.refuse(w, r, "a page that there is not")
			return
		}
		if !l.knows(r) {
			session, ok := l.enter(secret, id)
			if !ok {
				s.refuse(w, r, "the address of a page that was used before, or guessed")
				return
			}
			s.cookies.Set(w, localSession, session, 12*time.Hour)
		}
		http.Redirect(w, r, s.path("start", id), http.StatusFound)
	})
}

// close ends the pages: what is under way has a second.
func (l *local) close() error {
	l.mu.Lock()
	l.closed = true
	server := l.server
	l.mu.Unlock()
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		return server.Close()
	}
	return nil
}

// pageAddress is the address of an owner's page, with the place of its id.
func (c *Connector) pageAddress(who owner) string {
	if who.local {
		return c.local.address(mcpserver.ElicitationID)
	}
	return c.site.address("start", mcpserver.ElicitationID)
}
