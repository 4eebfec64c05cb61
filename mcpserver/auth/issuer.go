package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
)

// issuer is an authorization server: its keys as they were last fetched, or its endpoint.
type issuer struct {
	Issuer
	hc       *http.Client
	loopback bool
	log      *slog.Logger
	asking   chan struct{} // has room for the questions that are out at once

	mu       sync.Mutex    // guards the fields below, of goroutines of net/http; it is not held while one fetches
	set      *oauth.KeySet // nil before the first
	endpoint string        // for questions; "" before it is known
	fetched  time.Time     // the last time that it succeeded
	next     time.Time     // not before then
	busy     chan struct{} // closed when the fetch under way has ended; nil without one
	failure  error         // of the last fetch
}

const (
	// refetch is the least time between two fetches: any client can send unknown key ids.
	refetch = time.Minute
	// retry is the same while there are no keys at all.
	retry = 5 * time.Second
	// maxAge is when keys are fetched anew, so that one that was withdrawn is not heeded for ever.
	maxAge = 15 * time.Minute
	// fetchTime bounds a fetch, with all its requests.
	fetchTime = 10 * time.Second
	// maxAsking bounds the questions about tokens that are out at once.
	maxAsking = 64
)

func newIssuer(i Issuer, hc *http.Client, log *slog.Logger) (*issuer, error) {
	n := &issuer{Issuer: i, hc: hc, loopback: oauth.OnLoopback(i.URL), log: log, asking: make(chan struct{}, maxAsking)}
	if _, err := oauth.ServerAddresses(i.URL, n.loopback); err != nil {
		return nil, err
	}
	if i.Introspect != nil && (i.Keys != nil || i.KeysURL != "") {
		return nil, errors.New("Introspect and keys exclude each other")
	}
	if i.Local != nil && (i.Introspect != nil || i.Keys != nil || i.KeysURL != "") {
		return nil, errors.New("Local excludes Introspect and keys")
	}
	if i.Introspect != nil {
		n.endpoint = i.Introspect.URL
	}
	if i.Keys != nil {
		var err error
		if n.set, err = oauth.ParseKeySet(i.Keys); err != nil {
			return nil, err
		}
	}
	if n.hc != nil {
		return n, nil
	}
	var inside []string // the user has named these hosts
	for _, at := range []string{i.URL, i.KeysURL, n.endpoint} {
		if u, err := url.Parse(at); err == nil && u.Host != "" {
			inside = append(inside, u.Host)
		}
	}
	guard, err := netguard.New(&netguard.Options{Allow: inside, Loopback: n.loopback})
	if err != nil {
		return nil, err
	}
	n.hc = guard.Client(nil)
	return n, nil
}

// keys returns the keys of the issuer, fetched anew where none fits a token, but seldom. Old
// ones are kept if that fails.
func (n *issuer) keys(ctx context.Context, id, algorithm string) (*oauth.KeySet, error) {
	if n.Keys != nil {
		return n.set, nil
	}
	err := n.refresh(ctx, func(now time.Time) bool { return !n.set.Has(id, algorithm) || now.Sub(n.fetched) > maxAge }, func() bool { return n.set.Has(id, algorithm) }, n.fetchKeys)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil {
		return nil, errors.Join(errors.New("the keys of the issuer are not known"), err)
	}
	return n.set, nil
}

// refresh fetches, on this goroutine, if it is wanted and may be, and else waits for a fetch
// under way unless what is there will do. Wanted and will do are called under the lock.
func (n *issuer) refresh(ctx context.Context, wanted func(now time.Time) bool, willDo func() bool, fetch func(context.Context) (apply func(), err error)) error {
	now := time.Now()
	n.mu.Lock()
	busy := n.busy
	switch {
	case busy != nil && willDo():
		busy = nil
	case busy != nil:
	case wanted(now) && !now.Before(n.next):
		n.busy = make(chan struct{})
		n.mu.Unlock()
		n.fetch(ctx, fetch)
		n.mu.Lock()
	}
	err := n.failure
	n.mu.Unlock()
	if busy == nil {
		return err
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fetch carries out the fetch under way, and ends it. A client that goes away does not: others
// wait for it.
func (n *issuer) fetch(ctx context.Context, fetch func(context.Context) (func(), error)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	var apply func()
	err := errors.New("fetching from the issuer has panicked")
	defer func() { n.ended(apply, err) }()
	apply, err = fetch(ctx)
}

func (n *issuer) ended(apply func(), err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.next, n.failure = now.Add(refetch), err
	if err == nil {
		apply()
		n.fetched = now
		if n.Local != nil { // asking costs nothing
			n.next = now
		}
	} else {
		n.log.Warn("an issuer of tokens cannot be asked", "issuer", n.URL, "error", err)
		if n.set == nil {
			n.next = now.Add(retry)
		}
	}
	close(n.busy)
	n.busy = nil
}

func (n *issuer) fetchKeys(ctx context.Context) (func(), error) {
	if n.Local != nil {
		raw, err := n.Local.KeySet(ctx)
		if err != nil {
			return nil, err
		}
		set, err := oauth.ParseKeySet(raw)
		return func() { n.set = set }, err
	}
	at := n.KeysURL
	if at == "" {
		s, err := oauth.FetchServer(ctx, n.hc, n.URL, n.loopback)
		if err != nil {
			return nil, err
		}
		at = s.JWKS
	}
	if at == "" {
		return nil, errors.New("the metadata of the issuer has no jwks_uri")
	}
	set, err := oauth.FetchKeySet(ctx, n.hc, at, n.loopback)
	if err != nil {
		return nil, err
	}
	return func() { n.set = set }, nil
}

func (n *issuer) fetchEndpoint(ctx context.Context) (func(), error) {
	s, err := oauth.FetchServer(ctx, n.hc, n.URL, n.loopback)
	if err == nil && s.IntrospectionEndpoint == "" {
		err = errors.New("the metadata of the issuer has no introspection_endpoint")
	}
	if err != nil {
		return nil, err
	}
	return func() { n.endpoint = s.IntrospectionEndpoint }, nil
}

// introspect asks the issuer about a token.
func (n *issuer) introspect(ctx context.Context, token oauth.Secret, c *claims) error {
	known := func() bool { return n.endpoint != "" }
	err := n.refresh(ctx, func(time.Time) bool { return !known() }, known, n.fetchEndpoint)
	n.mu.Lock()
	at := n.endpoint
	n.mu.Unlock()
	if at == "" {
		return errors.Join(errors.New("the endpoint of the issuer is not known"), err)
	}
	select {
	case n.asking <- struct{}{}:
		defer func() { <-n.asking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	method := oauth.AuthNone
	if n.Introspect.ClientSecret != "" {
		method = oauth.AuthBasic
	}
	client := &oauth.Client{Server: &oauth.Server{Issuer: n.URL, IntrospectionEndpoint: at}, ID: n.Introspect.ClientID, Method: method, Secret: oauth.NewSecret(n.Introspect.ClientSecret)}
	if err := client.Introspect(ctx, n.hc, token, c); err != nil {
		n.log.Warn("an issuer of tokens cannot be asked", "issuer", n.URL, "error", err)
		return err
	}
	return nil
}
