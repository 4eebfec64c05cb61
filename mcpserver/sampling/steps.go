package sampling

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
)

// steps reports the steps of a loop, whose actor calls it.
type steps struct {
	loop  *run
	taken int
	names map[string]string // of the tools, by their calls' keys
}

// Journalled implements [loop.Sink].
func (s *steps) Journalled(entries []runlog.Entry) {
	for _, e := range entries {
		switch b := e.Body.(type) {
		case *runlog.ModelIntent:
			s.report(Step{Turn: b.Turn})
		case *runlog.ToolIntent:
			s.names[e.Key] = b.Tool
		case *runlog.ToolDispatched:
			s.report(Step{Turn: b.Turn, Tool: s.names[e.Key]})
		case *runlog.ToolResult:
			if b.Made {
				s.report(Step{Turn: b.Turn, Tool: b.Tool, Done: true})
			}
		}
	}
}

func (s *steps) report(step Step) {
	s.taken++
	step.N = s.taken
	l := s.loop
	if l.opts.OnStep == nil {
		l.progress(float64(step.N), 0, step.describe(l.plan.Turns))
		return
	}
	if _, err := actors.Guard(func() (struct{}, error) { l.opts.OnStep(step); return struct{}{}, nil }); err != nil {
		l.handler.Log().Error("a loop's OnStep panicked", "name", l.handler.Name(), "error", err)
	}
}

func (s Step) describe(turns int) string {
	switch {
	case s.Tool == "":
		return fmt.Sprintf("asking the model, turn %d of at most %d", s.Turn, turns)
	case s.Done:
		return s.Tool + " has returned"
	}
	return "calling " + s.Tool
}

// Text implements [loop.Sink].
func (*steps) Text(int, string) {}

// Thinking implements [loop.Sink].
func (*steps) Thinking(int, string) {}

// Progress implements [loop.Sink].
func (*steps) Progress(string, loop.Progress) {}

// Closed implements [loop.Sink].
func (*steps) Closed(loop.Outcome) {}
