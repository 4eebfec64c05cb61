// run.go: the actor that runs one agent once.
//
//	         created          listed            calls             decided
//	opening ─────────▶ listing ──────▶ thinking ───────▶ deciding ────────▶ acting
//	   │                  ▲               │                │ │                │
//	   │                  ├───────────────┼── poor answer ─┘ │ answer         │
//	   │                  └───────────────┼──────────────────┼── all returned ┘
//	   │   in preparing before thinking what is too long is cut and guards look,
//	   │   in stopping behind acting a condition may end the run
//	   ▼                                  ▼                  ▼
//	ending ◀── answer, limit, error, cancel: from any state;
//	   │       suspended while it waits for a human: releasing, from acting
//	   │ calls have returned or were given up, run.finished is durable
//	   ▼
//	(stopped)
//
// Between two states lies an append: what an arrow does begins once the events
// that say so are durable (journal.go).

package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Messages from outside.
type (
	cancelRun struct{ cause error }
	answer    struct { // decides an ask
		ask      string
		decision store.Decision
		reply    *actors.Reply[store.Ask]
	}
)

// Messages to itself: work done outside of the mailbox has ended, or it is time.
type (
	created struct {
		first runlog.Entry
		began time.Time
		head  store.Run
		err   error
	}
	listed struct {
		offer  *Offer
		absent []runlog.Absent
		err    error
	}
	modelReplied struct {
		turn   *turn
		resp   *llm.Response
		chosen *runlog.Chosen // by a router; nil without one
		guards guard.Outcome
		err    error
	}
	renewed struct {
		begun time.Time
		err   error
	}
	renewLease struct{}
	wallOver   struct{}
	graceOver  struct{}
)

// turn is one question to the model and the calls it leads to. Its address is its
// identity.
type turn struct {
	n       int // from one
	cancel  context.CancelCauseFunc
	resp    *llm.Response
	calls   []*call
	busy    int           // calls on their way: dispatched or being dispatched
	left    int           // calls without a durable result
	acted   bool          // its results are on their way to the model
	spend   *turnSpend    // nil once its calls are made
	answers bool          // it may not call: see [Config.LastAnswers]
	over    error         // a limit that its calls have reached
	spoilt  []string      // ids of calls whose arguments were no JSON object
	guards  guard.Outcome // what the guards have said of the model's answer
	text    *string       // what a guard has put in place of the model's answer; nil for nothing
}

// run is touched by its own goroutine only, so it has no lock.
type run struct {
	h   *Run
	cfg *config

	state   func(*run, *actors.Context, any) // takes what is the state's own
	spend   *spending
	history []llm.Message
	turn    *turn
	ids     []string // of all calls so far, in order: no two may be the same

	window   window       // what was left out of the history
	prepared *llm.Request // the next turn's, once guards have seen it; nil else
	repeated repeated

	redos     int32 // answers that were not of the form that was asked for
	refusals  int32 // how often guards had the model answer again
	handOffs  int32 // how often the run went to another agent
	limitAsks int32
	closing   int32 // asks being withdrawn
	graces    int32
	recorded  bool          // it is in the journal, if there is one
	first     *runlog.Entry // of a run that waits to be recorded; nil else
	notOpened error         // why it is not, while it waits to be tried again; nil else
	last      bool          // run.finished is on its way
	billed    bool          // what it has cost is known
	cancelled bool          // somebody has said so, before its end or after
	seen      runlog.Taint  // as last written

	held     int         // runs of its calls that wait for a human
	noted    *LimitError // the limit whose event is written last
	wrapping *LimitError // the last turn is under way because of it; nil before

	tools        *Offer          // never nil
	absent       []runlog.Absent // servers whose tools are missing
	allowed      map[string]bool // hashes of the tools accepted for all of the run
	allowedAgain map[string]bool // those of them that were where [AskAgain] was said

	journal  journal
	asks     map[string]*openAsk // by ID
	askTimer *actors.Timer
	renewal  *actors.Timer // nil without a lease
	renewing bool          // the lease is being renewed
	wall     *actors.Timer
	wallLeft time.Duration // while it stands still
	wallEnds time.Time

	leaveQueue func()                  // withdraws the run from the turns that wait for room; nil if it does not
	suspending *actors.Reply[struct{}] // whoever waits for the run to be left alone; nil for nobody

	out   *Outcome // set once it is ending
	grace *actors.Timer
}

// unlisted is the offer of a run that has not asked for its tools.
var unlisted = new(Offer)

// idsOf are the ids of the calls in what a run goes on with.
func idsOf(input []llm.Message) []string {
	var ids []string
	for _, m := range input {
		for _, b := range m.Content {
			if use, ok := b.(*mcp.ToolUseContent); ok {
				ids = append(ids, use.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newID takes the id of a call into those of the run, and reports whether it is new.
func (r *run) newID(id string) bool {
	i, known := slices.BinarySearch(r.ids, id)
	if known || id == "" {
		return false
	}
	r.ids = slices.Insert(r.ids, i, id)
	return true
}

func newRun(h *Run) *run {
	return &run{
		h: h, cfg: &h.cfg,
		tools:   unlisted,
		spend:   h.spend,
		history: h.cfg.Origin.Input,
		ids:     idsOf(h.cfg.Origin.Input),
	}
}

// Receive handles what is the same in every state; the rest is the state's.
func (r *run) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		r.open(c)
	case actors.Stopping, actors.ChildStopped: // Run.died does what is left to do
	case appended:
		r.acked(c, m)
	case appendAgain:
		r.appendAgain(c)
	case cancelRun:
		r.hurry(c)
		r.end(c, Outcome{State: store.Cancelled, Stop: runlog.StopCancelled, Err: &CancelledError{m.cause}})
	case wallOver:
		r.limited(c, overLimit("wall time", r.cfg.Wall))
	case renewLease:
		r.renew(c)
	case renewed:
		r.leaseRenewed(c, m)
	case noteSpent:
		r.writeSpent(c)
	case answer:
		r.answer(c, m)
	case *raise:
		r.raise(c, m)
	case unraise:
		r.unraise(c, m)
	case declinedUnasked:
		r.declinedUnasked(c, m)
	case hold:
		r.hold(m)
	case dispatchWanted:
		r.dispatchCall(c, m)
	case waitsFor:
		r.waitFor(c, m)
	case suspendRun:
		r.suspend(c, m)
	default:
		r.state(r, c, msg)
	}
	if r.suspending != nil && !r.last {
		r.trySuspend(c)
	}
}

// open records the run.
func (r *run) open(c *actors.Context) {
	r.state = (*run).opening
	r.wall = c.NewTimer(wallOver{})
	r.wallEnds = time.Now().Add(r.cfg.Wall)
	r.wall.SetAt(r.wallEnds)
	h := r.h
	first := runlog.Entry{Time: store.Clock(time.Now()), Type: store.RunStarted, Body: started(r.cfg)}
	if r.cfg.Journal == nil {
		head := store.Run{ID: r.cfg.ID}
		r.cfg.Sink.Journalled([]runlog.Entry{first})
		h.opened.Complete(begun{epoch: head.Epoch}, nil)
		r.opened(c, head)
		r.list(c)
		return
	}
	r.create(c, first)
}

// refused ends a run that could not be recorded, and so has not begun.
func (r *run) refused(c *actors.Context, err error) {
	if !errors.Is(err, store.ErrExists) {
		err = &JournalError{err}
	}
	r.h.opened.Complete(begun{}, err)
	r.h.ended.Complete(&Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: err}, nil)
	c.Stop()
}

// list asks for the tools before each turn: they may have changed.
func (r *run) list(c *actors.Context) {
	if r.cfg.Tools == nil {
		r.prepare(c)
		return
	}
	r.state = (*run).listingTools
	tools := r.cfg.Tools
	actors.Await(c, func(ctx context.Context) (listed, error) {
		offer, absent := offerOf(ctx, tools)
		return listed{offer: offer, absent: absent}, nil
	}, func(l listed, err error) any { l.err = err; return l })
}

func (r *run) listingTools(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case listed:
		if m.err != nil {
			r.failed(c, fmt.Errorf("listing the tools: %w", m.err))
			return
		}
		r.prepare(c, r.offer(m)...)
	}
}

// offer takes over a list of tools, and returns the event that says so if it is
// another than the last.
func (r *run) offer(m listed) []runlog.Entry {
	now := runlog.ToolsListed{Absent: m.absent, Tools: m.offer.refs, Texts: m.offer.texts}
	same := sameTools(&now, &runlog.ToolsListed{Absent: r.absent, Tools: r.tools.refs, Texts: r.tools.texts})
	r.tools, r.absent = m.offer, m.absent
	if same {
		return nil
	}
	return []runlog.Entry{{Type: runlog.ToolsListedType, Body: &now}}
}

// think asks the model, if the limits allow it.
func (r *run) think(c *actors.Context, before ...runlog.Entry) {
	req := r.request()
	if r.awaitRoom(c, req, before) {
		return
	}
	r.state = (*run).thinking
	spend, err := r.reserve(req)
	if err != nil {
		r.atLimit(c, err, before, r.list)
		return
	}
	req.MaxTokens = spend.output
	t := r.begins(spend)
	if r.cfg.LastAnswers && t.n == r.cfg.Limits.Steps {
		t.answers, req.ToolChoice = true, llm.ToolChoiceNone
	}
	r.write(c, func(c *actors.Context) { r.ask(c, t, req) }, append(before, t.intent(req))...)
}

// request is the next turn's. The model must not see what is appended to the
// history later.
func (r *run) request() *llm.Request {
	if req := r.prepared; req != nil {
		r.prepared = nil
		return req
	}
	system := r.cfg.System + r.tools.note
	if len(r.absent) > 0 {
		system += absentNote(r.absent)
	}
	return &llm.Request{
		System:      system,
		Messages:    r.history[:len(r.history):len(r.history)],
		Tools:       r.tools.tools,
		MaxTokens:   r.cfg.MaxTokens,
		Temperature: r.cfg.Temperature,
		Schema:      r.cfg.Schema,
	}
}

// ask runs the turn in a task, which a cancel of the run ends.
func (r *run) ask(c *actors.Context, t *turn, req *llm.Request) {
	if r.out != nil {
		return
	}
	s := &streaming{cfg: r.cfg, spend: t.spend, turn: t.n, last: r.wrapping != nil, guarded: guard.AfterModel.Guarded(r.cfg.Guards)}
	t.cancel = actors.AwaitBlocking(c,
		func(ctx context.Context) (*modelReplied, error) { return s.answer(ctx, req) },
		func(m *modelReplied, err error) any {
			if m == nil {
				m = new(modelReplied)
			}
			m.turn, m.err = t, err
			return m
		})
}

func (r *run) thinking(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *modelReplied:
		switch {
		case m.turn != r.turn: // late: that turn has ended
		case m.err != nil:
			r.lostTurn(c, m.err)
		default:
			m.turn.guards = m.guards
			r.replied(c, m.resp, m.chosen)
		}
	}
}

// replied records what the model said, and goes on to what it wants.
func (r *run) replied(c *actors.Context, resp *llm.Response, chosen *runlog.Chosen) {
	t := r.turn
	t.resp = resp
	r.window.measure(resp.Usage)
	usage := t.spend.settle()
	mute := t.answers && withoutCalls(resp) && resp.Text() == ""
	resp.Content = r.inOrder(t, resp.Content)
	result := runlog.Entry{Type: store.ModelResult, Body: &runlog.ModelResult{
		Turn: t.n, Message: resp.Message(), Thinking: clip.Valid(resp.Thinking), Finish: resp.Finish, Usage: usage, Attempts: t.spend.attempts(), Model: resp.Model, Chosen: chosen}}
	r.write(c, func(c *actors.Context) {
		switch {
		case r.out != nil:
		case t.guards.Stop != nil:
			r.failed(c, t.guards.Stop)
		case r.wrapping != nil:
			r.conclude(c)
		case mute:
			r.limited(c, overLimit("steps", r.cfg.Limits.Steps))
		default:
			r.decide(c)
		}
	}, append(t.guards.Entries(""), result)...)
}

// inOrder puts what a model said in the form that every provider takes back: text
// that is UTF-8, ids that no earlier call had, and arguments that are an object. Of
// other arguments the model is told.
func (r *run) inOrder(t *turn, content mcp.Contents) mcp.Contents {
	out := make(mcp.Contents, len(content))
	for i, b := range content {
		switch use := b.(type) {
		case *mcp.TextContent:
			b = mcp.Text(clip.Valid(use.Text))
		case *mcp.ToolUseContent:
			fixed := *use
			fixed.ID, fixed.Name = clip.Valid(use.ID), clip.Valid(use.Name)
			for n := 0; !r.newID(fixed.ID); n++ {
				fixed.ID = fmt.Sprintf("call-%d-%d-%d", t.n, i, n)
			}
			if len(fixed.Input) == 0 {
				fixed.Input = json.RawMessage("{}")
			}
			if !isObject(fixed.Input) {
				fixed.Input = unreadable(fixed.Input)
				t.spoilt = append(t.spoilt, fixed.ID)
			}
			b = &fixed
		}
		out[i] = b
	}
	return out
}

// unreadable wraps what is no JSON object in one.
func unreadable(raw []byte) json.RawMessage {
	return append(jsonx.AppendQuote([]byte(`{"unreadable":`), clip.Short(string(raw))), '}')
}
