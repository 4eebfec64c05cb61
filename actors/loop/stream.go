package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TurnSink is what a [Sink] may implement to be told also of what happens between a
// turn and the models that are asked for it. Its methods must not block, and are called
// by the goroutine of the turn.
type TurnSink interface {
	// Retried is called before each wait for another attempt.
	Retried(turn int, a llm.Attempt)
	// Chose is called when a router has chosen a model.
	Chose(turn int, c llm.Choice)
	// Restarted says that all text and thinking of the turn so far is void: it is asked
	// for again.
	Restarted(turn int)
}

// streaming is one turn on its way, on the goroutine of its task.
type streaming struct {
	cfg    *Config
	model  llm.Model
	turn   int
	last   bool                   // its request was not prepared
	grow   func(tokens int) error // holds more for the request
	guards []Guard                // that look at what the model says
	all    llm.Collector
	chosen *Chosen
}

// answer asks the model, and shows what it says to the guards.
//
// Thousands of turns wait in stream, each on a stack of its own: what is done before and
// after has functions of its own, so that nothing of it is on the stack meanwhile.
func (s *streaming) answer(ctx context.Context, req *llm.Request) (*modelReplied, error) {
	req, before, err := s.before(ctx, req)
	if err != nil || before.resp != nil {
		return before, err
	}
	resp, err := s.traced(s.observed(ctx), req)
	return s.after(ctx, before, resp, err)
}

// before is what the guards say of a request that they have not seen.
func (s *streaming) before(ctx context.Context, req *llm.Request) (*llm.Request, *modelReplied, error) {
	req, g, err := s.unprepared(ctx, req)
	m := &modelReplied{guards: g}
	if err == nil && (g.stop != nil || g.refused != "") {
		m.resp = &llm.Response{Content: mcp.Contents{mcp.Text(g.refused)}, Finish: StopGuard}
	}
	return req, m, err
}

// unprepared shows the guards a request that they have not seen yet: the last one of a
// run that wraps up. It stays one without tools, and within what is held for it.
func (s *streaming) unprepared(ctx context.Context, req *llm.Request) (*llm.Request, guarded, error) {
	if !s.last {
		return req, guarded{}, nil
	}
	v, g := pass(ctx, s.cfg.Guards, beforeModel, GuardTurn{at(s.cfg, s.turn), req}, validTurn)
	last := *v.Request
	last.Tools, last.ToolChoice = nil, llm.ToolChoiceNone
	if last.MaxTokens <= 0 || last.MaxTokens > req.MaxTokens {
		last.MaxTokens = req.MaxTokens
	}
	if err := s.grow(llm.EstimateTokens(&last) - llm.EstimateTokens(req)); err != nil {
		return nil, g, fmt.Errorf("what the guards have made of the request: %w", err)
	}
	return &last, g, nil
}

// after shows the guards what the model has said, and adds it to m.
func (s *streaming) after(ctx context.Context, m *modelReplied, resp *llm.Response, err error) (*modelReplied, error) {
	m.guards.chosen = s.chosen
	if m.resp = resp; err != nil || len(s.guards) == 0 {
		return m, err
	}
	v, g := pass(ctx, s.guards, afterModel, GuardReply{at(s.cfg, s.turn), resp}, func(v *GuardReply) error {
		if v.Response == nil {
			return errors.New("there is no response")
		}
		return nil
	})
	if g.refused != "" || g.stop != nil {
		v.Response = withhold(resp)
	}
	v.Response.Usage = resp.Usage // which is not the guards' to change
	g.acted, g.chosen = append(m.guards.acted, g.acted...), s.chosen
	m.resp, m.guards = v.Response, g
	return m, nil
}

// observed is the context of the turn for the model.
func (s *streaming) observed(ctx context.Context) context.Context {
	return llm.Observe(ctx, s.observer())
}

// observer passes on what happens on the way to the model, and begins again where the
// turn does.
func (s *streaming) observer() *llm.Observer {
	sink, told := s.cfg.Sink.(TurnSink)
	if !told {
		sink = deaf{}
	}
	return &llm.Observer{
		Retry: func(a llm.Attempt) { sink.Retried(s.turn, a) },
		Chose: func(c llm.Choice) {
			s.chosen = &Chosen{Model: text(c.Model), Reason: clip(c.Reason, maxErrText), Fallback: c.Fallback}
			sink.Chose(s.turn, c)
		},
		Restart: func() {
			s.all = llm.Collector{MaxTokens: s.all.MaxTokens}
			sink.Restarted(s.turn)
		},
	}
}

// deaf is a sink that is told nothing of turns.
type deaf struct{}

func (deaf) Retried(int, llm.Attempt) {}
func (deaf) Chose(int, llm.Choice)    {}
func (deaf) Restarted(int)            {}

// stream collects a turn and passes on what it says, unless a guard has to see it
// first.
func (s *streaming) stream(ctx context.Context, req *llm.Request) (*llm.Response, error) {
	sink, heard := s.cfg.Sink, len(s.guards) == 0
	s.all.MaxTokens = req.MaxTokens
	for ev, err := range s.model.Stream(ctx, req) {
		if err == nil {
			err = s.all.Add(ev)
		}
		if err != nil {
			return nil, err
		}
		switch ev := ev.(type) {
		case llm.TextDelta:
			if heard {
				sink.Text(s.turn, ev.Text)
			}
		case llm.ThinkingDelta:
			if heard {
				sink.Thinking(s.turn, ev.Text)
			}
		}
	}
	return s.all.Response()
}
