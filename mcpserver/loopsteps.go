package mcpserver

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// loopSteps tells of a loop's steps. It is called by the loop's actor.
type loopSteps struct {
	loop  *sampleLoop
	steps int
	names map[string]string // of the tools, by their calls' keys
}

// Journalled implements [loop.Sink].
func (s *loopSteps) Journalled(entries []runlog.Entry) {
	for _, e := range entries {
		switch b := e.Body.(type) {
		case *runlog.ModelIntent:
			s.tell(LoopStep{Turn: b.Turn})
		case *runlog.ToolIntent:
			s.names[e.Key] = b.Tool
		case *runlog.ToolDispatched:
			s.tell(LoopStep{Turn: b.Turn, Tool: s.names[e.Key]})
		case *runlog.ToolResult:
			if b.Made {
				s.tell(LoopStep{Turn: b.Turn, Tool: b.Tool, Done: true})
			}
		}
	}
}

func (s *loopSteps) tell(step LoopStep) {
	s.steps++
	step.N = s.steps
	l := s.loop
	if l.opts.OnStep == nil {
		l.request.Progress(float64(step.N), 0, step.describe(l.plan.Turns))
		return
	}
	if _, err := actors.Guard(func() (struct{}, error) { l.opts.OnStep(step); return struct{}{}, nil }); err != nil {
		l.run.server.log.Error("a loop's OnStep panicked", "name", l.run.request.work.name(), "error", err)
	}
}

func (s LoopStep) describe(turns int) string {
	switch {
	case s.Tool == "":
		return fmt.Sprintf("asking the model, turn %d of at most %d", s.Turn, turns)
	case s.Done:
		return s.Tool + " has returned"
	}
	return "calling " + s.Tool
}

// Text implements [loop.Sink].
func (*loopSteps) Text(int, string) {}

// Thinking implements [loop.Sink].
func (*loopSteps) Thinking(int, string) {}

// Progress implements [loop.Sink].
func (*loopSteps) Progress(string, loop.Progress) {}

// Closed implements [loop.Sink].
func (*loopSteps) Closed(loop.Outcome) {}
