package connect

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/internal/visit"
	"github.com/troupe-dev/troupe/store"
)

// owner is a person: who sends MCP requests, and who visits pages.
type owner struct {
	principal       string // the ID; known of requests, not of visitors
	issuer, subject string
	local           bool // who owns the process
}

// id names the owner in the store, without telling who it is. Issuer and subject are told apart
// by their lengths.
func (o owner) id() string {
	b := []byte{0}
	if o.local {
		b[0] = 1
	}
	b = binary.AppendUvarint(b, uint64(len(o.issuer)))
	b = append(append(b, o.issuer...), o.subject...)
	return visit.Digest(string(b))
}

// Kinds of records. They belong to an owner, so that no page of another can be found.
const (
	kindPage = "connect-page" // by the id of the elicitation
	kindFlow = "connect-flow" // by the hash of the state
)

// page is a connection that a person is asked for.
type page struct {
	Provider  string    `json:"provider"`
	Scopes    []string  `json:"scopes,omitzero"`
	Principal string    `json:"principal"` // whose elicitation it is
	Tool      string    `json:"tool,omitzero"`
	State     string    `json:"state,omitzero"` // "" is open
	Reason    string    `json:"reason,omitzero"`
	Expires   time.Time `json:"expires"`

	id string
}

// States of a page that is not open.
const (
	pageDone    = "done"
	pageRefused = "refused"
	pageTold    = "told" // refused, and the client knows it
)

// putPage writes a page.
func (c *Connector) putPage(ctx context.Context, who owner, p *page) error {
	raw, err := jsonx.Marshal(p)
	if err != nil {
		return err
	}
	err = c.store.PutRecord(ctx, store.Record{Kind: kindPage, Owner: who.id(), Key: p.id, Value: raw, Expires: p.Expires})
	if err != nil {
		return fmt.Errorf("keeping a page: %w", err)
	}
	return nil
}

// pageOf returns a page of an owner, nil if it has no such page.
func (c *Connector) pageOf(ctx context.Context, who owner, id string) (*page, error) {
	if store.CheckID("page", id) != nil {
		return nil, nil
	}
	r, err := c.store.Record(ctx, kindPage, who.id(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	return readPage(&r)
}

func readPage(r *store.Record) (*page, error) {
	p := &page{id: r.Key}
	if err := jsonx.Unmarshal(r.Value, p); err != nil {
		return nil, fmt.Errorf("reading a page: %w", err)
	}
	return p, nil
}

// pages lists those of an owner that have not expired.
func (c *Connector) pages(ctx context.Context, who owner) (all []*page, err error) {
	list, err := c.store.Records(ctx, store.RecordQuery{Kind: kindPage, Owner: who.id()})
	if err != nil {
		return nil, fmt.Errorf("reading the pages: %w", err)
	}
	for _, r := range list {
		p, err := readPage(&r)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// is reports whether a page is for a need.
func (p *page) is(n *need) bool { return p.Provider == n.name && slices.Equal(p.Scopes, n.scopes) }

// pageLease bounds the making of a page.
const pageLease = 10 * time.Second

// findPage returns the id of the page for a need, or how many others are open.
func (c *Connector) findPage(ctx context.Context, who owner, n *need) (id string, open int, err error) {
	all, err := c.pages(ctx, who)
	for _, p := range all {
		switch {
		case n.ready && p.State == pageDone && p.is(n): // of the run before
			return p.id, 0, nil
		case p.State != "":
		case p.is(n) && p.Principal == who.principal && time.Until(p.Expires) > tooOld:
			return p.id, 0, nil
		default:
			open++
		}
	}
	return "", open, err
}

// page returns the id of the open page for a need, or of a new one.
func (c *Connector) page(ctx context.Context, req Requester, who owner, n *need) (id string, err error) {
	if who.local {
		if err := c.local.open(c); err != nil {
			return "", err
		}
	}
	if id, _, err := c.findPage(ctx, who, n); id != "" || err != nil {
		return id, err
	}
	release, err := c.lease(ctx, kindPage, who.id(), pageLease) // two calls get one page, of two instances too
	if err != nil {
		return "", fmt.Errorf("making a page: %w", err)
	}
	defer release()
	id, open, err := c.findPage(ctx, who, n)
	if id != "" || err != nil {
		return id, err
	}
	if open >= maxOpen {
		return "", fmt.Errorf("connecting the %s account: %d pages wait for the user already: finish or refuse one of them at %s", n.title, open, c.siteOf(who).address())
	}
	if id, err = c.server.OpenElicitation(ctx, who.principal, pageLife); err != nil {
		return "", err
	}
	p := &page{Provider: n.name, Scopes: n.scopes, Principal: who.principal, Expires: time.Now().Add(pageLife), id: id}
	if t, ok := req.(interface{ Name() string }); ok {
		p.Tool = t.Name()
	}
	if err := c.putPage(ctx, who, p); err != nil {
		return "", err
	}
	c.log.Info("an account is asked for", "provider", n.name, "scopes", n.scopes, "tool", p.Tool, "page", id, "principal", who.principal)
	return id, nil
}

// refusal returns why the person has refused what a need asks for, once: the next call asks
// again.
func (c *Connector) refusal(ctx context.Context, who owner, n *need) (reason string, err error) {
	all, err := c.pages(ctx, who)
	for _, p := range all {
		if p.State == pageRefused && p.is(n) {
			p.State = pageTold
			return p.Reason, c.putPage(ctx, who, p)
		}
	}
	return "", err
}

// refuse ends a page without an account. Reason is for the client.
func (c *Connector) refuse(ctx context.Context, who owner, p *page, reason string) error {
	p.State, p.Reason = pageRefused, reason
	if err := c.putPage(ctx, who, p); err != nil {
		return err
	}
	c.log.Info("an account is refused", "provider", p.Provider, "page", p.id, "principal", p.Principal, "reason", reason)
	return c.server.FailElicitation(p.id, p.Principal, reason)
}

// done ends a page whose account is connected.
func (c *Connector) done(ctx context.Context, who owner, p *page, account string) error {
	p.State = pageDone
	if err := c.putPage(ctx, who, p); err != nil {
		return err
	}
	c.log.Info("an account is connected", "provider", p.Provider, "page", p.id, "principal", p.Principal, "account", account)
	return c.server.CompleteElicitation(p.id, p.Principal)
}

// flow is an authorization under way at a provider.
type flow struct {
	Page     string   `json:"page"`
	Provider string   `json:"provider"`
	Scopes   []string `json:"scopes,omitzero"` // that are asked for
	State    string   `json:"state"`
	Verifier string   `json:"verifier"`
	Redirect string   `json:"redirect"`
	Cookie   string   `json:"cookie"` // the hash of the browser's
}

// putFlow keeps a flow, sealed, under the hash of its state.
func (c *Connector) putFlow(ctx context.Context, who owner, f *flow) error {
	list, err := c.store.Records(ctx, store.RecordQuery{Kind: kindFlow, Owner: who.id()})
	if err != nil {
		return err
	}
	if len(list) >= maxFlows {
		return errTooMany
	}
	plain, err := jsonx.Marshal(f)
	if err != nil {
		return err
	}
	key := visit.Digest(f.State)
	raw, err := jsonx.Marshal(c.seal.Seal(plain, []byte(kindFlow+who.id()+key)))
	if err != nil {
		return err
	}
	return c.store.PutRecord(ctx, store.Record{Kind: kindFlow, Owner: who.id(), Key: key, Value: raw, Expires: time.Now().Add(flowLife)})
}

var errTooMany = errors.New("too many attempts are open: wait ten minutes")

// flowOf returns a flow of an owner, nil if it has none with this state.
func (c *Connector) flowOf(ctx context.Context, who owner, state string) (*flow, error) {
	key := visit.Digest(state)
	r, err := c.store.Record(ctx, kindFlow, who.id(), key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var box []byte
	if err := jsonx.Unmarshal(r.Value, &box); err != nil {
		return nil, errors.New("reading a flow: it is malformed")
	}
	plain, err := c.seal.Open(box, []byte(kindFlow+who.id()+key))
	if err != nil {
		return nil, fmt.Errorf("reading a flow: %w", err)
	}
	f := new(flow)
	if jsonx.Unmarshal(plain, f) != nil {
		return nil, errors.New("reading a flow: it is malformed")
	}
	return f, nil
}

// takeFlow ends a flow. It returns false if another request has ended it: a state is of one
// use.
func (c *Connector) takeFlow(ctx context.Context, who owner, f *flow) (bool, error) {
	err := c.store.DeleteRecord(ctx, kindFlow, who.id(), visit.Digest(f.State))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// resume returns the authorization that a flow has begun.
func (f *flow) resume(cl *oauth.Client) *oauth.Authorization {
	return cl.Resume(f.Redirect, f.Scopes, oauth.NewSecret(f.State), oauth.NewSecret(f.Verifier))
}
