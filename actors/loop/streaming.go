package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/spend"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// streaming is one turn on its way, on the goroutine of its task.
type streaming struct {
	actors.Task
	req     *llm.Request
	asked   *turn // the run's own
	reply   modelReplied
	cfg     *config
	spend   *spend.Turn
	turn    int
	last    bool                  // its request was not prepared
	counted bool                  // a restart has, what the retry that follows it would
	ctx     context.Context       // of the turn, while the model is asked
	err     error                 // of the stream, or of what it has brought
	failed  atomic.Pointer[error] // that of the last attempt which has failed; nil before
	watched sync.Once
	watch   llm.Observer  // of the model's attempts; made by watched
	around  *llm.Observer // who is told beside the sink
	all     llm.Collector
	chosen  *runlog.Chosen
	guarded bool // a guard sees the answer before anything of it is passed on
}

// Run asks the model, and shows its answer to the guards.
//
// Thousands of turns wait in stream, each on a stack of its own: what is done before and
// after has functions of its own, so that nothing of it is on the stack meanwhile.
func (s *streaming) Run(ctx context.Context) error {
	req := s.req
	if s.last {
		var err error
		if req, err = s.before(ctx, req); err != nil || s.reply.resp != nil {
			return err
		}
	}
	resp, err := s.traced(ctx, req)
	return s.after(ctx, resp, err)
}

// Ended implements [actors.Work].
func (s *streaming) Ended(err error) any {
	s.req, s.reply.turn, s.reply.err = nil, s.asked, err
	return &s.reply
}

// before shows the guards a request that they have not seen.
func (s *streaming) before(ctx context.Context, req *llm.Request) (*llm.Request, error) {
	req, g, err := s.unprepared(ctx, req)
	s.reply.guards = g
	if err == nil && (g.Stop != nil || g.Refused != "") {
		s.reply.resp = &llm.Response{Content: mcp.Contents{mcp.Text(g.Refused)}, Finish: runlog.StopGuard}
	}
	return req, err
}

// unprepared shows the guards a request that they have not seen yet: the last one of a
// run that wraps up. It stays one that allows no calls, and within what is held for it.
func (s *streaming) unprepared(ctx context.Context, req *llm.Request) (*llm.Request, guard.Outcome, error) {
	v, g := guard.BeforeModel.Pass(ctx, s.cfg.Guards, s.cfg.guardTurn(s.turn, req), validTurn)
	last := *v.Request
	last.ToolChoice = llm.ToolChoiceNone
	if last.MaxTokens <= 0 || last.MaxTokens > req.MaxTokens {
		last.MaxTokens = req.MaxTokens
	}
	if err := s.spend.Grow(llm.EstimateTokens(&last) - llm.EstimateTokens(req)); err != nil {
		return nil, g, fmt.Errorf("what the guards have made of the request: %w", err)
	}
	return &last, g, nil
}

// after shows the guards the model's answer, and adds their result to the reply.
func (s *streaming) after(ctx context.Context, resp *llm.Response, err error) error {
	m := &s.reply
	m.chosen = s.chosen
	if m.resp = resp; err != nil || !s.guarded {
		return err
	}
	in := guard.Reply{Run: s.cfg.ID, Agent: s.cfg.Agent, Turn: s.turn, Response: resp}
	v, g := guard.AfterModel.Pass(ctx, s.cfg.Guards, in, func(v *guard.Reply) error {
		if v.Response == nil {
			return errors.New("there is no response")
		}
		return nil
	})
	if g.Refused != "" || g.Stop != nil {
		v.Response = withhold(resp)
	}
	v.Response.Usage = resp.Usage // which is not the guards' to change
	g.Acted = append(m.guards.Acted, g.Acted...)
	m.resp, m.guards = v.Response, g
	return nil
}

// Observer counts the attempts of the turn, before others are told of them, and begins
// again where the turn does.
func (s *streaming) Observer() *llm.Observer {
	s.watched.Do(func() {
		s.around = llm.ObserverOf(s.ctx)
		s.watch = llm.Observer{Retry: s.retry, Chose: s.chose, Restart: s.restart, Fallback: s.around.Fallback}
	})
	return &s.watch
}

func (s *streaming) retry(a llm.Attempt) {
	s.countAttempt(a.Err)
	s.cfg.Sink.Retried(s.turn, a)
	if s.around.Retry != nil {
		s.around.Retry(a)
	}
}

func (s *streaming) chose(c llm.Choice) {
	s.countAttempt(c.After)
	s.spend.Chosen(c.Model)
	s.chosen = &runlog.Chosen{Model: clip.Valid(c.Model), Reason: clip.Short(c.Reason), Fallback: c.Fallback}
	s.cfg.Sink.Chose(s.turn, c)
	if s.around.Chose != nil {
		s.around.Chose(c)
	}
}

// countAttempt counts an attempt that has failed, if one has.
func (s *streaming) countAttempt(err error) {
	if err != nil {
		failed := err // which is on the heap only then
		s.failed.Store(&failed)
	}
	if err != nil && !s.counted {
		s.again(spend.MayBeBilled(err))
	}
	s.counted = false
}

// again makes room for another attempt, or ends the turn.
func (s *streaming) again(billed bool) {
	if err := s.spend.Again(billed); err != nil {
		actors.CancelTask(s.ctx, err)
	}
}

// restart comes before the retry or the choice of the same attempt.
func (s *streaming) restart() {
	s.again(false)
	s.counted, s.all = true, llm.Collector{MaxTokens: s.all.MaxTokens}
	s.cfg.Sink.Restarted(s.turn)
	if s.around.Restart != nil {
		s.around.Restart()
	}
}

// stream collects a turn and passes on what it says, unless a guard has to see it
// first.
func (s *streaming) stream(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	s.ctx, s.all.MaxTokens = ctx, req.MaxTokens
	s.cfg.Model.Stream(llm.ObserveWith(ctx, s), req)(s.take)
	if s.err != nil {
		return nil, s.err
	}
	return s.all.Response()
}

// take counts an event, and passes it on.
func (s *streaming) take(ev llm.Event, err error) bool {
	if s.err == nil {
		s.err = err
	}
	if s.err != nil {
		return false
	}
	s.spend.Saw(ev)
	if s.err = s.all.Add(ev); s.err != nil {
		return false
	}
	if s.guarded {
		return true
	}
	switch ev := ev.(type) {
	case llm.TextDelta:
		s.cfg.Sink.Text(s.turn, ev.Text)
	case llm.ThinkingDelta:
		s.cfg.Sink.Thinking(s.turn, ev.Text)
	}
	return true
}

// traced carries out one turn inside of the trace.
func (s *streaming) traced(ctx context.Context, req *llm.Request) (resp *llm.Response, err error) {
	if s.cfg.Trace == nil {
		return s.stream(ctx, req)
	}
	ctx, end := s.cfg.Trace.Turn(ctx, s.turn, s.cfg.Model.Name(), req)
	err = errPanicked
	defer func() { end(resp, err) }()
	resp, err = s.stream(ctx, req)
	return resp, err
}

// modelReplied is a message to itself: a turn of the model has ended.
type modelReplied struct {
	turn   *turn
	resp   *llm.Response
	chosen *runlog.Chosen // by a router; nil without one
	guards guard.Outcome
	err    error
}

// guardTurn is a request as guards see it.
func (c *config) guardTurn(turn int, req *llm.Request) guard.Turn {
	return guard.Turn{Run: c.ID, Agent: c.Agent, Turn: turn, Request: req}
}

// validTurn refuses a changed request that no model would take.
func validTurn(v *guard.Turn) error {
	if v.Request == nil {
		return errors.New("there is no request")
	}
	return v.Request.Validate()
}

// withhold takes out of a refused answer all but its calls. What a provider has attached to the answer may be its reasoning.
func withhold(resp *llm.Response) *llm.Response {
	out := *resp
	out.Thinking, out.Cut, out.Content = "", nil, mcp.Contents{mcp.Text("[withheld by a guard]")}
	for _, call := range resp.Calls() {
		out.Content = append(out.Content, call)
	}
	out.State = slices.DeleteFunc(slices.Clone(resp.State), func(s llm.ProviderState) bool { return s.Call == "" })
	return &out
}
