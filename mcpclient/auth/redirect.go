package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/webserver"
)

// callback takes the answer of a browser, or of a person who pastes it.
type callback struct {
	uri       string
	redirects chan redirect
	server    *http.Server // nil where browsers go elsewhere
	listeners []net.Listener
	start     func(owner string, f func())
}

// callbackURI is where browsers are sent on this machine, at any port.
const callbackURI = "http://127.0.0.1/callback"

// listen makes the callback: where the configuration says, else at the port of the address
// before if that is free, because the client is registered with it. The port is bound before
// any address is shown.
func (l *login) listen(ctx context.Context, before string) (*callback, error) {
	b := &callback{uri: cmp.Or(l.server.OAuth.RedirectURI, l.a.opts.RedirectURI), redirects: make(chan redirect), start: l.a.opts.System.Go}
	u, err := url.Parse(cmp.Or(l.server.OAuth.RedirectURI, callbackURI))
	if err != nil || b.uri != "" && (l.server.OAuth.RedirectURI == "" || !listens(u)) {
		return b, err
	}
	fixed := u.Port()
	try := []string{fixed}
	if fixed == "" {
		try = []string{"0"}
		if old, err := url.Parse(before); err == nil && old.Hostname() == u.Hostname() && old.Path == u.Path {
			try = []string{old.Port(), "0"}
		}
	}
	for _, port := range try {
		if b.listeners, err = listenAt(ctx, u.Hostname(), port); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listening for the browser: %w", err)
	}
	_, port, err := net.SplitHostPort(b.listeners[0].Addr().String())
	if err != nil {
		return nil, err
	}
	u.Host = net.JoinHostPort(u.Hostname(), port)
	b.uri = u.String()
	b.server = webserver.New(b.handler(u.Host, cmp.Or(u.Path, "/")))
	b.server.ReadTimeout, b.server.WriteTimeout = 5*time.Second, 10*time.Second
	b.server.ErrorLog = slog.NewLogLogger(l.a.log.Handler(), slog.LevelDebug)
	b.server.SetKeepAlivesEnabled(false)
	for _, listener := range b.listeners {
		b.start("the redirect of a login", func() { _ = b.server.Serve(webserver.Limit(listener, webserver.Limits{Connections: maxConnections})) })
	}
	return b, nil
}

// listenAt binds a port of this machine; where browsers may take a name for one of two
// addresses, at both, so that no other program has the other.
func listenAt(ctx context.Context, host, port string) (all []net.Listener, err error) {
	var config net.ListenConfig
	if ip := net.ParseIP(host); ip != nil {
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
		return []net.Listener{listener}, err
	}
	first, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	_, port, err = net.SplitHostPort(first.Addr().String())
	if err == nil {
		var second net.Listener
		if second, err = config.Listen(ctx, "tcp6", net.JoinHostPort("::1", port)); err == nil {
			return []net.Listener{first, second}, nil
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errors.Join(err, first.Close())
	}
	return []net.Listener{first}, nil // this machine has no ::1
}

// close closes the port before it returns, so that the next login may have it, and then the
// connections: the browser gets its page first.
func (b *callback) close() {
	if b.server == nil {
		return
	}
	for _, listener := range b.listeners {
		_ = listener.Close()
	}
	b.start("the redirect of a login", func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if b.server.Shutdown(ctx) != nil {
			_ = b.server.Close()
		}
	})
}

// maxConnections bounds the connections to the callback: a browser needs a few.
const maxConnections = 64

// closeTime bounds the end of the callback.
const closeTime = time.Second

// handler takes redirects. What is not the answer changes nothing: any page may send a browser
// here. Nothing of what came is shown.
func (b *callback) handler(host, path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet || r.URL.Path != path || r.Host != host {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		one := redirect{r.URL.RawQuery, make(chan error, 1)}
		var err error
		select {
		case b.redirects <- one:
			select {
			case err = <-one.answer:
			case <-r.Context().Done():
				return
			}
		case <-time.After(5 * time.Second):
			err = oauth.ErrForeign
		case <-r.Context().Done():
			return
		}
		switch {
		case errors.Is(err, oauth.ErrForeign):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, page, "This is not the answer to a login of this program. Nothing has changed.")
		case err != nil:
			fmt.Fprint(w, page, "The login did not succeed. The program says why. You can close this page.")
		default:
			fmt.Fprint(w, page, "The program has your answer, and goes on. You can close this page.")
		}
	})
}

const page = "<!doctype html><meta charset=utf-8><title>Troupe</title><p>"
