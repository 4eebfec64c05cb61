// Package pages keeps the elicitations by URL of a server: which are open, which handlers
// wait for them, and which client is notified of their end.
package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

var (
	// ErrUnknown says that no elicitation of that id is open for that principal.
	ErrUnknown = errors.New("mcpserver: no such elicitation")
	// ErrLater says that a page is not done yet.
	ErrLater = errors.New("the page is not done yet")

	errNoneWaits = errors.New("no handler waits for the page any more")
	errTooMany   = mcp.Errorf(mcp.CodeInternal, "too many pages are open")
)

// maxPages bounds the pages of one session whose end its client is notified of.
const maxPages = 64

// Call sends a frame on the stream of its request, and reports false if that is over.
type Call interface{ Carry(frame []byte) bool }

// Client is notified of the end of an elicitation, which only 2025-11-25 has (URL-30).
type Client struct {
	Session Session
	Call    Call // nil when it is over
}

// Options are all needed.
type Options struct {
	Spawn   actors.SpawnFunc
	Expiry  time.Duration // of an elicitation
	Log     *slog.Logger
	Records store.Records
	Shared  bool // other servers use the records, too
}

// Pages are the elicitations by URL of a server.
type Pages struct {
	opts    Options
	records records
	table   *elicit.Table

	mu     sync.Mutex                      // guards the maps, which change together: handlers, requests and Receives of sessions must not wait for an actor's turn
	open   map[string]Client               // by id; of clients that are notified of the end
	of     map[Session]map[string]struct{} // the ids of open
	waits  map[string]int                  // how many handlers wait, by id
	needed needs
}

// New returns the pages of a server.
func New(opts Options) *Pages {
	return &Pages{
		opts: opts, records: records{opts.Records, opts.Expiry, opts.Shared}, table: elicit.New(opts.Spawn, elicit.Options{Expiry: opts.Expiry, Logger: opts.Log}),
		open: make(map[string]Client), of: make(map[Session]map[string]struct{}), waits: make(map[string]int), needed: make(needs),
	}
}

// Make makes an elicitation for a principal. The handler that waits for it opens it.
func (p *Pages) Make(ctx context.Context, principal string) (id string, err error) {
	id = uuid.NewString()
	if err := p.records.put(ctx, principal, id, false); err != nil {
		return "", fmt.Errorf("opening an elicitation: %w", err)
	}
	return id, nil
}

// Announce opens an elicitation of whose end the client is notified.
func (p *Pages) Announce(principal, id string, c Client) error {
	if !p.add(id, c) {
		return fmt.Errorf("opening an elicitation: %w", errTooMany)
	}
	pending, err := p.table.OpenLooking(id, p.records.doneElsewhere(principal, id))
	if err != nil {
		p.take(id)
		return fmt.Errorf("opening an elicitation: %w", err)
	}
	pending.Wait(func(err error) { p.ended(id, err) })
	return nil
}

// add keeps the client to be notified of the end, and reports false beyond the bound.
func (p *Pages) add(id string, c Client) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[c.Session]
	if len(of) >= maxPages {
		return false
	}
	if of == nil {
		of = make(map[string]struct{})
		p.of[c.Session] = of
	}
	p.open[id] = c
	of[id] = struct{}{}
	return true
}

// take removes the client to be notified of the end, for the one goroutine that notifies it.
func (p *Pages) take(id string) (c Client, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok = p.open[id]; !ok {
		return c, false
	}
	delete(p.open, id)
	of := p.of[c.Session]
	if delete(of, id); len(of) == 0 {
		delete(p.of, c.Session)
	}
	return c, true
}

// ended notifies the client of an elicitation that was completed.
func (p *Pages) ended(id string, err error) {
	if c, ok := p.take(id); ok && err == nil {
		c.notify(id)
	}
}

// notify sends the notice of completion (URL-43).
func (c Client) notify(id string) {
	raw, err := mcp.Marshal(&mcp.ElicitationCompleteParams{ElicitationID: id})
	if err != nil {
		return
	}
	frame := mcp.AppendNotification(nil, mcp.NotificationElicitationComplete, raw)
	if c.Call == nil || !c.Call.Carry(frame) {
		c.Session.Notify(frame)
	}
}

// Complete says that a person has done what the page of an elicitation is for. The
// principal is the visitor's, as the page has found out.
func (p *Pages) Complete(id, principal string) error {
	if id == "" || len(id) > len(uuid.Nil.String()) {
		return ErrUnknown
	}
	ctx := context.Background()
	done, err := p.records.done(ctx, principal, id)
	switch {
	case errors.Is(err, elicit.ErrExpired):
		return ErrUnknown
	case err != nil:
		return fmt.Errorf("completing an elicitation: %w", err)
	case done:
		return nil
	}
	if err := p.records.put(ctx, principal, id, true); err != nil {
		return fmt.Errorf("completing an elicitation: %w", err)
	}
	p.ended(id, nil) // before the handler that waits answers
	p.table.Complete(id)
	return nil
}

// Over says that the call is over for which an elicitation was opened: its session is
// notified of the end.
func (p *Pages) Over(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.open[id]; ok {
		p.open[id] = Client{Session: c.Session}
	}
}

// Gone ends the elicitations of which only a session that has ended was to be notified.
func (p *Pages) Gone(s Session) {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.of[s]))
	p.needed.gone(s)
	p.mu.Unlock()
	for _, id := range ids {
		p.take(id)
		p.end(id)
	}
}

// For returns the page of a need: the open one, or a new one. A client that is not nil is
// notified of the end.
func (p *Pages) For(ctx context.Context, n Need, notified *Client) (id string, err error) {
	if id = p.made(n, notified != nil); id != "" {
		if done, err := p.records.done(ctx, n.Principal, id); err == nil && !done {
			return id, nil
		}
	}
	if id, err = p.Make(ctx, n.Principal); err != nil {
		return "", err
	}
	if notified != nil {
		if err := p.Announce(n.Principal, id, *notified); err != nil {
			return "", err
		}
	}
	if n.Session != nil || n.Principal != "" { // else it may be another client the next time
		p.mu.Lock()
		defer p.mu.Unlock()
		p.needed.keep(n, made{id, time.Now().Add(p.opts.Expiry / 2)})
	}
	return id, nil
}

// made returns the page that was made for a need, "" if there is none, or one of whose end
// the client is not notified although it is to be.
func (p *Pages) made(n Need, notified bool) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.needed[n]
	if _, announced := p.open[m.id]; notified && !announced || !time.Now().Before(m.until) {
		return ""
	}
	return m.id
}

// Wait waits until a page is done, for a handler whose context is call. [ErrLater] comes
// when there is a limit, and it is over.
func (p *Pages) Wait(ctx, call context.Context, principal, id string, limit <-chan time.Time) error {
	for {
		err := p.waitOnce(ctx, call, principal, id, limit)
		if !errors.Is(err, errNoneWaits) { // another handler has left just before, as the last one
			return err
		}
	}
}

func (p *Pages) waitOnce(ctx, call context.Context, principal, id string, limit <-chan time.Time) error {
	defer p.Over(id)
	pending, err := p.enter(id, p.records.doneElsewhere(principal, id))
	if err != nil {
		return fmt.Errorf("waiting for the page: %w", err)
	}
	defer p.leave(id)
	if done, err := p.records.done(call, principal, id); done || err != nil {
		if done {
			p.table.Complete(id)
		}
		return err
	}
	over := make(chan error, 1)
	abort := pending.Wait(func(err error) { over <- err })
	defer abort()
	select {
	case err := <-over:
		return err
	case <-limit:
		return ErrLater
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-call.Done():
		return context.Cause(call)
	}
}

// enter opens an elicitation for a handler that waits. Leave ends it with the last of them,
// unless a client is to be notified.
func (p *Pages) enter(id string, doneElsewhere func(context.Context) (bool, error)) (*elicit.Pending, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending, err := p.table.OpenLooking(id, doneElsewhere)
	if err == nil {
		p.waits[id]++
	}
	return pending, err
}

func (p *Pages) leave(id string) {
	p.mu.Lock()
	if p.waits[id]--; p.waits[id] == 0 {
		delete(p.waits, id)
	}
	p.mu.Unlock()
	p.end(id)
}

// end ends an elicitation that no handler waits for.
func (p *Pages) end(id string) {
	p.mu.Lock()
	_, announced := p.open[id]
	idle := !announced && p.waits[id] == 0
	p.mu.Unlock()
	if pending := p.table.Pending(id); idle && pending != nil {
		pending.Cancel(errNoneWaits)
	}
}

// Len is how many elicitations are open, and of how many a client is to be notified.
func (p *Pages) Len() (open, announced int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Len(), len(p.open)
}
