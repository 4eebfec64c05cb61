package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/store"
)

// view shows a run while it goes on: events on stdout as they come for
// stream-json; on a terminal the model's text as it comes, a line for each call with its
// result, and one with what goes on now; questions where there is a terminal to answer them.
type view struct {
	questions
	stream bool
	status *env.StatusLine // nil where there is no terminal for it
	speak  *speaker        // shows the text of the run itself as it comes; nil shows none
	calls  runningCalls
	open   openQuestions
	failed error           // of the answers to questions; read once all are over
	many   map[string]bool // who was said to have too many tools, "" for the run itself
	asks   store.Asks      // of the runs; nil where they are in memory only
}

func newView(e *env.Env, output string) *view {
	v := &view{questions: questions{env: e}, stream: output == "stream-json", status: e.NewStatus()}
	if output == "text" && env.OnTerminal(e.Stdout) {
		v.speak = newSpeaker(e, v.status)
	}
	v.ask = e.NewPrompter(v.clear)
	return v
}

// clear makes room on the terminal.
func (v *view) clear() {
	v.speak.interrupt()
	v.status.Clear()
}

func (v *view) close() { v.status.Close() }

// watch shows the events of a run until it has ended. At the first question that
// has no terminal to be answered on it suspends the run and returns the question. When ctx
// ends questions are withdrawn; the run itself is ended by others.
func (v *view) watch(ctx context.Context, run *agent.Run) (waiting *agent.Ask, err error) {
	defer func() {
		v.open.endAll()
		err, v.failed = cmp.Or(err, v.failed), nil
	}()
	v.calls = nil
	v.show(v.calls.doing())
	for ev, err := range run.Events(context.WithoutCancel(ctx)) { // ends with the run
		if err != nil {
			return nil, err
		}
		if v.stream {
			if err := writeEvent(v.env.Stdout, ev); err != nil {
				return nil, fmt.Errorf("writing to stdout: %w", err)
			}
		}
		who, ev := inside(ev)
		switch ev := ev.(type) {
		case agent.Ask:
			waiting, err := v.asked(ctx, run, who, ev)
			if waiting != nil || err != nil {
				return waiting, err
			}
		case agent.AskSettled:
			v.open.end(ev.ID, settledBy(ev))
		default:
			v.open.after(passing(who, ev), func() {
				v.tell(who, ev)
				v.event(who, ev)
			})
		}
	}
	return nil, nil
}

// settledBy says to the reader of a question why it goes away.
func settledBy(ev agent.AskSettled) error {
	if ev.Status == store.AskCancelled || ev.Status == store.AskExpired {
		return errors.New(cmp.Or(ev.Reason, "it needs no answer any more: it is "+string(ev.Status)))
	}
	return fmt.Errorf("it is %s by %s", ev.Status, cmp.Or(ev.By, "another person"))
}

// passing reports whether an event changes the line of what goes on only.
func passing(who string, ev agent.Event) bool {
	switch ev.(type) {
	case agent.Thinking, agent.ToolProgress:
		return true
	case agent.Text:
		return who != ""
	}
	return false
}

// event shows what is no question.
func (v *view) event(who string, ev agent.Event) {
	switch ev := ev.(type) {
	case agent.ToolsListed:
		for _, a := range ev.Absent {
			v.note("%swithout the tools of %s: %s", who, env.Plain(a.Server), env.Plain(a.Reason))
		}
		v.noteMany(who, len(ev.Tools))
	case agent.Text:
		if who == "" && v.speak != nil {
			v.speak.say(ev.Turn, ev.Delta)
			return
		}
		v.show(who + "answering")
	case agent.Thinking:
		v.show(who + "thinking")
	case agent.ModelTurn:
		if who == "" {
			v.speak.interrupt()
		}
		if len(v.calls) == 0 && ev.Calls > 0 {
			v.show(who + "calling tools")
		}
	case agent.ToolWaiting:
		v.note("%s%s waits for %s", who, env.Plain(ev.Tool), env.Plain(ev.For))
		v.show(who + "waiting")
	case agent.ToolStarted:
		v.calls.began(who, ev, v.status.Columns())
		v.show(v.calls.doing())
	case agent.ToolProgress:
		v.calls.progressed(who, ev)
		v.show(v.calls.doing())
	case agent.ToolResult:
		v.callEnded(who, ev)
	case agent.TurnRestarted:
		if who == "" {
			v.speak.forget()
		}
	case agent.LimitReached:
		switch {
		case ev.Then != agent.LimitWrapUp:
		case ev.Limit == "repeats":
			v.note("%sthe model turns in circles (%s): it answers once more", who, ev.Max)
		default:
			v.note("%sthe limit of %s is reached (%s): the model answers once more", who, ev.Limit, ev.Max)
		}
	case agent.ModelRetried:
		v.note("%sthe model failed, trying again in %v: %s", who, time.Duration(ev.WaitMS)*time.Millisecond, env.Plain(ev.Error))
	case agent.StoreStalled:
		v.note("%sthe store does not take what happens, waiting for it: %s", who, env.Plain(ev.Error))
	case agent.StoreResumed:
		v.note("%sthe store takes what happens again", who)
	}
}

// callEnded shows a call and its result in one line, where there is a terminal.
func (v *view) callEnded(who string, ev agent.ToolResult) {
	label, took := v.calls.ended(who, ev)
	if v.status != nil {
		v.status.Clear() // it is about this call
		mark := "✓"
		if ev.Unknown || ev.Result == nil || ev.Result.IsError {
			mark = "✗"
		}
		v.note("%s %s%s", mark, env.Shorten(label+": "+resultLine(ev), v.status.Columns()-len(took)-5), took)
	}
	v.show(v.calls.doing())
}

// noteMany says once for each agent that many models do not take as many tools. The log
// has it too, but shows no warnings by default.
func (v *view) noteMany(who string, count int) {
	if count <= agent.ManyTools || v.many[who] {
		return
	}
	if v.many == nil {
		v.many = make(map[string]bool)
	}
	v.many[who] = true
	v.note("%sthe model is given %d tools, and many models take %d at most: leave some out with --tool and --no-tool, or with the agent's allow and deny",
		who, count, agent.ManyTools)
}

// asked answers a question, or suspends the run and returns the question where
// there is no terminal.
func (v *view) asked(ctx context.Context, run *agent.Run, who string, ev agent.Ask) (*agent.Ask, error) {
	switch {
	case ev.Kind == agent.KindPage && ev.Question != nil:
		v.awaitPage(ctx, ev)
		return nil, nil
	case ev.Kind == agent.KindLogin && ev.Question != nil && ev.Question.Login != nil:
		v.awaitLogin(ctx, who, ev)
		return nil, nil
	case v.ask != nil:
		v.open.put(ctx, ev.ID, func(ctx context.Context) { v.put(ctx, run, ev) })
		v.open.after(false, func() { v.show(v.calls.doing()) })
		return nil, nil
	case ev.Question != nil:
		// The server waits inside of a call that cannot be left and taken up again.
		v.note("%s asks something, and there is no terminal to ask on: declined (%s)", env.Plain(ev.Server), env.Plain(ev.Question.Message))
		return nil, v.declineUnasked(ctx, ev)
	case who != "":
		// A run that waits for another cannot be left and taken up again either.
		v.note("%sa question, and there is no terminal to ask on: declined (%s)", who, env.Plain(cmp.Or(ev.Tool, ev.Kind)))
		return nil, v.declineUnasked(ctx, ev)
	}
	switch err := v.leave(context.WithoutCancel(ctx), run, ev.ID); {
	case err == nil:
		return &ev, nil
	case !errors.Is(err, agent.ErrNotWaiting): // else it was answered elsewhere, or the run has ended
		return nil, fmt.Errorf("leaving the run to wait: %w", err)
	}
	return nil, nil
}

// put puts a question to the person at the terminal. A run whose answers cannot be given ends.
func (v *view) put(ctx context.Context, run *agent.Run, ev agent.Ask) {
	switch err := v.question(ctx, ev); {
	case err == nil:
	case errors.Is(err, agent.ErrSettled):
		v.env.Note("the answer came too late: %v", err)
	default:
		v.failed = cmp.Or(v.failed, err)
		run.Cancel(err)
	}
}

// leaveTime is how long calls that need no person have until a run is left all the same.
const leaveTime = 5 * time.Second

// leave suspends a run for a question, once nothing else of it is under way. The question of a run that
// goes on may be one of before, which was answered.
func (v *view) leave(ctx context.Context, run *agent.Run, ask string) error {
	for end := time.Now().Add(leaveTime); ; {
		if v.asks != nil {
			if row, err := v.asks.Ask(ctx, ask); err == nil && row.Status != store.AskPending {
				return agent.ErrNotWaiting
			}
		}
		switch err := run.SuspendIdle(ctx); {
		case !errors.Is(err, agent.ErrNotWaiting):
			return err
		case time.Now().After(end):
			return run.Suspend(ctx)
		}
		select {
		case <-run.Done():
			return agent.ErrNotWaiting
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (v *view) declineUnasked(ctx context.Context, ev agent.Ask) error {
	err := ev.Answer(ctx, agent.Decline("there is no terminal to ask on").By("no terminal"))
	if errors.Is(err, agent.ErrSettled) {
		return nil
	}
	return err
}

// writeEvent writes an event as one line of JSON that begins with its type.
func writeEvent(w io.Writer, ev agent.Event) error {
	body, err := jsonx.Marshal(ev)
	if err != nil {
		return err
	}
	line := append([]byte(`{"type":`), jsonx.AppendQuote(nil, ev.EventType())...)
	if len(body) > 2 {
		line = append(line, ',')
	}
	line = append(append(line, body[1:]...), '\n')
	_, err = w.Write(line)
	return err
}

// show says what goes on now, but not over a line of text that is not at its end.
func (v *view) show(text string) {
	if !v.open.any() && (v.speak == nil || !v.speak.terminal || !v.speak.midline) {
		v.status.Set(env.Plain(text))
	}
}

// note is [program.note] above the line with what goes on.
func (v *view) note(format string, args ...any) {
	v.speak.interrupt()
	v.status.Above(func() { v.env.Note(format, args...) })
}

// printAnswer is what "run --output-format json" prints.
type answer struct {
	Result     string            `json:"result"`
	Structured json.RawMessage   `json:"structured,omitempty"`
	RunID      string            `json:"runId"`
	StopReason agent.StopReason  `json:"stopReason"`
	Incomplete agent.Incomplete  `json:"incomplete,omitempty"` // what the result lacks
	Usage      agent.Usage       `json:"usage"`                // of the agent itself
	Spent      agent.Spent       `json:"spent"`                // with all that it has started
	Steps      int               `json:"steps"`
	ToolCalls  int               `json:"toolCalls"`
	Asks       []json.RawMessage `json:"asks"` // that wait
	Error      string            `json:"error,omitempty"`
}

// printAnswer prints the result to stdout, in the format asked for. What was said already, as it
// came, is not said again.
func printAnswer(e *env.Env, format, id string, res *agent.Result, runErr error, waiting *agent.Ask, said *speaker) error {
	if res == nil {
		res = &agent.Result{RunID: id, StopReason: agent.StopFailed}
	}
	switch format {
	case "json":
		a := answer{
			Result: res.Text, Structured: res.Structured, RunID: id, StopReason: res.StopReason, Incomplete: res.Incomplete,
			Usage: res.Usage, Spent: res.Spent, Steps: res.Steps, ToolCalls: res.ToolCalls, Asks: []json.RawMessage{},
		}
		if runErr != nil && waiting == nil {
			a.Error = runErr.Error()
		}
		if waiting != nil {
			a.StopReason = "waiting"
			raw, err := jsonx.Marshal(waiting)
			if err != nil {
				return err
			}
			a.Asks = append(a.Asks, raw)
		}
		return e.PrintJSON(a)
	case "text":
		if (runErr == nil || res.Text != "") && waiting == nil { // a run that wraps up has both
			if said.has(res.Text) {
				said.endLine()
				return nil
			}
			_, err := fmt.Fprintln(e.Stdout, e.Safe(res.Text))
			return err
		}
	}
	return nil
}

// tell says what has happened beside answers, tools and questions, where it is worth a
// line.
func (v *view) tell(who string, ev agent.Event) {
	if text := remark(ev); text != "" {
		v.note("%s%s", who, env.Plain(text))
	}
}

// awaitPage shows a page that is waited for, and what can be done about it (URL-17).
// Without a terminal it is left to the inbox.
func (v *view) awaitPage(ctx context.Context, q agent.Ask) {
	if v.ask == nil {
		host := ""
		if q.Question.URL != nil {
			host = q.Question.URL.Host
		}
		v.note("waiting for a page of %s, %s; troupe inbox shows it", env.Plain(q.Server), env.Plain(cmp.Or(host, "whose address cannot be read")))
		return
	}
	v.clear()
	v.open.begin(ctx, q.ID, func(ctx context.Context) {
		d, err := v.ask.AwaitPage(ctx, q.Question)
		if err != nil || d.Page == "" { // it goes on waiting
			return
		}
		answer, err := agent.DecideAs(d)
		if err == nil {
			err = q.Answer(context.WithoutCancel(ctx), answer.By("terminal"))
		}
		if err != nil && !errors.Is(err, agent.ErrSettled) {
			v.note("the page: %v", err)
		}
	})
}

// loginTime bounds the wait of a run without a terminal for a login.
const loginTime = 10 * time.Minute

// awaitLogin shows that the run waits for a login, which a person makes in another terminal. It
// needs no answer.
func (v *view) awaitLogin(ctx context.Context, who string, q agent.Ask) {
	l := q.Question.Login
	v.note("%sa person has to log in at %s: %s", who, env.Plain(q.Server), env.Plain(cmp.Or(l.Command, l.Resource)))
	v.show(who + "waiting for a login at " + q.Server)
	if v.ask != nil {
		return
	}
	v.open.begin(ctx, q.ID, func(ctx context.Context) {
		if pause.For(ctx, loginTime) == nil {
			if err := v.declineUnasked(context.WithoutCancel(ctx), q); err != nil {
				v.env.Note("the login: %v", err)
			}
		}
	})
}
