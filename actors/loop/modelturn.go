package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/actors/loop/internal/transcript"
	"github.com/troupe-dev/troupe/actors/loop/internal/window"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// roomFreed is a message to itself: another run of the tree has given something back.
type roomFreed struct {
	req    *llm.Request
	before []runlog.Entry
}

// awaitRoom has the run wait, if a limit lacks room for a whole turn only because of the
// turns of other runs. The run's wall time goes on.
func (r *run) awaitRoom(c *actors.Context, req *llm.Request, input int, before []runlog.Entry) bool {
	whole := r.wholeTurn(req, input)
	if !r.h.spend.Account().MustWait(whole) { // as most often: the wait below takes memory
		return false
	}
	self := c.Self()
	leave, waits := r.h.spend.Account().WaitForRoom(whole, func() { self.Send(roomFreed{req, before}) })
	if waits {
		r.state, r.leaveQueue = (*run).awaitingRoom, leave
	}
	return waits
}

func (r *run) awaitingRoom(c *actors.Context, msg any) {
	if m, ok := msg.(roomFreed); ok {
		r.leaveQueue, r.talk.prepared = nil, m.req
		r.think(c, m.before...)
	}
}

// think asks the model, if the limits allow it.
func (r *run) think(c *actors.Context, before ...runlog.Entry) {
	req := r.talk.request(r.cfg)
	input := r.input(req)
	if r.awaitRoom(c, req, input, before) {
		return
	}
	last := r.h.spend.HoldsLast()
	t := new(turn)
	err := r.reserve(t, req, input)
	// Another run may have taken the room since: this one waits for its turn too.
	if (err != nil || t.spend.Clamped()) && r.awaitRoom(c, req, input, before) {
		r.h.spend.Withdraw(t.spend, !last)
		return
	}
	if err != nil {
		r.limits.atLimit(c, err, before, r.list)
		return
	}
	r.pay(t, req)
	r.begin(c, t, req, before...)
}

// pay makes a reserved turn the run's, and completes its request.
func (p *parts) pay(t *turn, req *llm.Request) {
	req.MaxTokens = t.spend.Output()
	p.begins(t)
	if p.cfg.LastAnswers && t.n == p.cfg.Limits.Steps {
		t.answers, req.ToolChoice = true, llm.ToolChoiceNone
	}
}

// firstTurn begins the first turn before the run is recorded. It returns the events of the turn, which are then
// recorded with the run to save a commit, and the function that asks the model afterwards. It returns nil if the turn
// has to wait for something or does not fit its limits: then list begins it, once the run is recorded.
func (r *run) firstTurn() (entries []runlog.Entry, ask func(*actors.Context)) {
	if r.cfg.Tools == nil || guard.BeforeModel.Guarded(r.cfg.Guards) {
		return nil, nil
	}
	l, ready := offerNow(r.cfg.Tools)
	if !ready || l.err != nil {
		return nil, nil
	}
	entries = r.talk.offer(l)
	req := r.talk.request(r.cfg)
	if input := r.input(req); input < maxFirst && r.talk.cut(r.cfg, req, 1) == nil {
		t := new(turn)
		if err := r.reserve(t, req, input); err == nil && !t.spend.Clamped() {
			r.pay(t, req)
			return append(entries, t.intent(req, r.clock.remaining(), false)), func(c *actors.Context) {
				r.state = (*run).thinking
				r.ask(c, t, req)
			}
		}
		r.h.spend.Withdraw(t.spend, true)
	}
	r.talk.tools, r.talk.absent = unlisted, nil
	return nil, nil
}

// withdrawFirst gives back what firstTurn holds for a run that is not recorded: the model is not asked.
func (p *parts) withdrawFirst() {
	if p.turn != nil {
		p.h.spend.Withdraw(p.turn.spend, true)
	}
}

// maxFirst bounds the request of a turn that is recorded with its run, in tokens. In JSON its tools then fit into
// one append beside the largest input.
const maxFirst = 1 << 18

// begin writes that a turn begins, and then asks the model.
func (r *run) begin(c *actors.Context, t *turn, req *llm.Request, before ...runlog.Entry) {
	r.state = (*run).thinking
	var room [2]runlog.Entry // of most turns, on the stack
	r.journal.Write(c, func(c *actors.Context) { r.ask(c, t, req) },
		append(append(room[:0], before...), t.intent(req, r.clock.remaining(), r.last.limit != nil))...)
}

// ask runs the turn in a task, which a cancel of the run ends.
func (r *run) ask(c *actors.Context, t *turn, req *llm.Request) {
	if r.out != nil {
		return
	}
	r.limits.dropAsked(c)
	s := &t.asks
	s.cfg, s.req, s.asked, s.spend, s.turn = r.cfg, req, t, t.spend, t.n
	s.last, s.guarded = r.last.limit != nil, guard.AfterModel.Guarded(r.cfg.Guards)
	t.task = actors.AwaitWork(c, s)
}

func (r *run) thinking(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *modelReplied:
		switch {
		case m.turn != r.turn: // late: that turn has ended
		case m.err != nil:
			m.turn.asking = false
			r.lostTurn(c, m.err, spend.MayBeBilled(m.err))
		default:
			m.turn.asking, m.turn.guards = false, m.guards
			r.replied(c, m.resp, m.chosen)
		}
	}
}

// replied records the model's answer, and goes on with its calls: they are made, and an answer
// without any is the run's, once it is durable.
func (r *run) replied(c *actors.Context, resp *llm.Response, chosen *runlog.Chosen) {
	t := r.turn
	t.resp, r.away = resp, nil
	r.talk.window.Measure(resp.Usage)
	usage := t.spend.Settle()
	refuses := r.last.refuses(t, resp)
	mute := t.answers && !refuses && transcript.WithoutCalls(resp) && resp.Text() == ""
	seen := t.asks.guarded || r.cfg.Trace != nil // by code of the program
	whole := len(resp.Content)
	if refuses || !t.answers && (t.spend.ClampedBy() == nil || !runlog.Cut(resp.Finish)) { // else the run ends here, or wraps up
		resp.Content = withCut(resp)
	}
	said := resp.Content
	resp.Content, t.spoilt = r.talk.InOrder(t.n, said, seen)
	resp.State = transcript.Follow(resp.State, said, resp.Content)
	t.spoilt = alsoCut(t.spoilt, resp.Content[whole:])
	result := runlog.Entry{Type: store.ModelResult, Body: &runlog.ModelResult{
		Turn: t.n, Message: resp.Message(), Thinking: clip.Valid(resp.Thinking), Finish: resp.Finish, Usage: usage, Attempts: t.spend.Attempts(), Model: resp.Model, Chosen: chosen, Spoilt: t.spoilt}}
	var room [1]runlog.Entry // of most answers, on the stack
	if t.guards.Stop != nil {
		r.failed(c, t.guards.Stop, append(t.guards.Entries(""), result)...)
		return
	}
	r.journal.Hold(c, journal.Batch{}, append(append(room[:0], t.guards.Entries("")...), result)...)
	switch {
	case r.out != nil:
	case refuses:
		r.last.refuse(c)
	case r.last.limit != nil:
		r.conclude(c)
	case mute:
		r.limited(c, overLimit("steps", r.cfg.Limits.Steps))
	default:
		r.decide(c)
	}
}

// withCut returns what a model has said with the calls that must not be made: the model reads that, and why, as their
// results.
func withCut(resp *llm.Response) mcp.Contents {
	content := resp.Content
	if len(resp.Cut) > 0 {
		content = slices.Clip(content)
	}
	for _, cut := range resp.Cut {
		content = append(content, &mcp.ToolUseContent{ID: cut.ID, Name: cut.Name, Input: cut.Arguments})
	}
	return content
}

// alsoCut adds the IDs of these calls to those of calls that are not made.
func alsoCut(spoilt []string, cut mcp.Contents) []string {
	for _, c := range cut {
		if use, ok := c.(*mcp.ToolUseContent); ok && !slices.Contains(spoilt, use.ID) {
			spoilt = append(spoilt, use.ID)
		}
	}
	return spoilt
}

// lostTurn ends the run after a turn that has no answer, or leaves it. Billed says that the last attempt may cost.
func (r *run) lostTurn(c *actors.Context, err error, billed bool) {
	out, t := r.outageOf(err), r.turn
	over := error(nil)
	if out != nil && !billed {
		over = t.spend.Refuse()
	} else {
		over = t.spend.Abandon(billed)
	}
	lost := t.spend.Failed(err)
	switch {
	case out != nil && over == nil:
		body := lost.Body.(*runlog.ModelFailed)
		body.Lost, body.Class = true, out.Class
		r.outage(c, out, lost)
	case r.last.limit != nil:
		r.limited(c, fmt.Errorf("%w; and there is no last answer: %w", r.last.limit, err), lost)
	case over != nil:
		r.limits.atLimit(c, over, []runlog.Entry{lost}, r.list)
	case errors.Is(err, llm.ErrContextLength) && r.squeeze(c, lost): // it is asked again
	default:
		r.failed(c, fmt.Errorf("asking the model: %w", err), lost)
	}
}

// input is about how many tokens a request has.
func (p *parts) input(req *llm.Request) int { return p.h.spend.Input(p.talk.Estimate(req)) }

// reserve holds the most that the next turn with so much input may cost, and in a run that wraps up the last turn
// before it, as large as it would be now.
func (p *parts) reserve(t *turn, req *llm.Request, input int) error {
	ask := budget.Turn{Input: input, Output: req.MaxTokens, Steps: 1}
	if p.cfg.Limits.OnLimit == runlog.LimitWrapUp {
		if err := p.h.spend.HoldLast(window.LastTokens(input), p.cfg.MaxTokens); err != nil {
			return err
		}
		ask.Least = spend.MinTurnOutput
	}
	if err := p.h.spend.ReserveTurn(&t.paid, ask, p.cfg.Model.Name()); err != nil {
		return err
	}
	t.spend = &t.paid
	return nil
}

// wholeTurn is the next turn with all that is held beside it, the last turn of a run that
// wraps up among it.
func (p *parts) wholeTurn(req *llm.Request, input int) budget.Turn {
	t := budget.Turn{Input: input, Output: req.MaxTokens, Steps: 1, Price: p.h.spend.Most()}
	if p.cfg.Limits.OnLimit == runlog.LimitWrapUp && !p.h.spend.HoldsLast() {
		t.Input += window.LastTokens(input) + spend.MaxLastOutput
	}
	return t
}

// begins makes a turn that is paid for the run's.
func (p *parts) begins(t *turn) {
	t.n, t.spend, t.asking = t.paid.Number(), &t.paid, true
	p.turn = t
}

// list begins a turn, unless the run is ending. It asks for the tools, which may have changed.
func (r *run) list(c *actors.Context) {
	switch {
	case r.out != nil:
		return
	case r.clock.remaining() <= 0: // the message is behind the one that led here, as that of a sub-run which ends likewise
		r.limited(c, overLimit("wall time", r.cfg.Wall))
		return
	case r.cfg.Tools == nil:
		r.prepare(c)
		return
	}
	r.state = (*run).listingTools
	tools := r.cfg.Tools
	if l, ready := offerNow(tools); ready {
		r.listingTools(c, l)
		return
	}
	actors.Await(c, func(ctx context.Context) (listed, error) {
		offer, absent := tools.Offer(ctx)
		l := listed{offer: offer, absent: absent}
		if t, ok := tools.(LoginTools); ok && len(absent) > 0 {
			l.lacking = t.Logins(ctx)
		}
		return l, nil
	}, func(l listed, err error) any { l.err = err; return l })
}

func (r *run) listingTools(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case listed:
		if m.err != nil {
			r.failed(c, fmt.Errorf("listing the tools: %w", m.err))
			return
		}
		if r.logins.await(c, m.lacking) {
			r.state = (*run).asking
			return
		}
		r.prepare(c, r.talk.offer(m)...)
	}
}

// prepared is a message to itself: the next turn's request is ready.
type prepared struct {
	cut    *window.Cut // nil where all of the conversation fits
	req    *llm.Request
	guards guard.Outcome
	before []runlog.Entry
	err    error
}

// prepare makes the next turn fit the model, and shows it to the guards.
func (r *run) prepare(c *actors.Context, before ...runlog.Entry) {
	turn := 1
	if r.turn != nil {
		turn = r.turn.n + 1
	}
	req := r.talk.request(r.cfg)
	cut := r.talk.cut(r.cfg, req, turn)
	if cut == nil && !guard.BeforeModel.Guarded(r.cfg.Guards) {
		r.talk.prepared = req
		r.think(c, before...)
		return
	}
	r.prepareCut(c, turn, req, cut, before)
}

// summarise returns the hook that sums up, on the account of the run; nil without one.
func (c *config) summarise(by *Call) func(context.Context, string, []llm.Message) (string, error) {
	if c.Summarise == nil {
		return nil
	}
	return func(ctx context.Context, before string, dropped []llm.Message) (string, error) {
		return c.Summarise(ctx, by, before, dropped)
	}
}

// prepareCut does so in a task.
func (r *run) prepareCut(c *actors.Context, turn int, req *llm.Request, cut *window.Cut, before []runlog.Entry) {
	r.state = (*run).preparing
	cfg, by := r.cfg, &Call{Run: r.cfg.ID, run: c.Self(), spend: r.h.spend}
	actors.Await(c, func(ctx context.Context) (prepared, error) {
		if cut != nil {
			cut.Summarise(ctx, req, cfg.summarise(by))
		}
		v, g := guard.BeforeModel.Pass(ctx, cfg.Guards, cfg.guardTurn(turn, req), validTurn)
		return prepared{cut: cut, req: v.Request, guards: g, before: before}, nil
	}, func(m prepared, err error) any { m.err = err; return m })
}

func (r *run) preparing(c *actors.Context, msg any) {
	m, ok := msg.(prepared)
	switch {
	case !ok:
		return
	case m.err != nil:
		r.failed(c, fmt.Errorf("preparing the next turn: %w", m.err))
		return
	}
	entries := m.before
	if m.cut != nil {
		r.talk.Replace(m.cut.Messages())
		entries = append(entries, r.talk.window.Take(m.cut))
	}
	entries = append(entries, m.guards.Entries("")...)
	switch {
	case m.guards.Stop != nil:
		r.failed(c, m.guards.Stop, entries...)
	case m.guards.Refused != "" && r.cfg.Check != nil:
		r.failed(c, m.guards.Last(m.guards.Acted[len(m.guards.Acted)-1].Text), entries...)
	case m.guards.Refused != "":
		r.end(c, Outcome{State: store.Finished, Stop: runlog.StopGuard, Text: m.guards.Refused}, entries...)
	default:
		r.talk.prepared = m.req
		r.think(c, entries...)
	}
}

// squeeze asks for a turn again that the model found too long, with half of it. It
// reports whether that makes sense: once for each turn, and if there is something to
// leave out.
func (r *run) squeeze(c *actors.Context, lost runlog.Entry) bool {
	if !r.talk.window.Squeeze(r.turn.n) {
		return false
	}
	req := r.talk.request(r.cfg)
	cut := r.talk.cut(r.cfg, req, r.turn.n+1)
	if cut == nil {
		return false
	}
	r.journal.Write(c, nil, lost)
	r.prepareCut(c, r.turn.n+1, req, cut, nil)
	return true
}
