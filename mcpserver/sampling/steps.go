package sampling

import (
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
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

// The other methods of a [loop.Sink]: the entries say all that is reported.

func (*steps) Text(int, string)                          {}
func (*steps) Thinking(int, string)                      {}
func (*steps) Retried(int, llm.Attempt)                  {}
func (*steps) Chose(int, llm.Choice)                     {}
func (*steps) Restarted(int)                             {}
func (*steps) Progress(string, float64, float64, string) {}
func (*steps) Stalled(error)                             {}
func (*steps) Resumed()                                  {}
func (*steps) Closed(loop.Outcome)                       {}
