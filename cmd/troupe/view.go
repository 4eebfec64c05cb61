package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// view shows a run while it goes on: events on stdout as they come for
// stream-json, a line with the current tool on a terminal, questions where there
// is somebody to answer them.
type view struct {
	p      *program
	stream bool
	status *statusLine
	ask    *terminal.Prompter // nil if there is no terminal to ask on
	said   func(delta string) // is given the text of the run itself as it comes; may be nil
}

func (p *program) newView(output string) *view {
	v := &view{p: p, stream: output == "stream-json"}
	stderr, ok := p.stderr.(*os.File)
	if ok && term.IsTerminal(int(stderr.Fd())) && os.Getenv("TERM") != "dumb" && !p.quiet {
		v.status = newStatusLine(stderr)
	}
	v.ask = p.newPrompter(v.clear)
	return v
}

// clear makes room on the terminal.
func (v *view) clear() {
	if v.status != nil {
		v.status.clear()
	}
}

func (v *view) close() {
	if v.status != nil {
		v.status.close()
	}
}

// watch shows the events of a run until it has ended. At the first question that
// nobody is there to answer it suspends the run and returns the question. When ctx
// ends questions are withdrawn; the run itself is ended by others.
func (v *view) watch(ctx context.Context, run *agent.Run) (*agent.Ask, error) {
	for ev, err := range run.Events(context.WithoutCancel(ctx)) { // ends with the run
		if err != nil {
			return nil, err
		}
		if v.stream {
			if err := writeEvent(v.p.stdout, ev); err != nil {
				return nil, fmt.Errorf("writing to stdout: %w", err)
			}
		}
		who, ev := inside(ev)
		v.tell(who, ev)
		if t, ok := ev.(agent.Text); ok && v.said != nil {
			if who == "" {
				v.said(t.Delta)
			}
			continue
		}
		switch ev := ev.(type) {
		case agent.ToolsListed:
			for _, a := range ev.Absent {
				v.note("%swithout the tools of %s: %s", who, plain(a.Server), plain(a.Reason))
			}
		case agent.ToolWaiting:
			v.note("%s%s waits for %s", who, plain(ev.Tool), plain(ev.For))
			v.show(who + "waiting")
		case agent.ToolStarted:
			v.show(who + ev.Tool)
		case agent.ToolProgress:
			v.show(who + progressText(ev))
		case agent.ToolResult, agent.Thinking, agent.Text:
			v.show(who + "thinking")
		case agent.LimitReached:
			if ev.Then == agent.LimitWrapUp {
				v.note("%sthe limit of %s is reached (%s): the model answers once more", who, ev.Limit, ev.Max)
			}
		case agent.ModelRetried:
			v.note("%sthe model failed, trying again in %v: %s", who, time.Duration(ev.WaitMS)*time.Millisecond, plain(ev.Error))
		case agent.Ask:
			if v.ask == nil && ev.Question != nil {
				// The server waits inside of a call that can not be left and taken up again.
				v.note("%s asks something, and nobody is there to be asked: declined (%s)", plain(ev.Server), plain(ev.Question.Message))
				if err := ev.Answer(ctx, agent.Decline("nobody is there").By("no terminal")); err != nil && !errors.Is(err, agent.ErrSettled) {
					return nil, err
				}
				continue
			}
			if v.ask == nil && who != "" {
				// A run that waits for another can not be left and taken up again either.
				v.note("%sa question, and nobody is there to be asked: declined (%s)", who, plain(cmp.Or(ev.Tool, ev.Kind)))
				if err := ev.Answer(ctx, agent.Decline("nobody is there").By("no terminal")); err != nil && !errors.Is(err, agent.ErrSettled) {
					return nil, err
				}
				continue
			}
			if v.ask == nil {
				switch err := run.Suspend(context.WithoutCancel(ctx)); {
				case err == nil:
					return &ev, nil
				case !errors.Is(err, agent.ErrNotWaiting): // else answered elsewhere, or over
					return nil, fmt.Errorf("leaving the run to wait: %w", err)
				}
				continue
			}
			if err := v.question(ctx, ev); err != nil && !errors.Is(err, agent.ErrSettled) {
				return nil, err
			}
		}
	}
	return nil, nil
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

func progressText(ev agent.ToolProgress) string {
	text := ev.Tool
	switch {
	case ev.Total > 0:
		text += fmt.Sprintf(" %d%%", int(100*ev.Done/ev.Total))
	case ev.Done > 0:
		text += fmt.Sprintf(" %g", ev.Done)
	}
	if ev.Message != "" {
		text += " " + ev.Message
	}
	return text
}

func (v *view) show(text string) {
	if v.status != nil {
		v.status.set(shorten(plain(text), 70))
	}
}

func (v *view) note(format string, args ...any) {
	v.clear()
	v.p.note(format, args...)
}

// question asks on the terminal: whether a call may be made, or what a server wants
// to know.
func (v *view) question(ctx context.Context, q agent.Ask) error {
	if !q.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Expires, errExpired)
		defer cancel()
	}
	ask := v.approve
	switch {
	case q.Limit != nil:
		ask = v.allowMore
	case q.Question != nil:
		ask = v.forward
	}
	answer, err := ask(ctx, q)
	if err != nil {
		return err
	}
	// An answer that was given counts, whatever has ended meanwhile.
	return q.Answer(context.WithoutCancel(ctx), answer.By("terminal"))
}

// errExpired ends a question that waited for too long.
var errExpired = errors.New("nobody has answered in time")

// forward asks a server's question.
func (v *view) forward(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	d, err := v.ask.Decide(ctx, q.Question)
	if err != nil {
		d = &mcpclient.Decision{Action: mcp.ActionCancel}
	}
	return agent.DecideAs(d)
}

// approve asks whether a call may be made.
func (v *view) approve(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	who := "the program"
	if q.Server != "" {
		who = fmt.Sprintf("the server %s (%s, %s)", plain(q.Server), plain(q.Origin), q.Trust)
	}
	text := fmt.Sprintf("\nMay %s call %s of %s?\n%s%s", asker(q), plain(q.Tool), who, plainLines(indentJSON(q.Arguments)), warning(q))
	for {
		line, err := v.ask.Ask(ctx, text, "[y]es, yes to this tool for the whole [r]un, or [n]o: ")
		if err != nil {
			return agent.Decline("nobody answered"), nil
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return agent.Accept(), nil
		case "r", "run":
			return agent.AcceptForRun(), nil
		case "n", "no":
			return agent.Decline(""), nil
		}
		text = "Please say y, r or n."
	}
}

// indentJSON lays JSON out for reading; what is not JSON stays as it is.
func indentJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return string(raw)
	}
	return "  " + string(out)
}

// answer is what "run --output-format json" prints.
type answer struct {
	Result     string            `json:"result"`
	Structured json.RawMessage   `json:"structured,omitempty"`
	RunID      string            `json:"runId"`
	StopReason agent.StopReason  `json:"stopReason"`
	Usage      agent.Usage       `json:"usage"` // of the agent itself
	Spent      agent.Spent       `json:"spent"` // with all that it has started
	Steps      int               `json:"steps"`
	ToolCalls  int               `json:"toolCalls"`
	Asks       []json.RawMessage `json:"asks"` // that wait
	Error      string            `json:"error,omitempty"`
}

// answer prints the result to stdout, in the format asked for.
func (p *program) answer(format, id string, res *agent.Result, runErr error, waiting *agent.Ask) error {
	if res == nil {
		res = &agent.Result{RunID: id, StopReason: agent.StopFailed}
	}
	switch format {
	case "json":
		a := answer{
			Result: res.Text, Structured: res.Structured, RunID: id, StopReason: res.StopReason,
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
		return p.printJSON(a)
	case "text":
		if (runErr == nil || res.Text != "") && waiting == nil { // a run that wraps up has both
			text := res.Text
			if onTerminal(p.stdout) {
				text = plainLines(text) // SECA-42
			}
			if strings.TrimSpace(text) == "" {
				p.note("the answer of the model is empty")
			}
			_, err := fmt.Fprintln(p.stdout, text)
			return err
		}
	}
	return nil
}

// onTerminal reports whether what is written to w is shown on a terminal.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// statusLine is one line at the bottom of a terminal that says what goes on.
type statusLine struct {
	mu    sync.Mutex
	w     io.Writer
	text  string
	since time.Time
	shown bool
	tick  *time.Ticker
	done  chan struct{}
}

func newStatusLine(w io.Writer) *statusLine {
	s := &statusLine{w: w, tick: time.NewTicker(time.Second), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *statusLine) run() {
	for {
		select {
		case <-s.tick.C:
			s.draw("")
		case <-s.done:
			return
		}
	}
}

// set changes what is shown.
func (s *statusLine) set(text string) { s.draw(text) }

func (s *statusLine) draw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case text == "" && !s.shown:
		return
	case text != "" && text == s.text && s.shown:
		return
	case text != "":
		s.text, s.since = text, time.Now()
	}
	s.shown = true
	fmt.Fprintf(s.w, "\r\x1b[K  %s (%ds)", s.text, int(time.Since(s.since).Seconds()))
}

// clear takes the line away; the next set draws it again.
func (s *statusLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}

// close ends the line for good.
func (s *statusLine) close() {
	s.clear()
	s.tick.Stop()
	close(s.done)
}
