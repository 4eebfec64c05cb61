package mcpserver

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

// again begins a request that brings back a ticket: it is the next round of a parked
// handler, the same retry again, or a reason to run the handler once more, whose call is
// returned then.
func (r *request) again(base context.Context) (*handlerCall, error) {
	t, retry, err := r.readRetry()
	if err != nil {
		return nil, err
	}
	var fresh *handlerCall
	var taker *invocation.Invocation
	for {
		found, before := r.session.server.calls.Find(retry, taker)
		switch {
		case found.Other:
			return nil, errUsed
		case found.Outcome != nil:
			return nil, r.repeat(found.Outcome)
		case found.Working != nil:
			if r.attach(handlerOf(found.Working)) {
				return nil, inbound.ErrParked
			}
			if err := r.await(base, found.Working); err != nil {
				return nil, err
			}
		case found.Parked != nil:
			n, asked := handlerOf(found.Parked), found.Questions.([]questions.Question)
			if !retry.Complete {
				return nil, r.askAgain(n, asked, t)
			}
			if err := checkAnswers(asked, t.Got); err != nil {
				return nil, err
			}
			if r.invocation.Store(n); n.Resume(r, retry, t.Got) {
				r.joined(n)
				return nil, inbound.ErrParked
			}
		case fresh == nil:
			fresh = r.newHandlerCall(t.Flow, base)
			taker = &fresh.Invocation
		default:
			r.joined(fresh)
			fresh.resume(t, handlerOf(before))
			return fresh, nil
		}
	}
}

// handlerOf returns the call of an invocation, nil for none.
func handlerOf(n *invocation.Invocation) *handlerCall {
	if n == nil {
		return nil
	}
	return n.Handler.(*handlerCall)
}

// attach lets the request wait for the outcome of a call, and reports false if there will
// be none.
func (r *request) attach(n *handlerCall) bool {
	r.invocation.Store(n)
	if !n.Attach(r) {
		return false
	}
	r.joined(n)
	return true
}

// await waits until a handler that gives no outcome has returned: there is one at a time.
func (r *request) await(base context.Context, n *invocation.Invocation) error {
	select {
	case <-n.Returned():
		return nil
	case <-r.Done():
		return context.Cause(&r.Call)
	case <-base.Done():
		return context.Cause(base)
	}
}

// repeat answers a request with what an earlier one has got.
func (r *request) repeat(out *invocation.Outcome) error {
	if out.Err == nil {
		r.respondRaw(out.Result)
	}
	return out.Err
}

// askAgain answers a retry that lacks answers with the questions that are left; the
// handler waits on (MRTR-05).
func (r *request) askAgain(n *handlerCall, asked []questions.Question, t *ticket.Ticket) error {
	var open []*questions.Question
	for i := range asked {
		if _, there := t.Got[asked[i].Key]; !there {
			open = append(open, &asked[i])
		}
	}
	if err := questions.Missing(r.capabilities(), open); err != nil {
		return told(r, public(err))
	}
	again := *t
	again.Until = time.Now().Add(n.server.opts.TicketTTL)
	n.server.calls.Prolong(t.Flow, again.Until)
	result, err := n.inputRequired(r, &again, open)
	if err != nil {
		return err
	}
	r.respondRaw(result)
	return nil
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
func (r *request) readRetry() (*ticket.Ticket, *invocation.Retry, error) {
	t, err := r.session.server.unseal(r)
	if err != nil {
		return nil, nil, err
	}
	responses, err := r.inputResponses()
	if err != nil {
		return nil, nil, err
	}
	got := maps.Clone(t.Got)
	if got == nil {
		got = make(map[string]json.RawMessage, len(responses))
	}
	complete := true
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
		} else if err := r.session.server.checkSchema(&e, got[e.Key], r.version); err != nil {
			return nil, nil, err
		}
	}
	t.Got = got
	sum, err := digest(got)
	// A handler in retry style looks for itself what is there.
	return t, &invocation.Retry{Ticket: bring(t), Principal: r.principal.id(), Complete: complete || t.State != nil, Answers: sum}, err
}

// digest tells one set of answers from another.
func digest(got map[string]json.RawMessage) (sum [sha256.Size]byte, err error) {
	raw, err := mcp.Marshal(got)
	if err == nil {
		raw, err = jsonx.Canonical(raw)
	}
	return sha256.Sum256(raw), err
}

// id is that of a principal; "" is none.
func (p *Principal) id() string {
	if p == nil {
		return ""
	}
	return p.ID
}
