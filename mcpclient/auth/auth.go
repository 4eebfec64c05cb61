package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/store"
)

// Options says how to authorize. Vault and Keys are required.
type Options struct {
	// System is where the keepers live. Nil makes one of their own, which Close ends.
	System *actors.System
	// Vault keeps tokens and registrations, sealed with the first of Keys; all of them open.
	// A key has 32 random bytes.
	Vault store.Vault
	Keys  [][]byte
	// Profile distinguishes the accounts of several people. Empty is one and the same.
	Profile string
	// Logger takes structured logs. Nil means the system's.
	Logger *slog.Logger
	// Authorize asks a person. With nil a refused request waits for a login by another process,
	// for Patience at most, and a connection for as long as it takes.
	Authorize AuthorizeFunc
	// Patience bounds an authorization, from the refusal to the token. Zero means 10 minutes.
	Patience time.Duration
	// ClientName is shown to people by authorization servers. Empty is "Troupe".
	ClientName string
	// ClientMetadataURL is the https address of the published Client ID Metadata Document. It is
	// the client's ID at authorization servers that read such documents; empty is none.
	ClientMetadataURL string
	// RedirectURI is where browsers are sent at the end. Empty is a port of this machine, on
	// which the program listens meanwhile.
	RedirectURI string

	client *http.Client // of tests
}

// Format shows nothing of the keys.
func (o Options) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, o.String()) }

// LogValue is String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// String shows nothing of the keys.
func (o Options) String() string {
	return fmt.Sprintf("Options{Profile:%q ClientName:%q ClientMetadataURL:%q RedirectURI:%q Keys:%d}", o.Profile, o.ClientName, o.ClientMetadataURL, o.RedirectURI, len(o.Keys))
}

// Authorizer authorizes clients at all their servers. Its methods may be used from any
// goroutine.
type Authorizer struct {
	opts      Options
	ownSystem bool

	log   *slog.Logger
	vault *vault.Vault

	credentials sync.Map // the [Credential] of a server and its OAuth
}

// New returns an authorizer.
func New(opts Options) (*Authorizer, error) {
	if opts.Vault == nil {
		return nil, errors.New("auth: Options.Vault is required")
	}
	opts.Patience = cmp.Or(opts.Patience, 10*time.Minute)
	opts.ClientName = cmp.Or(opts.ClientName, "Troupe")
	if opts.ClientMetadataURL != "" {
		if err := oauth.CheckClientID(opts.ClientMetadataURL); err != nil {
			return nil, fmt.Errorf("auth: Options.ClientMetadataURL: %w", err)
		}
	}
	v, err := vault.New(opts.Vault, opts.Keys)
	if err != nil {
		return nil, fmt.Errorf("auth: Options.Keys: %w", err)
	}
	own := opts.System == nil
	if own {
		if opts.System, err = actors.NewSystem(&actors.Options{Logger: opts.Logger}); err != nil {
			return nil, err
		}
	}
	return &Authorizer{opts: opts, ownSystem: own, log: cmp.Or(opts.Logger, opts.System.Log()), vault: v}, nil
}

// endTime bounds Close.
const endTime = 5 * time.Second

// Close ends what is under way, if the system of the keepers is their own.
func (a *Authorizer) Close() error {
	if !a.ownSystem {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return a.opts.System.Shutdown(ctx)
}

// For implements [mcpclient.Authorizer]. Servers with the same address and the same OAuth share
// one keeper; of their functions OAuth.Assertion, it calls that of the first server.
func (a *Authorizer) For(s *mcpclient.Server) (mcpclient.Auth, error) {
	c, err := a.credential(s)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// ErrNotWanted is what [Authorizer.Login] returns for a server that names no authorization server.
var ErrNotWanted = errors.New("auth: the server wants no login")

// Login logs in at a server that has not asked for it yet, such as one that refuses only calls,
// unless there is a login for the scopes of its OAuth.
func (a *Authorizer) Login(ctx context.Context, s *mcpclient.Server) error {
	c, err := a.credential(s)
	if err != nil {
		return err
	}
	if _, err := c.loaded.Wait(ctx); err != nil {
		return err
	}
	err = c.ask(ctx, func(w *waiter) any { return &wanted{w} })
	e, ok := errors.AsType[*LoginError](err)
	if !ok || e.Err != nil {
		return err
	}
	done := new(actors.Reply[struct{}])
	defer e.Wait(func(err error) { done.Complete(struct{}{}, err) })()
	_, err = done.Wait(ctx)
	return err
}

func (a *Authorizer) credential(s *mcpclient.Server) (*Credential, error) {
	endpoint, cfg := s.URL, &s.OAuth
	at, err := addressOf(endpoint)
	if err == nil {
		err = check(cfg)
	}
	if err != nil {
		return nil, err
	}
	idp := cfg.IdentityProvider
	key := fmt.Sprintf("%q", []any{
		at, cfg.Off, cfg.Issuer, cfg.AnyIssuer, cfg.ClientID, cfg.ClientSecret, cfg.Scopes, cfg.Grant, cfg.PrivateKey, cfg.KeyID, cfg.NoResource,
		cfg.Resource, cfg.MetadataURL, cfg.ClientMetadataURL, cfg.RedirectURI, cfg.AuthMethod,
		idp.Issuer, idp.ClientID, idp.ClientSecret,
	})
	for {
		before, found := a.credentials.Load(key)
		if found && !before.(*Credential).over.Load() {
			return before.(*Credential), nil
		}
		c := &Credential{a: a, server: *s, address: at}
		if c.http, err = a.client(endpoint, cfg); err != nil {
			return nil, err
		}
		if c.keeper, err = a.opts.System.Spawn(actors.Spec{Kind: actors.KindKeeper, New: func() actors.Actor { return newKeeper(c) }, OnStop: c.stopped}); err != nil {
			return nil, err
		}
		if found && a.credentials.CompareAndSwap(key, before, c) {
			return c, nil
		}
		if _, found = a.credentials.LoadOrStore(key, c); !found {
			return c, nil
		}
		c.keeper.Stop() // another connection was first, or the keeper of that one has failed, too
	}
}

// Format shows nothing of the keys, and of the secrets that are configured.
func (a *Authorizer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "an authorizer") }

// client returns what asks authorization servers: it contacts public addresses only, and those
// that a user has named (SECA-16). This machine may be named by a server on it.
func (a *Authorizer) client(endpoint string, cfg *mcpclient.OAuth) (*http.Client, error) {
	if a.opts.client != nil {
		return a.opts.client, nil
	}
	o := netguard.Options{Loopback: oauth.OnLoopback(endpoint)}
	for _, named := range []string{endpoint, cfg.Issuer, cfg.MetadataURL, cfg.IdentityProvider.Issuer} {
		if u, err := url.Parse(named); err == nil && u.Host != "" {
			o.Allow = append(o.Allow, u.Hostname())
		}
	}
	guard, err := netguard.New(&o)
	if err != nil {
		return nil, err
	}
	return guard.Client(&netguard.ClientOptions{Proxy: http.ProxyFromEnvironment}), nil
}

// Credential authorizes the requests to one MCP server. Its methods may be used from any
// goroutine.
type Credential struct {
	a      *Authorizer
	server mcpclient.Server // as it was given
	address
	http   *http.Client
	keeper actors.Ref

	loaded actors.Reply[struct{}] // what the vault has was read, once
	now    atomic.Pointer[tokens] // nil without any; what it points to does not change
	nonce  atomic.Value           // a string: that the server wants in DPoP proofs
	over   atomic.Bool            // the keeper has stopped
	open   sync.Map               // waiters that the keeper has to answer
}

// shown is the address of the server for people: without its query, and without values of the environment.
func (c *Credential) shown() string { return c.server.Redact(c.endpoint) }

// Format shows the server, and nothing of its secrets.
func (c *Credential) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "the authorization at "+c.shown())
}

// ErrStopped is the error of requests whose keeper has failed, or whose system ends.
var ErrStopped = errors.New("auth: the keeper of the authorization has stopped")

// stopped ends what waits for the keeper.
func (c *Credential) stopped(error) {
	c.over.Store(true)
	c.loaded.Complete(struct{}{}, ErrStopped)
	c.open.Range(func(w, _ any) bool {
		w.(*waiter).end(ErrStopped)
		return true
	})
}

// living returns c, or another in its place if its keeper has failed: connections keep theirs.
func (c *Credential) living() *Credential {
	if c.over.Load() {
		if next, err := c.a.credential(&c.server); err == nil {
			return next
		}
	}
	return c
}

// waiter is told once that a request can be sent again, or why not.
type waiter struct {
	of         *Credential
	once       sync.Once
	done       func(error)
	unattended bool // no person is asked for its sake

	// Of one that waits for a login.
	before *tokens   // that were refused; nil for none
	scopes []string  // that were missing, with those that it had; nil if that is not what was wrong
	until  time.Time // when it is given up; zero is never
}

// newWaiter makes a waiter, which must be part of a message to the keeper.
func (c *Credential) newWaiter(done func(error)) *waiter {
	w := &waiter{of: c, done: done}
	c.open.Store(w, nil)
	return w
}

func (w *waiter) end(err error) {
	w.once.Do(func() {
		w.of.open.Delete(w)
		w.done(err)
	})
}

// send has the keeper answer the waiter of a message.
func (c *Credential) send(msg any, w *waiter) {
	c.keeper.Send(msg)
	if c.over.Load() {
		w.end(ErrStopped)
	}
}

// ask puts a question to the keeper, and waits for its answer.
func (c *Credential) ask(ctx context.Context, question func(*waiter) any) error {
	reply := new(actors.Reply[struct{}])
	w := c.newWaiter(func(err error) { reply.Complete(struct{}{}, err) })
	defer c.open.Delete(w)
	c.send(question(w), w)
	_, err := reply.Wait(ctx)
	return err
}

// Authorize sets the header Authorization, if there is a token. It waits for the renewal of one
// that has expired.
func (c *Credential) Authorize(ctx context.Context, req *http.Request) error {
	c = c.living()
	if _, err := c.loaded.Wait(ctx); err != nil {
		return err
	}
	t := c.now.Load()
	if t == nil {
		return nil // the server says whether it wants one
	}
	if t.expired(time.Now()) && t.Refresh != "" {
		_ = c.ask(ctx, func(w *waiter) any { return &expired{used: t.Access, waiter: w} }) // if that fails, the server says what follows
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if t = c.now.Load(); t == nil {
			return nil
		}
	}
	req.Header.Set("Authorization", t.Type+" "+t.Access)
	if t.dpop == nil {
		return nil
	}
	nonce, _ := c.nonce.Load().(string)
	proof, err := t.dpop.Proof(&oauth.Proof{Method: req.Method, URL: req.URL.String(), Token: oauth.NewSecret(t.Access), Nonce: nonce})
	if err != nil {
		return err
	}
	req.Header.Set("Dpop", proof)
	return nil
}

// Denied decides what follows a refusal: again is true if the request is to be sent once more
// now. A [*LoginError] says that it can be later.
func (c *Credential) Denied(ctx context.Context, req *http.Request, status int, header http.Header) (again bool, err error) {
	c = c.living()
	_, used, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	challenges := oauth.ParseChallenges(header.Values("WWW-Authenticate"))
	if nonce := oauth.DPoPNonce(header); nonce != "" && challenges.HasError(oauth.CodeUseDPoPNonce) { // RFC 9449 section 9
		c.nonce.Store(nonce)
		return true, nil
	}
	err = c.ask(ctx, func(w *waiter) any {
		w.unattended = httpguard.IsUnattended(ctx)
		return &refused{used: used, status: status, challenges: challenges, waiter: w}
	})
	return err == nil, err
}

// elsewhere reports that a person logs in with another process.
func (c *Credential) elsewhere() bool {
	return c.a.opts.Authorize == nil && c.server.OAuth.Grant == mcpclient.GrantPerson
}

// wait waits for other tokens than were refused with e, at most until then; zero is without a
// bound.
func (c *Credential) wait(e *LoginError, until time.Time, resume func(error)) (leave func()) {
	w := c.newWaiter(resume)
	w.before, w.scopes, w.until = e.before, e.scopes, until
	c.send(&awaits{w}, w)
	return func() {
		c.open.Delete(w)
		c.keeper.Send(&leaves{w})
	}
}
