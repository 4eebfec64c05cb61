package weblink

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// renewPause is the shortest time between two askings for headers because of a refusal.
const renewPause = time.Second

// headerAuth has the headers of [Options].HeadersFunc: asked for at each connect, and once
// more when the server refuses a request with 401. It is a [httpguard.Auth].
type headerAuth struct {
	from func(context.Context) (map[string]string, error)
	log  *slog.Logger
	turn chan struct{} // has room for the one that asks

	header  atomic.Pointer[http.Header] // replaced whole; nil before the first
	renewed time.Time                   // when they were last asked for because of a refusal; of the one that has the turn
}

// newAuth returns what authorizes requests, nil without a HeadersFunc. It asks for the
// first headers.
func (s *Server) newAuth(ctx context.Context) (httpguard.Auth, error) {
	if s.HeadersFunc == nil {
		return s.auth, nil
	}
	a := &headerAuth{from: s.HeadersFunc, log: s.log, turn: make(chan struct{}, 1)}
	return a, a.ask(ctx)
}

// ask replaces the headers.
func (a *headerAuth) ask(ctx context.Context) error {
	more, err := a.from(ctx)
	if err != nil {
		return fmt.Errorf("asking for headers: %w", err)
	}
	header, err := headerOf(more)
	if err != nil {
		return err
	}
	a.header.Store(&header)
	return nil
}

// Authorize implements [httpguard.Auth].
func (a *headerAuth) Authorize(_ context.Context, req *http.Request) error {
	maps.Copy(req.Header, *a.header.Load())
	return nil
}

// Denied implements [httpguard.Auth]: one request asks, the others that were refused wait for it.
func (a *headerAuth) Denied(ctx context.Context, req *http.Request, status int, _ http.Header) (again bool, err error) {
	if status != http.StatusUnauthorized {
		return false, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	if !a.sentWith(req) { // they were asked for meanwhile
		return true, nil
	}
	if time.Since(a.renewed) < renewPause {
		return false, nil
	}
	a.renewed = time.Now()
	a.log.Debug("the server refuses the headers; asking for them again")
	if err := a.ask(ctx); err != nil {
		return false, err
	}
	return !a.sentWith(req), nil
}

// sentWith reports whether a request has the headers of now.
func (a *headerAuth) sentWith(req *http.Request) bool {
	for name, values := range *a.header.Load() {
		if !slices.Equal(req.Header[name], values) {
			return false
		}
	}
	return true
}
