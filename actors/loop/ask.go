package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Answers tells runs what was decided of their questions by others, in other processes
// too: one that looks at the store for all of them, in place of each that looks for
// itself. Its methods must not block.
type Answers interface {
	// Watch calls settled, which does not block, once the ask is decided. It may do so
	// more than once, and not for one that expires. It ends with Forget, or with run.
	Watch(ask string, run actors.Ref, settled func(store.Ask))
	Forget(ask string)
}

// openAsk is a question that waits. The store decides who answered it first.
type openAsk struct {
	row     store.Ask
	call    *call     // that it is about
	raised  *raise    // the call itself asks; nil for its approval
	limit   *limitAsk // it is about a limit, and no call
	stored  bool      // it is durable: answers may be given
	writing int       // decisions on their way to the store, which says how it was settled
	settled bool      // it is decided, and off the list
	answers []answer  // given before it was stored
}

// Messages to itself.
type (
	askSeen struct { // how an ask stands in the store
		open *openAsk
		ask  store.Ask
		err  error
	}
	pollAsks struct{}
)

// openAsk makes the question whether a call may be made. The error is that of a question
// that no store takes.
func (r *run) openAsk(cl *call) (runlog.Entry, error) {
	payload, hash := payloadOf(runlog.ApprovalPayload{Server: cl.tool.Server, Tool: cl.name, Definition: cl.tool.Hash,
		Source: cl.tool.Source, Arguments: cl.args, Tainted: r.outbound(cl.tool), Again: cl.again})
	row := store.Ask{
		ID: cl.key, Run: r.cfg.ID, Kind: runlog.AskKind, Tool: cl.name, Server: cl.tool.Server, Origin: cl.tool.Origin,
		Path: r.cfg.Path, Trust: trust(cl.tool), Payload: payload, Hash: hash,
		Expires: store.Clock(time.Now().Add(r.cfg.AskExpiry)),
	}
	if err := row.Check(); err != nil {
		return runlog.Entry{}, err
	}
	cl.phase = asking
	return r.listAsk(&openAsk{row: row, call: cl}), nil
}

// listAsk adds a question to those that are open, and returns the event that opens it,
// in the store too: see [writing.encode]. The clock of the run's wall time stands still
// while there is one (TIME-05).
func (r *run) listAsk(a *openAsk) runlog.Entry {
	r.stopClock()
	if r.asks == nil {
		r.asks = make(map[string]*openAsk)
	}
	r.asks[a.row.ID] = a
	return runlog.Entry{Type: store.AskOpened, Key: a.row.ID, Body: &runlog.AskOpened{Ask: a.row}}
}

// payloadOf is exactly what is decided on, and its hash.
func payloadOf(v any) (json.RawMessage, string) {
	raw, err := jsonx.Marshal(v)
	if err != nil { // the arguments were found to be valid JSON before
		return nil, ""
	}
	canonical, err := jsonx.Canonical(raw)
	if err != nil {
		canonical = raw
	}
	sum := sha256.Sum256(canonical)
	return raw, "sha256:" + hex.EncodeToString(sum[:])
}

func trust(t *Tool) string {
	switch {
	case t.Server == "":
		return "program"
	case t.Trusted:
		return "trusted"
	}
	return "untrusted"
}

// askMessage handles what concerns asks while the run is acting.
func (r *run) askMessage(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case askSeen:
		r.sawAsk(c, m)
	case pollAsks:
		r.pollAsks(c)
	}
}

// asksAreStored goes on with questions that can be answered from any process now.
func (r *run) asksAreStored(c *actors.Context, asks ...*openAsk) {
	for _, a := range asks {
		if a.settled {
			continue
		}
		a.stored = true
		if r.out != nil {
			r.withdraw(c, a)
			continue
		}
		if r.cfg.Answers != nil {
			self := c.Self()
			r.cfg.Answers.Watch(a.row.ID, self, func(seen store.Ask) { self.Send(askSeen{a, seen, nil}) })
		}
		for _, given := range a.answers {
			r.settleHere(c, a, given)
		}
		a.answers = nil
	}
	if r.out == nil && len(asks) > 0 {
		r.setPoll(c)
	}
}

// setPoll looks again soon, and exactly when the next ask expires.
func (r *run) setPoll(c *actors.Context) {
	now := time.Now()
	var next time.Time // with somebody who tells of answers there is only the expiry to look for
	if r.cfg.Answers == nil {
		next = now.Add(askPoll)
	}
	for _, a := range r.asks {
		e := a.row.Expires
		if !e.After(now) { // the store did not answer then
			e = now.Add(askPoll)
		}
		if next.IsZero() || e.Before(next) {
			next = e
		}
	}
	if !next.IsZero() {
		r.askTimer = timer(c, r.askTimer, pollAsks{})
		r.askTimer.SetAt(next)
	}
}

// pollAsks looks at the store: somebody else may have answered there, or the time
// is up.
func (r *run) pollAsks(c *actors.Context) {
	now := time.Now()
	for _, open := range r.asks {
		if !open.stored {
			continue
		}
		j, id, expired := r.cfg.Journal, open.row.ID, !now.Before(open.row.Expires)
		if !expired && r.cfg.Answers != nil {
			continue
		}
		actors.Await(c, func(ctx context.Context) (store.Ask, error) {
			if expired { // the store may go by another clock
				return settleAnyway(j.SettleAsk(ctx, id, store.Decision{Status: store.AskExpired, By: "clock"}))
			}
			return j.Ask(ctx, id)
		}, func(a store.Ask, err error) any { return askSeen{open, a, err} })
	}
	r.setPoll(c)
}

// settleAnyway takes the decision of whoever was first.
func settleAnyway(a store.Ask, err error) (store.Ask, error) {
	if errors.Is(err, store.ErrSettled) {
		err = nil
	}
	return a, err
}

func (r *run) sawAsk(c *actors.Context, m askSeen) {
	switch {
	case m.open.settled, m.open.writing > 0: // meanwhile
	case m.err == nil && m.ask.Status != store.AskPending:
		r.askSettled(c, m.open, m.ask.Decision)
	case m.err != nil && !time.Now().Before(m.open.row.Expires):
		// The store does not answer. Whatever it holds, this is no yes.
		r.askSettled(c, m.open, store.Decision{Status: store.AskExpired, By: "clock"})
	}
}

// answer decides an ask, as soon as the question is durable.
func (r *run) answer(c *actors.Context, m answer) {
	if r.cfg.Journal == nil {
		m.reply.Complete(store.Ask{}, store.ErrNotFound)
		return
	}
	switch open := r.asks[m.ask]; {
	case open == nil || r.out != nil:
		j := r.cfg.Journal
		actors.Await(c, func(ctx context.Context) (store.Ask, error) {
			return j.SettleAsk(ctx, m.ask, m.decision)
		}, func(a store.Ask, err error) any {
			m.reply.Complete(a, err)
			return nil
		})
	case !open.stored:
		open.answers = append(open.answers, m)
	default:
		r.settleHere(c, open, m)
	}
}

// settleHere writes a decision together with the event that says so; the store decides
// whether it is the first.
func (r *run) settleHere(c *actors.Context, open *openAsk, m answer) {
	if m.decision.At.IsZero() {
		m.decision.At = store.Clock(time.Now())
	}
	if err := m.decision.Check(); err != nil {
		m.reply.Complete(store.Ask{}, err)
		return
	}
	id, d := open.row.ID, m.decision
	open.writing++
	r.writeBatch(c, &batch{
		entries: []runlog.Entry{settledEntry(id, d)},
		settle: &settling{
			Settlement: store.Settlement{Ask: id, Decision: d},
			lost: func(c *actors.Context) {
				open.writing--
				r.seeSettled(c, open, m)
			},
			failed: func(err error) { m.reply.Complete(store.Ask{}, err) },
		},
		then: func(c *actors.Context) {
			open.writing--
			row := open.row
			row.Decision = d
			m.reply.Complete(row, nil)
			r.askDecided(c, open, d, nil)
		},
	})
}

// seeSettled looks how an ask was settled that somebody else was faster to answer.
func (r *run) seeSettled(c *actors.Context, open *openAsk, m answer) {
	j, id := r.cfg.Journal, open.row.ID
	actors.Await(c, func(ctx context.Context) (store.Ask, error) {
		return j.Ask(ctx, id)
	}, func(a store.Ask, err error) any {
		told := err
		if err == nil {
			told = store.ErrSettled
		}
		m.reply.Complete(a, told)
		return askSeen{open, a, err}
	})
}

func settledEntry(id string, d store.Decision) runlog.Entry {
	return runlog.Entry{Type: store.AskSettled, Key: id, Body: &runlog.AskSettled{Status: d.Status, By: d.By, Scope: d.Scope, Reason: runlog.Reason(d.Answer)}}
}

func failAnswers(a *openAsk, err error) {
	for _, waiting := range a.answers {
		waiting.reply.Complete(store.Ask{}, err)
	}
	a.answers = nil
}

// askSettled goes on with what was decided elsewhere.
func (r *run) askSettled(c *actors.Context, a *openAsk, d store.Decision) {
	r.askDecided(c, a, d, []runlog.Entry{settledEntry(a.row.ID, d)})
}

// askDecided goes on with what was decided. The entries are what is still to be written
// of it.
func (r *run) askDecided(c *actors.Context, a *openAsk, d store.Decision, entries []runlog.Entry) {
	if a.settled {
		return
	}
	if r.out != nil {
		r.unasked(c, a, d, entries)
		return
	}
	r.closeAsk(a)
	switch {
	case a.limit != nil:
		r.limitSettled(c, a, d, entries)
		return
	case a.raised != nil:
		a.raised.reply.Complete(d, nil)
		r.advance(c, entries...)
		return
	}
	cl := a.call
	if d.Status == store.AskAccepted {
		cl.phase = ready
		if d.Scope == runlog.ScopeRun && cl.tool.Hash != "" {
			if r.allowed == nil {
				r.allowed, r.allowedAgain = make(map[string]bool), make(map[string]bool)
			}
			r.allowed[cl.tool.Hash] = true
			r.allowedAgain[cl.tool.Hash] = r.allowedAgain[cl.tool.Hash] || cl.again
		}
	} else {
		cl.hold.Release()
		entries = append(entries, r.settle(cl, declined(d), false))
	}
	r.advance(c, entries...)
}

// closeAsk takes an ask off the list; with the last one the wall time goes on.
func (r *run) closeAsk(a *openAsk) {
	delete(r.asks, a.row.ID)
	a.settled = true
	if r.cfg.Answers != nil {
		r.cfg.Answers.Forget(a.row.ID)
	}
	if len(r.asks) == 0 && r.out == nil {
		r.askTimer.Clear()
		r.startClock()
	}
}

// declined is what the model reads of a call that nobody allowed.
func declined(d store.Decision) *mcp.CallToolResult {
	text := "not called: the user declined it"
	switch d.Status {
	case store.AskExpired:
		text = "not called: it needs a human's consent, and nobody answered in time"
	case store.AskCancelled:
		text = "not called: it needs a human's consent, and the question was withdrawn"
	}
	if reason := runlog.Reason(d.Answer); reason != "" {
		text += ": " + clip.Short(reason)
	}
	return mcp.ErrorResult("%s", text)
}
