package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// answerCheck checks the model's answers, and bounds how often it may try again.
type answerCheck struct {
	*parts
	redos    int // answers that were not of the form that was asked for
	empties  int // empty answers after which the model was asked again
	cuts     int // turns in a row that ended in the middle of a call
	refusals int // how often guards had the model answer again
	handOffs int // how often the run went to another agent
}

// maxRefusals bounds how often in a run guards have the model answer again.
const maxRefusals = 5

// checkAnswer looks whether an answer is as it should be, and shows it to the guards.
func checkAnswer(ctx context.Context, cfg *config, turn int, text string) (decided, error) {
	check := func(text string) (json.RawMessage, error) {
		if cfg.Check == nil {
			return nil, nil
		}
		return cfg.Check(text)
	}
	structured, err := check(text)
	if err != nil {
		return decided{}, err
	}
	in := guard.Answer{Run: cfg.ID, Agent: cfg.Agent, Turn: turn, Text: text, Structured: structured}
	v, g := guard.Final.Pass(ctx, cfg.Guards, in, func(v *guard.Answer) (err error) {
		v.Structured, err = check(v.Text)
		return err
	})
	out := decided{structured: v.Structured, guards: g}
	if v.Text != text {
		out.text = &v.Text
	}
	return out, nil
}

// check looks at an answer without calls.
func (ac *answerCheck) check(c *actors.Context) {
	t, cfg, text := ac.turn, ac.cfg, ac.turn.resp.Text()
	if refused := t.guards.Refused; refused != "" {
		ac.again(c, refused)
		return
	}
	if cfg.Check == nil && strings.TrimSpace(text) == "" && ac.empty(c) {
		return
	}
	if cfg.Check == nil && !guard.Final.Guarded(cfg.Guards) {
		ac.answered(c, nil)
		return
	}
	actors.Await(c, func(ctx context.Context) (decided, error) { return checkAnswer(ctx, cfg, t.n, text) },
		func(d decided, err error) any { d.turn, d.err = t, err; return d })
}

// empty has the model answer again, once in a run, after it has said nothing. It reports whether it does:
// the last turn that the run has room for is not followed by another, and one that a limit of the run has
// left no room to say anything is [limits.cutShort]'s.
func (ac *answerCheck) empty(c *actors.Context) bool {
	t, left := ac.turn, ac.h.spend.Account().Left()
	if ac.empties > 0 || left.Steps == 0 || left.ModelCalls == 0 || t.spend != nil && t.spend.ClampedBy() != nil {
		return false
	}
	ac.empties++
	text := "Your answer is empty. Answer."
	if finish := t.resp.Finish; runlog.Cut(finish) {
		text = "Your answer is empty: " + runlog.CutBy(finish) + " cut it before its first word. Answer, and say less."
	}
	ac.retry(c, runlog.AddedEmpty, text)
	return true
}

// checked goes on with an answer that fits.
func (ac *answerCheck) checked(c *actors.Context, m *decided) {
	ac.turn.guards, ac.turn.text = m.guards, m.text
	switch {
	case m.guards.Stop != nil:
		ac.run.failed(c, m.guards.Stop, m.guards.Entries("")...)
	case m.guards.Refused != "":
		ac.again(c, m.guards.Refused, m.guards.Entries("")...)
	default:
		if len(m.guards.Acted) > 0 {
			ac.journal.Write(c, nil, m.guards.Entries("")...)
		}
		ac.answered(c, m.structured)
	}
}

// redo has the model correct its answer, a bounded number of times.
func (ac *answerCheck) redo(c *actors.Context, wrong error) {
	if ac.limits.cutShort(c) {
		return
	}
	finish := ac.turn.resp.Finish
	cut := runlog.Cut(finish)
	if ac.redos++; ac.redos > maxRedos || cut && ac.redos > 1 { // the next one would be cut too
		if cut {
			wrong = fmt.Errorf("%s cut it: %w", runlog.CutBy(finish), wrong)
		}
		ac.run.failed(c, fmt.Errorf("the answer is not what was asked for: %w", wrong))
		return
	}
	text := "That is not an answer of the form that was asked for: " + clip.Short(wrong.Error()) + "\nAnswer again, with nothing but the JSON."
	if cut {
		text = "That answer is not whole: " + runlog.CutBy(finish) + " cut it.\nAnswer again, with nothing but the JSON, and make it shorter."
	}
	ac.retry(c, runlog.AddedRedo, text)
}

// again has the model answer once more, with the reason.
func (ac *answerCheck) again(c *actors.Context, why string, entries ...runlog.Entry) {
	if err := ac.refuse(why); err != nil {
		ac.run.failed(c, err, entries...)
		return
	}
	ac.retry(c, runlog.AddedRefused, why, entries...)
}

// retry begins another turn with a note to the model, after an answer that does not count.
func (ac *answerCheck) retry(c *actors.Context, why, text string, entries ...runlog.Entry) {
	note := llm.User(text)
	ac.talk.Say(ac.turn.resp.Message())
	ac.talk.Say(note)
	ac.journal.Write(c, ac.run.list, append(entries, runlog.Entry{Type: runlog.InputAddedType, Body: &runlog.InputAdded{Message: note, Why: why}})...)
}

// refuse counts that the model was refused, and returns why that is enough.
func (ac *answerCheck) refuse(why string) error {
	if ac.refusals++; ac.refusals <= maxRefusals {
		return nil
	}
	return ac.turn.guards.Last(fmt.Sprintf("the model was refused more than %d times, the last time: %s", maxRefusals, why))
}

// answered ends the run with the model's answer.
func (ac *answerCheck) answered(c *actors.Context, structured json.RawMessage) {
	resp := ac.turn.resp
	if ac.limits.cutShort(c) {
		return
	}
	out := Outcome{State: store.Finished, Stop: string(resp.Finish), Text: resp.Text(), Structured: structured}
	out.Incomplete = runlog.Incomplete(resp.Finish, out.Text, structured, ac.talk.tools.names())
	if ac.turn.text != nil {
		out.Text = *ac.turn.text
	}
	ac.run.end(c, out)
}

// judged takes over what guards say of calls. It returns the events of that, and why the
// run cannot go on.
func (ac *answerCheck) judged(t *turn, rulings []ruling) ([]runlog.Entry, error) {
	if t.guards.Refused != "" {
		if err := ac.refuse(t.guards.Refused); err != nil {
			return nil, err
		}
	}
	if ac.cuts++; !runlog.CutCall(t.resp.Finish, t.spoilt) {
		ac.cuts = 0
	}
	if ac.cuts > maxRedos {
		return nil, fmt.Errorf("%s cut the model's answer %d times in a row, each time in the middle of a call, which was not made", runlog.CutBy(t.resp.Finish), ac.cuts)
	}
	var entries []runlog.Entry
	transfers := 0
	for i, cl := range t.calls {
		g := &rulings[i].guards
		entries = append(entries, g.Entries(cl.key)...)
		if g.Stop != nil {
			return entries, g.Stop
		}
		if rulings[i].args != nil {
			cl.args = rulings[i].args
		}
		if cl.tool != nil && cl.tool.HandOff != nil && rulings[i].refusal == "" {
			rulings[i].refusal = mayHandOff(ac.handOffs, transfers)
			transfers++
		}
	}
	return entries, nil
}

// decided is a message to itself: the ruling on each call of a turn, or whether
// its answer is as it should be.
type decided struct {
	turn       *turn
	rulings    []ruling
	structured json.RawMessage
	text       *string       // of a guard, in place of the model's; nil for none
	guards     guard.Outcome // their result for the answer
	err        error         // the error of the answer
}

// mayHandOff says why the conversation cannot be handed over; n calls of the turn
// have asked for it before.
func mayHandOff(done, n int) string {
	switch {
	case n > 0:
		return "not called: another call of this turn hands the conversation over already"
	case done >= maxHandOffs:
		return fmt.Sprintf("not called: the conversation was handed over %d times, which is the most", maxHandOffs)
	}
	return ""
}

// maxHandOffs bounds how often a run goes from one agent to another.
const maxHandOffs = 8
