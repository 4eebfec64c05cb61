package dialogue

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
func (c *Call) askRound(ctx context.Context, qs []*questions.Question) error {
	t := c.talking()
	t.next = min(t.next+int(t.skip.Swap(0)), len(t.answers))
	open, err := t.replay(qs)
	if err == nil && len(open) > 0 && t.asked == nil {
		open, err = c.brought(open)
	}
	if err != nil {
		return c.fail(err)
	}
	for len(open) > 0 {
		if err := c.openRound(qs, open); err != nil {
			return err
		}
		if err := c.rest(ctx, qs, open); err != nil {
			return err
		}
		if open, err = t.settle(qs); err != nil {
			return c.fail(err)
		}
	}
	if count, ok := ctx.Value(asking.Asked{}).(*atomic.Int32); ok {
		count.Add(int32(len(qs)))
	}
	return c.visit(ctx, qs)
}

// fail ends the call with an error of ours: the handler is not to mend it.
func (c *Call) fail(err error) error {
	if _, ok := errors.AsType[*questions.AnswerError](err); ok {
		c.Unuse(c.talking().call) // the client may try again with better ones
	}
	c.Refuse(wireOf(err))
	c.End(c.host.Public(err))
	return err
}

// brought hands out the answers that the first request has brought, and returns the
// questions that are left. A client that knows the questions may answer them at once: only
// its later requests carry a state of ours. Keys that no question has are ignored
// (MRTR-05). Pages are left out: the server itself sees whether a person was there.
func (c *Call) brought(open []*questions.Question) ([]*questions.Question, error) {
	raw, state := c.live().Brought()
	isPage := func(q *questions.Question) bool { return q.Page != nil }
	if len(raw) == 0 || state != nil || slices.ContainsFunc(open, isPage) {
		return open, nil
	}
	responses, err := inputResponses(raw)
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
	t := c.talking()
	t.begin(open, got)
	return t.settle(open)
}

// openRound makes a round of the questions, unless it is open already.
func (c *Call) openRound(all, open []*questions.Question) error {
	sender := c.live().Sender()
	if err := questions.Missing(sender.Can(), open); err != nil {
		return err
	}
	t := c.talking()
	if t.asked != nil {
		return nil
	}
	for _, q := range all {
		if err := c.openPage(q); err != nil {
			return err
		}
	}
	t.begin(all, make(map[string]json.RawMessage))
	return nil
}

// rest is the time between two rounds: the requests that wait are answered with the open
// questions, and the handler waits for the next request, if it is kept.
func (c *Call) rest(ctx context.Context, all, open []*questions.Question) error {
	var kept []questions.Question // apart from the handler's: retries are held against them
	if !c.host.NoParking {
		kept = make([]questions.Question, len(all))
		for i, q := range all {
			kept[i] = *q
		}
	}
	answers, err := c.publish(open, nil, kept)
	switch {
	case err != nil:
		return err
	case answers == nil:
		c.End(c.host.Suspended)
		return c.host.Suspended
	}
	c.talking().got, err = c.Await(ctx, answers)
	return err
}

// publish answers the requests that wait with input_required. A handler that is kept waits
// for the reply.
func (c *Call) publish(open []*questions.Question, state *string, kept []questions.Question) (*actors.Reply[invocation.Answers], error) {
	t := c.talking()
	sealed := t.ticket(time.Now().Add(c.host.TicketTTL), state)
	result, err := c.host.inputRequired(c.Context(), c.live(), sealed, open)
	if err != nil {
		return nil, err
	}
	return c.Invocation.Ask(&invocation.Round{
		Ticket: bring(sealed), Principal: c.first.Sender().Principal, Expiry: c.live().Sender().Expiry, Result: result,
		Park: kept != nil, Questions: kept, Kept: t.size() + c.first.Size(),
	})
}

// bring is what the registry of calls knows of a ticket.
func bring(t *ticket.Ticket) invocation.Ticket {
	return invocation.Ticket{Call: t.Flow, Round: t.Round, Until: t.Until}
}

// inputRequired encodes the answer to r that asks (MRTR-02).
func (h *Host) inputRequired(ctx context.Context, r Request, t *ticket.Ticket, open []*questions.Question) ([]byte, error) {
	state, err := h.seal(ctx, t, r)
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
	raw, err := h.Encode(&result, r.Sender().Version)
	if err != nil {
		return nil, fmt.Errorf("asking the client: %w", err)
	}
	return raw, nil
}

// inputResponses reads the answers that a request brings.
func inputResponses(raw json.RawMessage) (responses mcp.InputResponses, err error) {
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '{' || jsonx.Unmarshal(raw, &responses) != nil { // MRTR-07
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "inputResponses is not an object")
	}
	return responses, nil
}

// pageAgain: a client that has to come again ([Host].PageWait) learns that without a
// question most times; each pageAgain-th time the person is asked again, and may
// decline then (MRTR-20, URL-17).
const pageAgain = 3

// visit waits until the pages are done that people have agreed to visit in this round.
func (c *Call) visit(ctx context.Context, qs []*questions.Question) error {
	t := c.talking()
	for {
		open, err := c.openPages(ctx, qs)
		if err != nil || len(open) == 0 {
			return err
		}
		t.reopen(qs)
		if t.waits++; t.waits%pageAgain != 0 {
			open = nil
		}
		if err := c.rest(ctx, qs, open); err != nil {
			return err
		}
		if _, err := t.settle(qs); err != nil {
			return c.fail(err)
		}
	}
}

// openPages waits for pages, and returns those that are not done after a while.
func (c *Call) openPages(ctx context.Context, qs []*questions.Question) (open []*questions.Question, err error) {
	var limit <-chan time.Time
	for _, q := range qs {
		if !q.Visited() || !q.Fresh {
			continue
		}
		if limit == nil {
			clock := time.NewTimer(c.host.PageWait)
			defer clock.Stop()
			limit = clock.C
		}
		if len(open) > 0 { // the time is over
			closed := make(chan time.Time)
			close(closed)
			limit = closed
		}
		err := c.waitForPage(ctx, q, limit)
		switch {
		case err == pages.ErrLater:
			open = append(open, q)
		case err != nil && c.Cause() != nil:
			return nil, err
		case err != nil:
			q.Err = err
		}
	}
	return open, nil
}
