package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/store"
)

// ErrNoElicitation says that no elicitation of that id is open for that principal.
var ErrNoElicitation = errors.New("mcpserver: no such elicitation")

// visits are the elicitations by URL of a server that are open.
type visits struct {
	table *elicit.Table

	mu    sync.Mutex
	open  map[string]concerned             // by id; of clients that are told of the end
	of    map[*session]map[string]struct{} // the ids of open
	waits map[string]int                   // how many handlers wait, by id

	needed map[neededPage]madePage
}

// concerned is who is told of the end of an elicitation (URL-30).
type concerned struct {
	session *session
	run     *handlerCall // on the stream of whose request it is told; nil when that is over
}

// recordPage is the kind of the records of elicitations by URL: their owner is the
// principal, and their value says whether it is done, to other servers too.
const recordPage = "page"

type pageRecord struct {
	Done bool `json:"done"`
}

// openPage makes the elicitation of a question, with an id of its own unless it has
// one from an earlier round.
func (n *handlerCall) openPage(q *questions.Question) error {
	s, live := n.server, n.current()
	fresh := q.Page.ID == ""
	if fresh {
		q.Page.ID = uuid.NewString()
	}
	if fresh {
		if err := s.putPage(n.Context(), live.principal.id(), q.Page.ID, false); err != nil {
			return fmt.Errorf("opening an elicitation: %w", err)
		}
	}
	if !fresh || !live.version.Has(mcp.FeatureElicitationIDs) {
		return nil // the handler that waits for it opens it
	}
	id := q.Page.ID
	if !s.visits.tell(id, concerned{live.session, n}) {
		return fmt.Errorf("opening an elicitation: %w", errTooManyPages)
	}
	pending, err := s.visits.table.OpenLooking(id, s.doneElsewhere(live.principal.id(), id))
	if err != nil {
		s.visits.forget(id)
		return fmt.Errorf("opening an elicitation: %w", err)
	}
	pending.Wait(func(err error) { s.visits.ended(id, err) })
	return nil
}

// maxPages bounds the pages of one session whose end its client is to be told.
const maxPages = 64

var errTooManyPages = mcp.Errorf(mcp.CodeInternal, "too many pages are open")

// tell keeps who is to hear of the end, and reports false beyond the bound.
func (p *visits) tell(id string, who concerned) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[who.session]
	if len(of) >= maxPages {
		return false
	}
	if of == nil {
		if p.open == nil {
			p.open, p.of = make(map[string]concerned), make(map[*session]map[string]struct{})
		}
		of = make(map[string]struct{})
		p.of[who.session] = of
	}
	p.open[id] = who
	of[id] = struct{}{}
	return true
}

func (p *visits) forget(id string) { p.take(id) }

// take returns who is to hear of the end, for the one who tells them.
func (p *visits) take(id string) (who concerned, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who, ok = p.open[id]; !ok {
		return who, false
	}
	delete(p.open, id)
	of := p.of[who.session]
	if delete(of, id); len(of) == 0 {
		delete(p.of, who.session)
	}
	return who, true
}

// ended tells the client of the end of an elicitation, if it was completed.
func (p *visits) ended(id string, err error) {
	if who, ok := p.take(id); ok && err == nil {
		who.tell(id)
	}
}

// gone ends what only a session that has ended was to be told.
func (p *visits) gone(s *session) {
	p.mu.Lock()
	ids := slices.Collect(maps.Keys(p.of[s]))
	maps.DeleteFunc(p.needed, func(k neededPage, _ madePage) bool { return k.session == s })
	p.mu.Unlock()
	for _, id := range ids {
		p.forget(id)
		p.end(id)
	}
}

// enter opens an elicitation for one who waits, leave ends it with the last of them,
// unless a client is to be told.
func (p *visits) enter(id string, doneElsewhere func(context.Context) (bool, error)) (*elicit.Pending, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pending, err := p.table.OpenLooking(id, doneElsewhere)
	if err != nil {
		return nil, err
	}
	if p.waits == nil {
		p.waits = make(map[string]int)
	}
	p.waits[id]++
	return pending, nil
}

func (p *visits) leave(id string) {
	p.mu.Lock()
	if p.waits[id]--; p.waits[id] == 0 {
		delete(p.waits, id)
	}
	p.mu.Unlock()
	p.end(id)
}

// end ends an elicitation that no handler waits for.
func (p *visits) end(id string) {
	p.mu.Lock()
	_, told := p.open[id]
	idle := !told && p.waits[id] == 0
	p.mu.Unlock()
	if pending := p.table.Pending(id); idle && pending != nil {
		pending.Cancel(errNoneWaits)
	}
}

var errNoneWaits = errors.New("no handler waits for the page any more")

// over says that the call for which an elicitation was opened has ended: the client may
// hear of the end all the same.
func (p *visits) over(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if who, ok := p.open[id]; ok {
		p.open[id] = concerned{session: who.session}
	}
}

func (s *Server) putPage(ctx context.Context, principal, id string, done bool) error {
	raw, err := mcp.Marshal(pageRecord{done})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	return s.records.PutRecord(ctx, store.Record{Kind: recordPage, Owner: principal, Key: id, Value: raw, Expires: time.Now().Add(s.opts.TicketTTL)})
}

// pageDone reports whether the page was visited, here or at another server.
func (s *Server) pageDone(ctx context.Context, principal, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	record, err := s.records.Record(ctx, recordPage, principal, id)
	if errors.Is(err, store.ErrNotFound) {
		return false, elicit.ErrExpired
	}
	if err != nil {
		return false, err
	}
	var p pageRecord
	err = mcp.Unmarshal(record.Value, &p)
	return p.Done, err
}

// doneElsewhere looks whether a page was visited at another server that shares the records;
// nil if there can be none.
func (s *Server) doneElsewhere(principal, id string) func(context.Context) (bool, error) {
	if !s.tasks.durable {
		return nil
	}
	return func(ctx context.Context) (bool, error) { return s.pageDone(ctx, principal, id) }
}

// CompleteElicitation says that what a person was sent to a page for is done: the
// handler that waits goes on, at another server that shares [Options].Records within
// seconds, and a client of 2025-11-25 is told, the one that was asked
// and no other. Principal is the ID of who has visited the page, which the page
// must have found out for itself: if it is not who was asked, the error is
// [ErrNoElicitation], as for an id that is not known or has expired.
func (s *Server) CompleteElicitation(id, principal string) error {
	if id == "" || len(id) > len(uuid.Nil.String()) {
		return ErrNoElicitation
	}
	ctx := context.Background()
	done, err := s.pageDone(ctx, principal, id)
	switch {
	case errors.Is(err, elicit.ErrExpired):
		return ErrNoElicitation
	case err != nil:
		return fmt.Errorf("completing an elicitation: %w", err)
	case done:
		return nil
	}
	if err := s.putPage(ctx, principal, id, true); err != nil {
		return fmt.Errorf("completing an elicitation: %w", err)
	}
	s.visits.ended(id, nil) // before the handler that waits answers
	s.visits.table.Complete(id)
	return nil
}

// tell sends the notice of completion, which only 2025-11-25 has (URL-43).
func (c concerned) tell(id string) {
	raw, err := mcp.Marshal(&mcp.ElicitationCompleteParams{ElicitationID: id})
	if err != nil {
		return
	}
	frame := mcp.AppendNotification(nil, mcp.NotificationElicitationComplete, raw)
	if c.run == nil || !c.run.current().carry(frame) {
		c.session.push(frame)
	}
}

// errLater says that a page is not done yet.
var errLater = errors.New("the page is not done yet")

// waitForPage waits until the page is done; errLater comes after some time, if there is
// a limit.
func (n *handlerCall) waitForPage(ctx context.Context, q *questions.Question, limit <-chan time.Time) error {
	for {
		err := n.waitOnce(ctx, q, limit)
		if !errors.Is(err, errNoneWaits) { // the last one has left just before
			return err
		}
	}
}

func (n *handlerCall) waitOnce(ctx context.Context, q *questions.Question, limit <-chan time.Time) error {
	defer n.server.visits.over(q.Page.ID)
	principal := n.current().principal.id()
	pending, err := n.server.visits.enter(q.Page.ID, n.server.doneElsewhere(principal, q.Page.ID))
	if err != nil {
		return fmt.Errorf("waiting for the page: %w", err)
	}
	defer n.server.visits.leave(q.Page.ID)
	if done, err := n.server.pageDone(n.Context(), principal, q.Page.ID); done || err != nil {
		if done {
			n.server.visits.table.Complete(q.Page.ID)
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
		return errLater
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.Context().Done():
		return n.Cause()
	}
}

// pageAgain: a client that has to come again ([Options].PageWait) is told so without a
// question most times; each pageAgain-th time the person is asked again, and may
// decline then (MRTR-20, URL-17).
const pageAgain = 3

// visit waits until the pages are done that people have agreed to visit in this round.
func (n *handlerCall) visit(ctx context.Context, qs []*questions.Question) error {
	d := n.dialogue()
	for {
		open, err := n.openPages(ctx, qs)
		if err != nil || len(open) == 0 {
			return err
		}
		d.reopen(qs)
		if d.waits++; d.waits%pageAgain != 0 {
			open = nil
		}
		if err := n.rest(ctx, qs, open); err != nil {
			return err
		}
		if _, err := d.settle(qs); err != nil {
			return n.fail(err)
		}
	}
}

// openPages waits for pages, and returns those that are not done after a while.
func (n *handlerCall) openPages(ctx context.Context, qs []*questions.Question) (open []*questions.Question, err error) {
	var limit <-chan time.Time
	for _, q := range qs {
		if !q.Visited() || !q.Fresh {
			continue
		}
		if limit == nil {
			clock := time.NewTimer(n.server.opts.PageWait)
			defer clock.Stop()
			limit = clock.C
		}
		if len(open) > 0 { // the time is over
			closed := make(chan time.Time)
			close(closed)
			limit = closed
		}
		err := n.waitForPage(ctx, q, limit)
		switch {
		case err == errLater:
			open = append(open, q)
		case err != nil && n.Cause() != nil:
			return nil, err
		case err != nil:
			q.Err = err
		}
	}
	return open, nil
}

// spawnChild starts a child of the server's actor: see [actors.Ref.SpawnChild].
func (s *Server) spawnChild(spec actors.Spec, then func(actors.Ref, error)) {
	s.ref.SpawnChild(spec, then)
}
