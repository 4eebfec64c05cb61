package mcpserver

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// dialogue is what a handler has asked, was answered and has done once.
type dialogue struct {
	turn chan struct{} // has the place of the goroutine that asks
	once onceTable
	skip atomic.Int32 // answers that belong to what is done already
	rounds
}

// dialogue returns the call's, made by the first who needs it.
func (n *handlerCall) dialogue() *dialogue {
	if n.talk.Load() == nil {
		n.talk.CompareAndSwap(nil, &dialogue{turn: make(chan struct{}, 1)})
	}
	return n.talk.Load()
}

// ask puts questions to the client that the handler works for.
func (n *handlerCall) ask(ctx context.Context, qs []*questions.Question) error {
	leave, err := n.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	live := n.current()
	switch {
	case live.version.Era() == mcp.EraLegacy:
		return n.askNested(ctx, live, qs)
	case live.task != nil:
		return n.askTask(ctx, live, qs)
	}
	return n.askRound(ctx, qs)
}

// enter waits for the turn to ask: one question after the other, or the questions of a
// handler that runs again would not be those that were asked.
func (n *handlerCall) enter(ctx context.Context) (leave func(), err error) {
	turn := n.dialogue().turn
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-n.Context().Done():
		return nil, n.Cause()
	}
	leave = func() { <-turn }
	if err := n.Cause(); err != nil {
		leave()
		return nil, err
	}
	return leave, nil
}

// asker is a task that a handler has become: its questions go another way.
type asker interface {
	// ask puts questions to a client of 2026-07-28, and waits for all answers.
	ask(ctx context.Context, qs mcp.InputRequests) (mcp.InputResponses, error)
	// asking says that a question to a legacy client is open, until done.
	asking(ctx context.Context) (done func())
	// mark adds to the params of such a question that it is the task's.
	mark(params json.RawMessage) json.RawMessage
}

// askTask puts questions to the client of a task of 2026-07-28.
func (n *handlerCall) askTask(ctx context.Context, live *request, qs []*questions.Question) error {
	if err := questions.Missing(live.capabilities(), qs); err != nil {
		return err
	}
	inputs := make(mcp.InputRequests, len(qs))
	for _, q := range qs {
		if q.Page != nil {
			if err := n.openPage(q); err != nil {
				return err
			}
		}
		inputs[q.Key] = q.Input()
	}
	answers, err := live.task.ask(ctx, inputs)
	if err != nil {
		return err
	}
	for _, q := range qs {
		if err := q.Settle(answers[q.Key]); err != nil {
			q.Err = err
		} else if q.Visited() {
			q.Err = n.waitForPage(ctx, q, nil)
		}
	}
	return nil
}

// rounds are what a client of 2026-07-28 was asked and has answered: what its ticket says.
// They belong to the goroutine whose turn it is to ask.
type rounds struct {
	call    string          // its id, in the tickets; empty before the first
	answers []ticket.Answer // of the rounds before
	next    int             // of them, what was handed out
	round   int
	asked   []ticket.Question // in this round, of a handler that runs again; else nil
	got     map[string]json.RawMessage
	waits   int
}

// replay hands out the answers that there are, of a handler that runs again, and
// returns the questions that are left. Questions are matched by key, order and digest.
func (t *rounds) replay(qs []*questions.Question) (open []*questions.Question, err error) {
	for _, q := range qs {
		if t.next < len(t.answers) {
			a := t.answers[t.next]
			if !q.Is(a.Question) {
				return nil, mismatch(q, a.Question)
			}
			t.next++
			q.Take(a.ID)
			if err := q.Settle(a.Result); err != nil {
				return nil, err
			}
			continue
		}
		open = append(open, q)
	}
	if len(t.asked) == 0 || len(open) == 0 {
		return open, nil
	}
	if len(open) != len(t.asked) {
		return nil, mismatch(open[0], t.asked[0])
	}
	for i, q := range open {
		if !q.Is(t.asked[i]) {
			return nil, mismatch(q, t.asked[i])
		}
		q.Take(t.asked[i].ID)
	}
	return t.settle(qs)
}

// mismatch says that a handler has not asked again what it had asked (MRTR-30).
func mismatch(q *questions.Question, was ticket.Question) error {
	return mcp.Errorf(mcp.CodeInternal, "the handler asks %q where it had asked %q: its questions must follow from its arguments and earlier answers",
		shorten(q.Key), shorten(was.Key))
}

// begin opens a round with the questions.
func (t *rounds) begin(qs []*questions.Question, got map[string]json.RawMessage) {
	for _, q := range qs {
		t.asked = append(t.asked, q.Entry())
	}
	t.got = got
}

// settle hands out the answers of the open round. When all are there it is over;
// else those that are missing are returned, to be asked again (MRTR-05).
func (t *rounds) settle(qs []*questions.Question) (open []*questions.Question, err error) {
	for _, e := range t.asked {
		i := slices.IndexFunc(qs, func(q *questions.Question) bool { return q.Key == e.Key })
		raw, there := t.got[e.Key]
		if !there {
			open = append(open, qs[i])
			continue
		}
		if err := qs[i].Settle(raw); err != nil {
			return nil, err
		}
		qs[i].Fresh = true
	}
	if len(open) > 0 {
		return open, nil
	}
	for _, e := range t.asked {
		e.Schema = nil
		t.answers = append(t.answers, ticket.Answer{Question: e, Result: t.got[e.Key]})
	}
	t.next, t.asked, t.got, t.round = len(t.answers), nil, nil, t.round+1
	return nil, nil
}

// reopen makes a round of questions that are answered: what they were asked for is not
// done yet.
func (t *rounds) reopen(qs []*questions.Question) {
	t.got, t.asked = make(map[string]json.RawMessage, len(qs)), nil
	for _, a := range t.answers[len(t.answers)-len(qs):] {
		t.asked, t.got[a.Key] = append(t.asked, a.Question), a.Result
	}
	t.answers = t.answers[:len(t.answers)-len(qs)]
	t.next = len(t.answers)
}

// ticket is what the client is given to bring back.
func (d *dialogue) ticket(until time.Time, state *string) *ticket.Ticket {
	if d.call == "" {
		d.call = uuid.NewString()
	}
	return &ticket.Ticket{
		Flow: d.call, Round: d.round, Until: until,
		Answers: d.answers, Once: d.once.results(), Asked: d.asked, Got: d.got, Waits: d.waits, State: state,
	}
}

// resume gives a handler that runs again what is in its ticket, and what was done
// once by the one before it, which was cancelled.
func (n *handlerCall) resume(t *ticket.Ticket, before *handlerCall) {
	d := n.dialogue()
	d.rounds = rounds{call: t.Flow, round: t.Round, answers: t.Answers, asked: t.Asked, got: t.Got, waits: t.Waits}
	d.once.add(t.Once)
	if before != nil {
		d.once.add(before.dialogue().once.results())
	}
	if t.State != nil {
		n.retry = &retryStyle{responses: t.Got, state: *t.State}
		d.asked, d.got, d.round = nil, nil, t.Round+1
	}
}

// size is how many bytes are kept of it, as JSON and as what was decoded from it.
func (d *dialogue) size() int64 {
	size := d.once.size()
	for _, a := range d.answers {
		size += 2 * int64(len(a.Result))
	}
	return size
}

// openPage makes the elicitation of a question, with an id of its own unless it has
// one from an earlier round.
func (n *handlerCall) openPage(q *questions.Question) (err error) {
	all, live := n.server.pages, n.current()
	if q.Page.ID != "" {
		return nil // the handler that waits for it opens it
	}
	if q.Page.ID, err = all.Make(n.Context(), live.principal.id()); err != nil || !live.version.Has(mcp.FeatureElicitationIDs) {
		return err
	}
	return all.Announce(live.principal.id(), q.Page.ID, pages.Client{Session: live.session, Call: n})
}

// waitForPage waits until the page is done; [pages.ErrLater] comes after some time, if there
// is a limit.
func (n *handlerCall) waitForPage(ctx context.Context, q *questions.Question, limit <-chan time.Time) error {
	return n.server.pages.Wait(ctx, n.Context(), n.current().principal.id(), q.Page.ID, limit)
}

// Carry implements [pages.Call].
func (n *handlerCall) Carry(frame []byte) bool { return n.current().carry(frame) }
