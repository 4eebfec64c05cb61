package dialogue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/invocation"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// Again begins a request that brings back a ticket: it is the next round of a parked
// handler, or the same retry again, for which the request waits then; or a reason to run the
// handler once more, whose call, made by begin, is returned; or it has its result at once.
func (h *Host) Again(r Request, base context.Context, begin func(id string) *Call) (c *Call, result []byte, err error) {
	t, retry, err := h.readRetry(r)
	if err != nil {
		return nil, nil, err
	}
	var fresh *Call
	var taker *invocation.Invocation
	for {
		found, before := h.Calls.Find(retry, taker)
		switch {
		case found.Other:
			return nil, nil, errUsed
		case found.Outcome != nil:
			return nil, found.Outcome.Result, found.Outcome.Err
		case found.Working != nil:
			working := Of(found.Working)
			if r.Join(working); working.Attach(r) {
				r.Join(working)
				return nil, nil, inbound.ErrParked
			}
			if err := await(r, base, found.Working); err != nil {
				return nil, nil, err
			}
		case found.Parked != nil:
			parked, asked := Of(found.Parked), found.Questions.([]questions.Question)
			if !retry.Complete {
				result, err := parked.askAgain(r, asked, t)
				return nil, result, err
			}
			if err := checkAnswers(asked, t.Got); err != nil {
				return nil, nil, err
			}
			if r.Join(parked); parked.Resume(r, retry, t.Got) {
				r.Join(parked)
				return nil, nil, inbound.ErrParked
			}
		case fresh == nil:
			fresh = begin(t.Flow)
			taker = &fresh.Invocation
		default:
			r.Join(fresh)
			fresh.restore(t, Of(before))
			return fresh, nil, nil
		}
	}
}

// errUsed is the answer to a requestState that came before with other answers.
var errUsed = mcp.Errorf(mcp.CodeInvalidParams, "requestState was used with other answers")

// await waits until a handler that gives no outcome has returned: there is one at a time.
func await(r Request, base context.Context, n *invocation.Invocation) error {
	select {
	case <-n.Returned():
		return nil
	case <-r.Done():
		return context.Cause(r)
	case <-base.Done():
		return context.Cause(base)
	}
}

// restore gives a handler that runs again what is in its ticket, and what was done
// once by the one before it, which was cancelled.
func (c *Call) restore(t *ticket.Ticket, before *Call) {
	own := c.talking()
	own.rounds = rounds{call: t.Flow, round: t.Round, answers: t.Answers, asked: t.Asked, got: t.Got, waits: t.Waits}
	own.once.add(t.Once)
	if before != nil {
		own.once.add(before.talking().once.results())
	}
	if t.State != nil {
		c.given = &given{responses: t.Got, state: *t.State}
		own.asked, own.got, own.round = nil, nil, t.Round+1
	}
}

// askAgain makes the answer to a retry that lacks answers: the questions that are left. The
// handler waits on (MRTR-05).
func (c *Call) askAgain(r Request, asked []questions.Question, t *ticket.Ticket) ([]byte, error) {
	var open []*questions.Question
	for i := range asked {
		if _, there := t.Got[asked[i].Key]; !there {
			open = append(open, &asked[i])
		}
	}
	sender := r.Sender()
	if err := questions.Missing(sender.Can(), open); err != nil {
		return nil, err
	}
	again := *t
	again.Until = time.Now().Add(c.host.TicketTTL)
	c.host.Calls.Prolong(t.Flow, again.Until)
	return c.host.inputRequired(c.Context(), r, &again, open)
}

// checkAnswers holds the answers of a complete retry against the questions.
func checkAnswers(asked []questions.Question, got map[string]json.RawMessage) error {
	for _, q := range asked { // a copy, which is dropped
		if err := q.Settle(got[q.Key]); err != nil {
			return wireOf(err)
		}
	}
	return nil
}

// readRetry reads what a retry brings: the ticket of its round, with all answers there are.
func (h *Host) readRetry(r Request) (*ticket.Ticket, *invocation.Retry, error) {
	t, err := h.unseal(r)
	if err != nil {
		return nil, nil, err
	}
	raw, _ := r.Brought()
	responses, err := inputResponses(raw)
	if err != nil {
		return nil, nil, err
	}
	got := maps.Clone(t.Got)
	if got == nil {
		got = make(map[string]json.RawMessage, len(responses))
	}
	complete, sender := true, r.Sender()
	for _, e := range t.Asked { // keys that were not asked for are ignored (MRTR-05)
		raw, there := responses[e.Key]
		if there {
			if err := questions.CheckAnswer(e.Key, e.Method, raw); err != nil {
				return nil, nil, wireOf(err)
			}
			if _, had := got[e.Key]; !had || e.ID != "" {
				got[e.Key] = raw
			}
		}
		if _, has := got[e.Key]; !has {
			complete = false
		} else if err := h.checkSchema(&e, got[e.Key], sender.Version); err != nil {
			return nil, nil, err
		}
	}
	t.Got = got
	sum, err := digest(got)
	// A handler in retry style looks itself for what is there.
	return t, &invocation.Retry{Ticket: bring(t), Principal: sender.Principal, Complete: complete || t.State != nil, Answers: sum}, err
}

// digest tells one set of answers from another.
func digest(got map[string]json.RawMessage) (sum [sha256.Size]byte, err error) {
	raw, err := mcp.Marshal(got)
	if err == nil {
		raw, err = jsonx.Exact(raw)
	}
	return sha256.Sum256(raw), err
}
