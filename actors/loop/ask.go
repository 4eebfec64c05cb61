package loop

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// ScopeRun is the scope of a decision that holds for every call of that exact tool
// definition in the same run.
const ScopeRun = "run"

// AskKind is the kind of the asks a run opens.
const AskKind = "tool"

// openAsk is a question that waits. The store decides who answered it first.
type openAsk struct {
	row     store.Ask
	storing bool     // it is on its way to the store
	stored  bool     // answers may be given to the store
	answers []answer // given before that
}

// Messages to itself.
type (
	askStored struct {
		call *call
		err  error
	}
	askSeen struct { // how an ask stands in the store
		call *call
		ask  store.Ask
		err  error
	}
	askWithdrawn struct {
		call *call
		ask  store.Ask
		err  error
	}
	pollAsks struct{}
)

// openAsk makes the question for a call. The clock of the run's wall time stands
// still while one is open (TIME-05).
func (r *run) openAsk(cl *call) Entry {
	payload, hash := approvalPayload(cl)
	row := store.Ask{
		ID: cl.key, Run: r.cfg.ID, Kind: AskKind, Tool: cl.name, Server: cl.tool.Server, Origin: cl.tool.Origin,
		Path: r.cfg.Path, Trust: trust(cl.tool), Payload: payload, Hash: hash,
		Expires: store.Clock(time.Now().Add(r.cfg.AskExpiry)),
	}
	cl.phase = asking
	cl.ask = &openAsk{row: row}
	if len(r.asks) == 0 {
		r.wallLeft = time.Until(r.wallEnds)
		r.wall.Clear()
	}
	r.asks[row.ID] = cl
	return Entry{Type: store.AskOpened, Key: row.ID, Body: &AskOpened{row}}
}

// approvalPayload is exactly what will be called, and its hash.
func approvalPayload(cl *call) (json.RawMessage, string) {
	raw, err := jsonx.Marshal(ApprovalPayload{Server: cl.tool.Server, Tool: cl.name, Definition: cl.tool.Hash, Arguments: cl.args})
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

// storeAsk puts the question where it can be answered from any process.
func (r *run) storeAsk(c *actors.Context, cl *call) {
	j, row := r.cfg.Journal, cl.ask.row
	cl.ask.storing = true
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		err := j.OpenAsk(ctx, row)
		if errors.Is(err, store.ErrExists) {
			err = nil
		}
		return struct{}{}, err
	}, func(_ struct{}, err error) any { return askStored{cl, err} })
}

// askMessage handles what concerns asks while the run is acting.
func (r *run) askMessage(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case askStored:
		r.askIsStored(c, m.call, m.err)
	case askSeen:
		r.sawAsk(c, m)
	case pollAsks:
		r.pollAsks(c)
	}
}

func (r *run) askIsStored(c *actors.Context, cl *call, err error) {
	if cl.ask == nil {
		return
	}
	if err != nil {
		c.Log().Error("a question could not be stored", "run", r.cfg.ID, "tool", cl.name, "error", err)
		failAnswers(cl.ask, err)
		r.askSettled(c, cl, store.Decision{Status: store.AskCancelled, By: "runtime", Answer: reasonJSON("it could not be asked")})
		return
	}
	cl.ask.stored = true
	for _, a := range cl.ask.answers {
		r.settleStored(c, cl, a)
	}
	cl.ask.answers = nil
	r.setPoll()
}

// setPoll looks again soon, and exactly when the next ask expires.
func (r *run) setPoll() {
	now := time.Now()
	next := now.Add(askPoll)
	for _, cl := range r.asks {
		if e := cl.ask.row.Expires; e.After(now) && e.Before(next) {
			next = e
		}
	}
	r.askTimer.SetAt(next)
}

// pollAsks looks at the store: somebody else may have answered there, or the time
// is up.
func (r *run) pollAsks(c *actors.Context) {
	now := time.Now()
	for _, cl := range r.asks {
		if !cl.ask.stored {
			continue
		}
		j, id, expired := r.cfg.Journal, cl.ask.row.ID, !now.Before(cl.ask.row.Expires)
		actors.Await(c, func(ctx context.Context) (store.Ask, error) {
			if expired { // the store may go by another clock
				return settleAnyway(j.SettleAsk(ctx, id, store.Decision{Status: store.AskExpired, By: "clock"}))
			}
			return j.Ask(ctx, id)
		}, func(a store.Ask, err error) any { return askSeen{cl, a, err} })
	}
	r.setPoll()
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
	case m.call.ask == nil: // settled meanwhile
	case m.err == nil && m.ask.Status != store.AskPending:
		r.askSettled(c, m.call, m.ask.Decision)
	case m.err != nil && !time.Now().Before(m.call.ask.row.Expires):
		// The store does not answer. Whatever it holds, this is no yes.
		r.askSettled(c, m.call, store.Decision{Status: store.AskExpired, By: "clock"})
	}
}

// answer gives a decision to the store, as soon as the question is there.
func (r *run) answer(c *actors.Context, m answer) {
	cl := r.asks[m.ask]
	if cl != nil && !cl.ask.stored && r.out == nil {
		cl.ask.answers = append(cl.ask.answers, m)
		return
	}
	r.settleStored(c, cl, m)
}

// settleStored lets the store decide whether the answer is the first. cl is nil
// for an ask that is not open.
func (r *run) settleStored(c *actors.Context, cl *call, m answer) {
	j := r.cfg.Journal
	actors.Await(c, func(ctx context.Context) (store.Ask, error) {
		return j.SettleAsk(ctx, m.ask, m.decision)
	}, func(a store.Ask, err error) any {
		m.reply.Complete(a, err)
		a, err = settleAnyway(a, err)
		if cl == nil {
			return nil
		}
		return askSeen{cl, a, err}
	})
}

func failAnswers(a *openAsk, err error) {
	for _, waiting := range a.answers {
		waiting.reply.Complete(store.Ask{}, err)
	}
	a.answers = nil
}

// askSettled goes on with a call that was decided on.
func (r *run) askSettled(c *actors.Context, cl *call, d store.Decision) {
	entries := []Entry{r.closeAsk(cl, d)}
	if d.Status == store.AskAccepted {
		cl.phase = ready
		if d.Scope == ScopeRun && cl.tool.Hash != "" {
			r.allowed[cl.tool.Hash] = true
		}
	} else {
		r.ledger.releaseCall()
		entries = append(entries, r.settle(cl, declined(d), false))
	}
	r.advance(c, entries...)
}

// closeAsk takes an ask off the list; with the last one the wall time goes on.
func (r *run) closeAsk(cl *call, d store.Decision) Entry {
	delete(r.asks, cl.ask.row.ID)
	cl.ask = nil
	if len(r.asks) == 0 && r.out == nil {
		r.askTimer.Clear()
		r.wallEnds = time.Now().Add(r.wallLeft)
		r.wall.SetAt(r.wallEnds)
	}
	return Entry{Type: store.AskSettled, Key: cl.key, Body: &AskSettled{
		Status: d.Status, By: d.By, Scope: d.Scope, Reason: reasonOf(d.Answer)}}
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
	if reason := reasonOf(d.Answer); reason != "" {
		text += ": " + clip(reason, maxErrText)
	}
	return mcp.ErrorResult("%s", text)
}

// reason is the answer of a decision that declines.
type reason struct {
	Reason string `json:"reason,omitempty"`
}

// DeclineAnswer returns the [store.Decision].Answer that carries a reason, nil for
// none.
func DeclineAnswer(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return reasonJSON(text)
}

func reasonJSON(text string) json.RawMessage {
	raw, err := jsonx.Marshal(reason{clip(text, maxErrText)})
	if err != nil { // not UTF-8: better no reason than no answer
		return nil
	}
	return raw
}

func reasonOf(raw json.RawMessage) string {
	var d reason
	if len(raw) == 0 || jsonx.Unmarshal(raw, &d) != nil {
		return ""
	}
	return d.Reason
}
