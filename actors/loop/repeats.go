package loop

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/loop/internal/journal"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// repeats is the loop detector: it tells a model that turns in circles, and has the run wrap up if that does not help.
// What it has seen follows from the calls and results in the journal, so that a run that is resumed goes on counting.
type repeats struct {
	*parts
	seen runlog.Repeats
}

// see counts a turn whose calls have their results. One that the process before has counted is not counted again.
func (re *repeats) see(t *turn, results mcp.Contents) {
	if !t.counted {
		t.counted = true
		re.seen.See(t.resp.Calls(), results, func(i int) runlog.Traits { return t.calls[i].traits })
	}
}

// over is the limit that the run has reached, if the model goes on in a circle that it was told of; nil else.
func (re *repeats) over() *budget.LimitError {
	most := re.cfg.Repeats
	if circle := re.seen.Circle(); most > 0 && circle.Times >= 2*most {
		return &budget.LimitError{Limit: budget.Repeats, Max: strconv.Itoa(circle.Times)}
	}
	return nil
}

// tell tells the model of a circle, behind the results of the turn that has closed it. One that only polls closes none.
func (re *repeats) tell(c *actors.Context, t *turn) {
	circle := re.seen.Circle()
	if re.cfg.Repeats <= 0 || circle.Times < re.cfg.Repeats || !slices.ContainsFunc(t.calls, func(cl *call) bool { return !cl.traits.Polls }) {
		return
	}
	note := llm.User(noteOf(circle))
	re.talk.Say(note)
	re.journal.Hold(c, journal.Batch{}, runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note, Why: runlog.AddedRepeats}})
}

// noteOf says to the model what it does again and again.
func noteOf(circle runlog.Circle) string {
	const end = "do something else, or answer with what you know."
	switch circle.Period {
	case 0:
		return fmt.Sprintf("Whatever you have called, the result was the same %d times in a row. Other calls of that kind will not help you any further: %s", circle.Times, end)
	case 1:
		return fmt.Sprintf("You have made the same calls with the same arguments %d times in a row. Their results will not help you any further: %s", circle.Times, end)
	}
	return fmt.Sprintf("You have made the same calls with the same arguments, in rounds of %d turns, %d times in a row. Their results will not help you any further: %s",
		circle.Period, circle.Times, end)
}
