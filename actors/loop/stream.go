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
func (s *streaming) answer(ctx context.Context, req *llm.Request) (modelReplied, error) {
	req, before, err := s.unprepared(ctx, req)
	switch {
	case err != nil:
		return modelReplied{}, err
	case before.stop != nil, before.refused != "":
		return modelReplied{resp: &llm.Response{Content: mcp.Contents{mcp.Text(before.refused)}, Finish: StopGuard}, guards: before}, nil
	}
	m, err := s.reply(ctx, req)
	m.guards.acted = append(before.acted, m.guards.acted...)
	return m, err
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

func (s *streaming) reply(ctx context.Context, req *llm.Request) (modelReplied, error) {
	resp, err := s.stream(llm.Observe(ctx, s.observer()), req)
	if err != nil || len(s.guards) == 0 {
		return modelReplied{resp: resp, guards: guarded{chosen: s.chosen}}, err
	}
	v, g := pass(ctx, s.guards, afterModel, GuardReply{at(s.cfg, s.turn), resp}, func(v *GuardReply) error {
		if v.Response == nil {
			return errors.New("there is no response")
		}
		return nil
	})
	g.chosen = s.chosen
	if g.refused != "" || g.stop != nil {
		v.Response = withhold(resp)
	}
	v.Response.Usage = resp.Usage // which is not the guards' to change
	return modelReplied{resp: v.Response, guards: g}, nil
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
