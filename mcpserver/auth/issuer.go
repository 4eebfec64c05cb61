package auth

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
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
	asking   chan struct{}         // has room for the questions that are out at once
	fetching chan struct{}         // has room for one: the request that fetches, for which others wait
	now      atomic.Pointer[known] // never nil
}

// known is what an issuer is known by.
type known struct {
	set      *oauth.KeySet // nil before the first
	endpoint string        // for questions; "" before it is known
	fetched  time.Time     // the last time that it succeeded
	next     time.Time     // not before then
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
	n := &issuer{Issuer: i, hc: hc, loopback: oauth.OnLoopback(i.URL), log: log, asking: make(chan struct{}, maxAsking), fetching: make(chan struct{}, 1)}
	var first known
	n.now.Store(&first)
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
		first.endpoint = i.Introspect.URL
	}
	if i.Keys != nil {
		var err error
		if first.set, err = oauth.ParseKeySet(i.Keys); err != nil {
			return nil, err
		}
		if first.set.Empty() {
			return nil, errors.New("an issuer's Keys have no key that can verify a token")
		}
	}
	if n.hc != nil {
		return n, nil
	}
	var inside []string // the user has named these hosts
	for _, at := range []string{i.URL, i.KeysURL, first.endpoint} {
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
		return n.now.Load().set, nil
	}
	has := func(k *known) bool { return k.set.Has(id, algorithm) }
	k, err := n.refresh(ctx, has, maxAge, n.fetchKeys)
	if k.set == nil {
		return nil, errors.Join(errors.New("the keys of the issuer are not known"), err)
	}
	return k.set, nil
}

// refresh returns what is known of the issuer. It fetches, on this goroutine, what does not do
// or is older than age, if it may, and waits for a fetch under way unless what is there will do.
func (n *issuer) refresh(ctx context.Context, does func(*known) bool, age time.Duration, fetch func(context.Context, *known) error) (*known, error) {
	due := func(k *known) bool {
		now := time.Now()
		return (!does(k) || now.Sub(k.fetched) > age) && !now.Before(k.next)
	}
	k := n.now.Load()
	if !due(k) {
		return k, k.failure
	}
	select {
	case n.fetching <- struct{}{}:
		defer func() { <-n.fetching }()
		if k = n.now.Load(); due(k) { // else another has just fetched
			n.fetch(ctx, fetch)
			k = n.now.Load()
		}
		return k, k.failure
	default:
	}
	if does(k) {
		return k, k.failure
	}
	select {
	case n.fetching <- struct{}{}:
		<-n.fetching
		return n.now.Load(), nil
	case <-ctx.Done():
		return n.now.Load(), context.Cause(ctx)
	}
}

// fetch carries out a fetch, and keeps what is known then. A client that goes away does not end
// it: others wait for it.
func (n *issuer) fetch(ctx context.Context, fetch func(context.Context, *known) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	k := *n.now.Load()
	err := errors.New("fetching from the issuer has panicked")
	defer func() {
		now := time.Now()
		k.next, k.failure = now.Add(refetch), err
		if err == nil {
			k.fetched = now
			if n.Local != nil { // asking costs nothing
				k.next = now
			}
		} else {
			n.log.Warn("an issuer of tokens cannot be asked", "issuer", n.URL, "error", err)
			if k.set == nil {
				k.next = now.Add(retry)
			}
		}
		n.now.Store(&k)
	}()
	err = fetch(ctx, &k)
}

func (n *issuer) fetchKeys(ctx context.Context, k *known) error {
	if n.Local != nil {
		raw, err := n.Local.KeySet(ctx)
		if err != nil {
			return err
		}
		return k.keep(oauth.ParseKeySet(raw))
	}
	at := n.KeysURL
	if at == "" {
		s, err := oauth.FetchServer(ctx, n.hc, n.URL, n.loopback)
		if err != nil {
			return err
		}
		at = s.JWKS
	}
	if at == "" {
		return errors.New("the metadata of the issuer has no jwks_uri")
	}
	return k.keep(oauth.FetchKeySet(ctx, n.hc, at, n.loopback))
}

// keep takes keys that were fetched.
func (k *known) keep(set *oauth.KeySet, err error) error {
	if err == nil {
		k.set = set
	}
	return err
}

func (n *issuer) fetchEndpoint(ctx context.Context, k *known) error {
	s, err := oauth.FetchServer(ctx, n.hc, n.URL, n.loopback)
	if err != nil {
		return err
	}
	if s.IntrospectionEndpoint == "" {
		return errors.New("the metadata of the issuer has no introspection_endpoint")
	}
	k.endpoint = s.IntrospectionEndpoint
	return nil
}

// introspect asks the issuer about a token.
func (n *issuer) introspect(ctx context.Context, token oauth.Secret, c *claims) error {
	k, err := n.refresh(ctx, func(k *known) bool { return k.endpoint != "" }, math.MaxInt64, n.fetchEndpoint)
	if k.endpoint == "" {
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
	client := &oauth.Client{Server: &oauth.Server{Issuer: n.URL, IntrospectionEndpoint: k.endpoint}, ID: n.Introspect.ClientID, Method: method, Secret: oauth.NewSecret(n.Introspect.ClientSecret)}
	if err := client.Introspect(ctx, n.hc, token, c); err != nil {
		n.log.Warn("an issuer of tokens cannot be asked", "issuer", n.URL, "error", err)
		return err
	}
	return nil
}
