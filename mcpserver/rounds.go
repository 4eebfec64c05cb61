package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/invocation"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// askRound puts questions to a client of 2026-07-28: those that were not answered
// before end the request with input_required, and the answers come with the next.
func (n *handlerCall) askRound(ctx context.Context, qs []*questions.Question) error {
	d := n.dialogue()
	d.next = min(d.next+int(d.skip.Swap(0)), len(d.answers))
	open, err := d.replay(qs)
	if err == nil && len(open) > 0 && d.asked == nil {
		open, err = n.brought(open)
	}
	if err != nil {
		return n.fail(err)
	}
	for len(open) > 0 {
		if err := n.openRound(qs, open); err != nil {
			return err
		}
		if err := n.rest(ctx, qs, open); err != nil {
			return err
		}
		if open, err = d.settle(qs); err != nil {
			return n.fail(err)
		}
	}
	if count, ok := ctx.Value(asking.Asked{}).(*atomic.Int32); ok {
		count.Add(int32(len(qs)))
	}
	return n.visit(ctx, qs)
}

// fail ends the call with an error of ours: the handler is not to mend it.
func (n *handlerCall) fail(err error) error {
	if _, ok := errors.AsType[*questions.AnswerError](err); ok {
		n.Unuse(n.dialogue().call) // the client may try again with better ones
	}
	n.Refuse(wireOf(err))
	n.End(public(err))
	return err
}

// wireOf is what a client is told of a question or an answer that is wrong.
func wireOf(err error) error {
	if e, ok := errors.AsType[*questions.AnswerError](err); ok { // MRTR-07
		return mcp.Errorf(mcp.CodeInvalidParams, "%s", shorten(e.Error()))
	}
	return err
}

// brought hands out the answers that a request has brought before it was asked, and
// returns the questions that are left. A client that knows what it will be asked may
// answer at once: without a state of ours nothing else follows from it. Keys that no
// question has are ignored (MRTR-05). Pages are left out: whether a person was there is
// not for the client to say.
func (n *handlerCall) brought(open []*questions.Question) ([]*questions.Question, error) {
	r := n.current()
	isPage := func(q *questions.Question) bool { return q.Page != nil }
	if len(r.responses) == 0 || r.state != nil || r != n.request || slices.ContainsFunc(open, isPage) {
		return open, nil
	}
	responses, err := r.inputResponses()
	if err != nil {
		return nil, err
	}
	got := make(map[string]json.RawMessage, len(open))
	for _, q := range open {
		raw, there := responses[q.Key]
		if !there {
			continue
		}
		if err := questions.CheckAnswer(q.Key, q.Method, raw); err != nil {
			return nil, err
		}
		got[q.Key] = raw
	}
	if len(got) == 0 {
		return open, nil
	}
	d := n.dialogue()
	d.begin(open, got)
	return d.settle(open)
}

// openRound makes a round of the questions, unless it is open already.
func (n *handlerCall) openRound(all, open []*questions.Question) error {
	if err := questions.Missing(n.current().capabilities(), open); err != nil {
		return err
	}
	d := n.dialogue()
	if d.asked != nil {
		return nil
	}
	for _, q := range all {
		if q.Page != nil {
			if err := n.openPage(q); err != nil {
				return err
			}
		}
	}
	d.begin(all, make(map[string]json.RawMessage))
	return nil
}

// rest is the time between two rounds: the requests that wait are answered with the open
// questions, and the handler waits for the next request, if it is kept.
func (n *handlerCall) rest(ctx context.Context, all, open []*questions.Question) error {
	var kept []questions.Question // apart from the handler's: retries are held against them
	if !n.server.opts.NoParking {
		kept = make([]questions.Question, len(all))
		for i, q := range all {
			kept[i] = *q
		}
	}
	answers, err := n.publish(open, nil, kept)
	switch {
	case err != nil:
		return err
	case answers == nil:
		n.End(ErrSuspended)
		return ErrSuspended
	}
	n.dialogue().got, err = n.Await(ctx, answers)
	return err
}

// publish answers the requests that wait with input_required. The handler is to wait for
// what is returned, if there is a question of which it is kept.
func (n *handlerCall) publish(open []*questions.Question, state *string, kept []questions.Question) (*actors.Reply[invocation.Answers], error) {
	d := n.dialogue()
	t := d.ticket(time.Now().Add(n.server.opts.TicketTTL), state)
	result, err := n.inputRequired(n.current(), t, open)
	if err != nil {
		return nil, err
	}
	return n.Ask(&invocation.Round{
		Ticket: bring(t), Principal: n.request.principal.id(), Result: result,
		Park: kept != nil, Questions: kept, Kept: d.size() + int64(2*len(n.request.arguments)+n.request.meta.size()),
	})
}

// bring is what the registry of calls knows of a ticket.
func bring(t *ticket.Ticket) invocation.Ticket {
	return invocation.Ticket{Call: t.Flow, Round: t.Round, Until: t.Until}
}

// inputRequired encodes the answer that asks (MRTR-02).
func (n *handlerCall) inputRequired(r *request, t *ticket.Ticket, open []*questions.Question) ([]byte, error) {
	state, err := n.server.seal(n.Context(), t, r)
	if err != nil {
		return nil, err
	}
	result := mcp.InputRequiredResult{RequestState: &state}
	if len(open) > 0 {
		result.InputRequests = make(mcp.InputRequests, len(open))
		for _, q := range open {
			result.InputRequests[q.Key] = q.Input()
		}
	}
	raw, err := mcp.MarshalResult(&result, r.version)
	if err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	return n.server.withMeta(raw, r.version), nil
}

// inputResponses reads the answers that a request brings.
func (r *request) inputResponses() (responses mcp.InputResponses, err error) {
	if r.responses == nil {
		return nil, nil
	}
	if r.responses[0] != '{' || jsonx.Unmarshal(r.responses, &responses) != nil { // MRTR-07
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is not an object")
	}
	return responses, nil
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
		case err == pages.ErrLater:
			open = append(open, q)
		case err != nil && n.Cause() != nil:
			return nil, err
		case err != nil:
			q.Err = err
		}
	}
	return open, nil
}
