// Package pages keeps the elicitations by URL of a server: which are open, which handlers
// wait for them, and which client is notified of their end.
package pages

import (
	"cmp"
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

// Bounds on who is notified of ends.
const (
	maxPages   = 64 // of one session
	maxClients = 64 // of one page
)

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
	open   map[string][]Client             // by id, one for each session; clients that are notified of the end
	of     map[Session]map[string]struct{} // the ids of open
	waits  map[string]int                  // how many handlers wait, by id
	needed needs
}

// New returns the pages of a server.
func New(opts Options) *Pages {
	return &Pages{
		opts: opts, records: records{opts.Records, opts.Expiry, opts.Shared}, table: elicit.New(opts.Spawn, elicit.Options{Expiry: opts.Expiry, Logger: opts.Log}),
		open: make(map[string][]Client), of: make(map[Session]map[string]struct{}), waits: make(map[string]int), needed: make(needs),
	}
}

// Make makes an elicitation for a principal, which expires after life, or if that is zero with
// [Options].Expiry. The handler that waits for it opens it.
func (p *Pages) Make(ctx context.Context, principal string, life time.Duration) (id string, err error) {
	id = uuid.NewString()
	r := pageRecord{expires: time.Now().Add(cmp.Or(life, p.opts.Expiry))}
	if err := p.records.put(ctx, principal, id, r); err != nil {
		return "", fmt.Errorf("opening an elicitation: %w", err)
	}
	return id, nil
}

// Announce opens an elicitation of whose end the client is notified, too.
func (p *Pages) Announce(ctx context.Context, principal, id string, c Client) error {
	r, err := p.records.get(ctx, principal, id)
	if err != nil {
		return fmt.Errorf("opening an elicitation: %w", err)
	}
	switch fresh, ok := p.add(id, c); {
	case !ok:
		return fmt.Errorf("opening an elicitation: %w", errTooMany)
	case !fresh:
		return nil
	}
	pending, err := p.table.OpenLooking(id, r.expires, p.records.doneElsewhere(principal, id))
	if err != nil {
		p.take(id, c.Session)
		return fmt.Errorf("opening an elicitation: %w", err)
	}
	pending.Wait(func(err error) { p.ended(id, err) })
	return nil
}

// add keeps the client to be notified of the end, fresh if its session was not before; not ok
// beyond the bound.
func (p *Pages) add(id string, c Client) (fresh, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.index(id, c.Session); i >= 0 {
		p.open[id][i] = c
		return false, true
	}
	of := p.of[c.Session]
	if len(of) >= maxPages || len(p.open[id]) >= maxClients {
		return false, false
	}
	if of == nil {
		of = make(map[string]struct{})
		p.of[c.Session] = of
	}
	p.open[id] = append(p.open[id], c)
	of[id] = struct{}{}
	return true, true
}

// index finds the client of a session to be notified of the end, -1 for none.
func (p *Pages) index(id string, of Session) int {
	return slices.IndexFunc(p.open[id], func(c Client) bool { return c.Session == of })
}

// take removes the clients to be notified of the end, of one session unless that is nil, for
// the one goroutine that notifies them.
func (p *Pages) take(id string, of Session) (taken []Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []Client
	for _, c := range p.open[id] {
		if of != nil && c.Session != of {
			left = append(left, c)
			continue
		}
		taken = append(taken, c)
		ids := p.of[c.Session]
		if delete(ids, id); len(ids) == 0 {
			delete(p.of, c.Session)
		}
	}
	if p.open[id] = left; left == nil {
		delete(p.open, id)
	}
	return taken
}

// ended notifies the clients of an elicitation in which the person has come to an end, be it
// that of a refusal: they call again, and learn it then.
func (p *Pages) ended(id string, err error) {
	_, failed := errors.AsType[failure](err)
	for _, c := range p.take(id, nil) {
		if err == nil || failed {
			c.notify(id)
		}
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
	return p.finish(id, principal, pageRecord{Done: true}, func() { p.table.Complete(id) })
}

// Fail says that the person has refused, or that it cannot be done.
func (p *Pages) Fail(id, principal, reason string) error {
	r := pageRecord{Failed: &reason}
	return p.finish(id, principal, r, func() {
		if pending := p.table.Pending(id); pending != nil {
			pending.Cancel(r.failure())
		}
	})
}

// finish records an end, unless there is one, and then tells of it by end.
func (p *Pages) finish(id, principal string, as pageRecord, end func()) error {
	ctx := context.Background()
	switch now, err := p.Lookup(ctx, id, principal); {
	case err != nil:
		return err
	case now:
		return nil
	}
	as.expires = time.Now().Add(p.opts.Expiry)
	if err := p.records.put(ctx, principal, id, as); err != nil {
		return fmt.Errorf("ending an elicitation: %w", err)
	}
	p.ended(id, as.failure()) // before the handler that waits answers
	end()
	return nil
}

// Lookup reports whether an elicitation of a principal has ended, done or failed.
func (p *Pages) Lookup(ctx context.Context, id, principal string) (ended bool, err error) {
	if id == "" || len(id) > len(uuid.Nil.String()) {
		return false, ErrUnknown
	}
	r, err := p.records.get(ctx, principal, id)
	if errors.Is(err, elicit.ErrExpired) {
		err = ErrUnknown
	}
	return r.Done || r.Failed != nil, err
}

// Over says that the call is over for which a session had an elicitation opened: the session
// itself is notified of the end.
func (p *Pages) Over(id string, of Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.index(id, of); i >= 0 {
		p.open[id][i] = Client{Session: of}
	}
}

// Gone ends the elicitations of which only a session that has ended was to be notified.
func (p *Pages) Gone(s Session) {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.of[s]))
	p.needed.gone(s)
	p.mu.Unlock()
	for _, id := range ids {
		p.take(id, s)
		p.end(id)
	}
}

// For returns the page of a need: the one whose id is known, the open one, or a new one. A
// client that is not nil is notified of the end.
func (p *Pages) For(ctx context.Context, known string, n Need, notified *Client) (id string, err error) {
	if known != "" {
		if notified != nil {
			err = p.Announce(ctx, n.Principal, known, *notified)
		}
		return known, err
	}
	if id = p.made(n, notified != nil); id != "" {
		if ended, err := p.Lookup(ctx, id, n.Principal); err == nil && !ended {
			return id, nil
		}
	}
	if id, err = p.Make(ctx, n.Principal, 0); err != nil {
		return "", err
	}
	if notified != nil {
		if err := p.Announce(ctx, n.Principal, id, *notified); err != nil {
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
	if notified && p.index(m.id, n.Session) < 0 || !time.Now().Before(m.until) {
		return ""
	}
	return m.id
}

// Wait waits until a page is done, for a handler whose context is call, of a session.
// [ErrLater] comes when there is a limit, and it is over.
func (p *Pages) Wait(ctx, call context.Context, of Session, principal, id string, limit <-chan time.Time) error {
	defer p.Over(id, of)
	for {
		err := p.waitOnce(ctx, call, principal, id, limit)
		if f, ok := errors.AsType[failure](err); ok {
			return f.error
		}
		if !errors.Is(err, errNoneWaits) { // another handler has left just before, as the last one
			return err
		}
	}
}

func (p *Pages) waitOnce(ctx, call context.Context, principal, id string, limit <-chan time.Time) error {
	known, err := p.records.get(call, principal, id)
	if err != nil {
		return err
	}
	pending, err := p.enter(id, known.expires, p.records.doneElsewhere(principal, id))
	if err != nil {
		return fmt.Errorf("waiting for the page: %w", err)
	}
	defer p.leave(id)
	now, err := p.records.get(call, principal, id) // it may have ended before the table knew of it
	if err == nil {
		err = now.failure()
	}
	if now.Done || err != nil {
		if now.Done {
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
func (p *Pages) enter(id string, expires time.Time, doneElsewhere func(context.Context) (bool, error)) (*elicit.Pending, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending, err := p.table.OpenLooking(id, expires, doneElsewhere)
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
