package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
)

// Options says how accounts are connected. Store, Keys and Providers are required, and Base and
// Login unless the server is on stdio only.
type Options struct {
	// Base is the address below which a [Connector] serves its pages: https, or http on this
	// machine. Providers send browsers back to Base + "/callback/" + the provider's name.
	Base string
	// Hosts are further values of the header Host by which pages are reached, beside the host of Base: what
	// a proxy in front makes of it. By others there are no pages.
	Hosts []string
	// Name is what pages call the server. Empty is the host of Base.
	Name string
	// Store keeps accounts and open pages. Instances of a server share it, and give it as
	// mcpserver.Options.Records, too.
	Store Store
	// Keys seal what is secret: 32 random bytes each; the first seals, all open. See [Keys].
	Keys [][]byte
	// Login finds out who visits a page. It must know people by the issuer and subject that
	// the principals of MCP requests have.
	Login Login
	// Providers are the services whose accounts can be connected.
	Providers []Provider
	// NoWait lets handlers return at once where a page is needed, and run again when the
	// client calls again: with -32042 in 2025-11-25. Otherwise they wait.
	NoWait bool
	// Logger takes structured logs: a line for each page that is made, and for each account
	// that is connected, refused or revoked. Nil discards them.
	Logger *slog.Logger
	// HTTP is for the endpoints of providers. Nil is a client that contacts public addresses by
	// https, and this machine if Base is there.
	HTTP *http.Client
	// Transport carries the requests of handlers. Nil is http.DefaultTransport.
	Transport http.RoundTripper
}

// Store is a part of store.Store.
type Store interface {
	store.Vault
	store.Records
}

// Keys reads the keys of the environment variable TROUPE_KEY, or if that is empty those of the
// file, which is made where there is none. No other user may be able to read it.
func Keys(file string) ([][]byte, error) { return vault.Keys(os.Getenv(vault.KeyVariable), file) }

// Connector connects accounts for the handlers of one server, and serves the pages for that. Its
// methods may be used from any goroutine.
type Connector struct {
	server    *mcpserver.Server
	opts      Options
	log       *slog.Logger
	store     Store
	vault     *vault.Vault
	seal      *seal.Keys
	providers map[string]*provider
	names     []string // of providers, as they are listed
	site      *site    // nil without Base
	local     local
}

// New returns a connector for the handlers of a server. It refuses options with which accounts
// would not be safe.
func New(s *mcpserver.Server, opts Options) (*Connector, error) {
	c := &Connector{
		server: s, opts: opts, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)), store: opts.Store,
		providers: make(map[string]*provider),
	}
	c.opts.Transport = cmp.Or(opts.Transport, http.DefaultTransport)
	switch {
	case s == nil || opts.Store == nil:
		return nil, errors.New("connect: the server or Options.Store is missing")
	case len(opts.Keys) == 0:
		return nil, errors.New("connect: Options.Keys is empty: tokens are not kept in clear; see connect.Keys")
	case len(opts.Providers) == 0:
		return nil, errors.New("connect: Options.Providers is empty")
	case opts.Base != "" && opts.Login == nil:
		return nil, errors.New("connect: Options.Login is missing: a page must know who visits it")
	}
	var err error
	if c.vault, err = vault.New(opts.Store, opts.Keys); err != nil {
		return nil, fmt.Errorf("connect: Options.Keys: %w", err)
	}
	if c.seal, err = seal.New("troupe connect key", "troupe connect", opts.Keys...); err != nil {
		return nil, fmt.Errorf("connect: Options.Keys: %w", err)
	}
	loopback := opts.Base == ""
	if opts.Base != "" {
		base, err := checkBase(opts.Base)
		if err != nil {
			return nil, err
		}
		loopback = oauth.OnLoopback(opts.Base)
		c.opts.Name = cmp.Or(opts.Name, base.Host)
		c.site = newSite(c, base, opts.Login)
		if l, ok := opts.Login.(*oidcLogin); ok {
			if err := l.join(c, base); err != nil {
				return nil, err
			}
		}
	}
	c.opts.Name = cmp.Or(c.opts.Name, "this MCP server")
	if c.opts.HTTP == nil {
		guard, err := netguard.New(&netguard.Options{Loopback: loopback})
		if err != nil {
			return nil, err
		}
		c.opts.HTTP = guard.Client(nil)
	}
	if l, ok := opts.Login.(*oidcLogin); ok && c.site != nil {
		l.at.http, l.way.HTTP = c.opts.HTTP, c.opts.HTTP
	}
	for _, p := range opts.Providers {
		one, err := p.open(c.opts.HTTP, loopback)
		if err != nil {
			return nil, fmt.Errorf("connect: the provider %.40q: %w", p.name, err)
		}
		if c.providers[p.name] != nil {
			return nil, fmt.Errorf("connect: two providers have the name %q", p.name)
		}
		c.providers[p.name] = one
		c.names = append(c.names, p.name)
	}
	return c, nil
}

// checkBase checks the address of the pages.
func checkBase(raw string) (*url.URL, error) {
	if _, err := weburl.Check(raw); err != nil {
		return nil, fmt.Errorf("connect: Options.Base: %w", err)
	}
	base, err := url.Parse(strings.TrimRight(raw, "/"))
	if err != nil || base.RawQuery != "" || base.Fragment != "" || base.RawPath != "" {
		return nil, errors.New("connect: Options.Base: want scheme, host and path only")
	}
	return base, nil
}

// Close ends what the connector has started: the pages of a server on stdio. Call it before
// the server's Close.
func (c *Connector) Close() error { return c.local.close() }

// Requester is the request of a handler: *mcpserver.Request, and the types that embed it.
type Requester interface {
	mcpserver.Requester
	Principal() *mcpserver.Principal
	Peer() *mcpserver.Peer
	Client() mcpserver.Client
	Responses() mcp.InputResponses
	Ask(ctx context.Context, all ...*mcpserver.Question) error
	Need(all ...*mcpserver.Question) error
}

// ErrDisconnected is the error of a request for which the provider accepts the account's token
// no more: the next [Connector.Client] asks to connect the account again.
var ErrDisconnected = errors.New("the account has to be connected again")

// Client returns a client for the account that the sender of a request has at a provider. It
// adds the account's token to requests to the provider's own addresses. If there is no account
// with these scopes, the person is asked to connect one, and Client waits for that; see
// [Options].NoWait. The handler returns every error as it is.
//
// A handler that asks a client of 2026-07-28 may run again: Client must be called in the same
// order then, as every question.
func (c *Connector) Client(ctx context.Context, req Requester, provider string, scopes ...string) (*http.Client, error) {
	if err := c.Connect(ctx, req, Want{provider, scopes}); err != nil {
		return nil, err
	}
	who, err := c.ownerOf(req)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &transport{c: c, owner: who, p: c.providers[provider]}}, nil
}

// Want is an account that a handler needs.
type Want struct {
	Provider string
	Scopes   []string
}

// need is a want of a request that no account fulfils.
type need struct {
	*provider
	scopes []string
	key    string // of the question
	ready  bool
	untold bool // its owner has not been told that it was connected
}

// Connect asks for all accounts that are missing at once, so that a person who needs two visits
// two pages in one go. [Connector.Client] does it for one.
func (c *Connector) Connect(ctx context.Context, req Requester, wants ...Want) error {
	who, err := c.ownerOf(req)
	if err != nil {
		return err
	}
	needs := make([]*need, len(wants))
	for i, w := range wants {
		p := c.providers[w.Provider]
		if p == nil {
			return fmt.Errorf("connecting an account: there is no provider %.40q", w.Provider)
		}
		if p.key != nil {
			w.Scopes = nil
		}
		scopes := slices.Compact(slices.Sorted(slices.Values(w.Scopes))) // one page, whatever their order
		needs[i] = &need{provider: p, scopes: scopes, key: questionKey(p.name, scopes)}
	}
	meet := c.wait
	if c.opts.NoWait || !req.Client().Capabilities.ElicitURL() {
		meet = c.send
	}
	if err := meet(ctx, req, who, needs); err != nil {
		return err
	}
	c.tell(req, who, needs)
	return nil
}

// questionKey identifies the question for an account within a call.
func questionKey(provider string, scopes []string) string {
	key := "connect " + strings.Join(append([]string{provider}, scopes...), " ")
	if len(key) > 100 {
		key = "connect " + provider + " " + visit.Digest(key)[:32]
	}
	return key
}

// look finds out which needs the account fulfils.
func (c *Connector) look(ctx context.Context, who owner, needs []*need) (missing []*need, err error) {
	for _, n := range needs {
		a, _, err := c.account(ctx, who, n.provider)
		if err != nil {
			return nil, err
		}
		if n.ready = a.has(n.provider, n.scopes); !n.ready {
			missing = append(missing, n)
		} else {
			n.untold = a.Untold
			c.used(ctx, who, n.provider, a)
		}
	}
	return missing, nil
}

// wait asks for what is missing and waits until it is there. Which needs were missing is part
// of what the call remembers, for a handler that runs again is to ask the same.
func (c *Connector) wait(ctx context.Context, req Requester, who owner, needs []*need) error {
	var asked []*need
	var questions []*mcpserver.Question
	for _, n := range needs {
		missing, err := mcpserver.Once(ctx, req, n.key, func(ctx context.Context) (bool, error) {
			missing, err := c.look(ctx, who, []*need{n})
			return len(missing) > 0, err
		})
		if err != nil {
			return err
		}
		if missing {
			asked = append(asked, n)
		}
	}
	if _, err := c.look(ctx, who, asked); err != nil { // it may be there by now
		return err
	}
	for _, n := range asked {
		page, err := c.page(ctx, req, who, n)
		if err != nil {
			return err
		}
		questions = append(questions, c.question(n, who, page))
	}
	if len(asked) == 0 {
		return nil
	}
	if err := req.Ask(ctx, questions...); err != nil {
		return err
	}
	for i, n := range asked {
		switch err := questions[i].Err; {
		case errors.Is(err, elicit.ErrExpired):
			return fmt.Errorf("the page to connect the %s account has expired: call again for another", n.title)
		case err != nil:
			return fmt.Errorf("connecting the %s account: %w", n.title, err)
		}
	}
	missing, err := c.look(ctx, who, needs)
	if err != nil || len(missing) == 0 {
		return err
	}
	n := missing[0]
	if len(n.scopes) == 0 || !slices.Contains(asked, n) {
		return fmt.Errorf("the %s account is not connected any more: call again", n.title)
	}
	return fmt.Errorf("the %s account was connected without all that is needed (%s): call again, and grant it", n.title, strings.Join(n.scopes, " "))
}

// send returns the error that sends the client to the pages, without waiting for them.
func (c *Connector) send(ctx context.Context, req Requester, who owner, needs []*need) error {
	missing, err := c.look(ctx, who, needs)
	if err != nil || len(missing) == 0 {
		return err
	}
	var questions []*mcpserver.Question
	for _, n := range missing {
		if answer, ok := req.Responses()[n.key]; ok && declined(answer) {
			return fmt.Errorf("connecting the %s account: %w", n.title, mcpserver.ErrDeclined)
		}
		refused, err := c.refusal(ctx, who, n)
		if err != nil {
			return err
		}
		if refused != "" {
			return fmt.Errorf("connecting the %s account: %w: %s. Call again only if the user wants that", n.title, mcpserver.ErrDeclined, refused)
		}
		page, err := c.page(ctx, req, who, n)
		if err != nil {
			return err
		}
		questions = append(questions, c.question(n, who, page))
	}
	return req.Need(questions...)
}

// declined reports whether a client says that the person does not want to visit the page.
func declined(answer []byte) bool {
	var r mcp.ElicitResult
	return mcp.Unmarshal(answer, &r) == nil && r.Action != mcp.ActionAccept
}

// question is that for a page. Its text follows from what the handler wants alone.
func (c *Connector) question(n *need, who owner, page string) *mcpserver.Question {
	message := "Connect your " + n.title + " account with " + c.opts.Name
	if len(n.scopes) > 0 {
		message += " (" + strings.Join(n.scopes, ", ") + ")"
	}
	return mcpserver.PageQuestion(n.key, message+".", c.pageAddress(who), page)
}

// siteOf returns where an owner's pages are.
func (c *Connector) siteOf(who owner) *site {
	if who.local {
		return c.local.site()
	}
	return c.site
}

// ownerOf returns the person that a request comes from. Without one there is no account.
func (c *Connector) ownerOf(req Requester) (owner, error) {
	p, peer := req.Principal(), req.Peer()
	switch {
	case p == nil && peer != nil && peer.Local():
		return owner{local: true}, nil
	case p == nil:
		return owner{}, errors.New("connecting an account: the server does not know who sends the request: it needs mcpserver.HTTPOptions.Authenticate")
	case p.Machine:
		return owner{}, errors.New("connecting an account: the request comes from a program, and no person stands behind it")
	case c.site == nil:
		return owner{}, errors.New("connecting an account: the server has no pages: connect.Options.Base is empty")
	case p.Subject != "":
		return owner{principal: p.ID, issuer: p.Issuer, subject: p.Subject}, nil
	default:
		return owner{principal: p.ID, subject: p.ID}, nil
	}
}

// Bounds of pages.
const (
	pageLife = 15 * time.Minute
	flowLife = 10 * time.Minute // from the consent to the provider's answer
	tooOld   = pageLife / 2     // a person needs time for the page
	maxOpen  = 5                // pages of one owner
	maxFlows = 20               // of one owner
)
