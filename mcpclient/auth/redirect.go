package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// callback takes the answer of a browser, or of a person who pastes it.
type callback struct {
	uri       string
	redirects chan redirect
	server    *http.Server // nil where browsers go elsewhere
	start     func(owner string, f func())
}

// callbackPath is where browsers are sent on this machine.
const callbackPath = "/callback"

// listen makes the callback, at the port of the address before if that is free: the client is
// registered with it. The port is bound before any address is shown.
func (l *login) listen(ctx context.Context, before string) (*callback, error) {
	b := &callback{uri: l.a.opts.RedirectURI, redirects: make(chan redirect), start: l.a.opts.System.Go}
	if b.uri != "" {
		return b, nil
	}
	var config net.ListenConfig
	var listener net.Listener
	err := errors.New("none is known")
	if u, bad := url.Parse(before); bad == nil && u.Hostname() == "127.0.0.1" && u.Path == callbackPath {
		listener, err = config.Listen(ctx, "tcp4", u.Host)
	}
	if err != nil {
		listener, err = config.Listen(ctx, "tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("listening for the browser: %w", err)
	}
	host := listener.Addr().String()
	b.uri = "http://" + host + callbackPath
	b.server = &http.Server{
		Handler: b.handler(host), ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(l.a.log.Handler(), slog.LevelDebug),
	}
	b.server.SetKeepAlivesEnabled(false)
	b.start("the redirect of a login", func() { _ = b.server.Serve(listener) })
	return b, nil
}

// close closes the port at once, and then the connections: the browser gets its page first.
func (b *callback) close() {
	if b.server == nil {
		return
	}
	b.start("the redirect of a login", func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if b.server.Shutdown(ctx) != nil {
			_ = b.server.Close()
		}
	})
}

// closeTime bounds the end of the callback.
const closeTime = time.Second

// handler takes redirects. What is not the answer changes nothing: any page may send a browser
// here. Nothing of what came is shown.
func (b *callback) handler(host string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if r.Method != http.MethodGet || r.URL.Path != callbackPath || r.Host != host {
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
