package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// operationTime bounds one operation: a run that is parked has its calls under way end first.
const operationTime = 40 * time.Second

// operation is what an [Operator] does with a run.
type operation struct {
	Title, Button string
	may           func(context.Context, runPages, *store.Run) (*RefusedError, error) // nil: it is possible
	will          func(*store.Run, *runlog.State) []string
	do            func(context.Context, runPages, *store.Run, *visit) (run string, err error) // which is shown next
}

// The operations, by the last part of their addresses.
var operations = map[string]operation{
	"cancel": {"Cancel this run?", "Cancel the run", mayCancel, cancelWill, doCancel},
	"park":   {"Park this run?", "Park the run", mayPark, parkWill, doPark},
	"resume": {"Resume this run?", "Resume the run", mayResume, resumeWill, doResume},
	"fork":   {"Fork this run?", "Start the fork", mayFork, nil, doFork},
}

// operationPage says what an operation will do.
type operationPage struct {
	operation
	runLine
	Name    string
	Will    []string
	Refused *RefusedError // nil for an operation that is possible
	Error   string        // why the form that was sent was not carried out
	Fork    *Fork         // what is filled in; nil for other operations
	Last    int64         // event that a fork can take over
}

// operation is the page that asks before an operation.
func (c runPages) operation(v *visit) error { return c.showOperation(v, http.StatusOK, nil) }

// operate carries out an operation.
func (c runPages) operate(v *visit) error {
	name := v.r.PathValue("operation")
	op, ok := operations[name]
	if !ok {
		return store.ErrNotFound
	}
	if err := v.r.ParseForm(); err != nil {
		c.say(v.w, v.r, http.StatusBadRequest, "The form cannot be read: it has at most 1 MiB.")
		return nil
	}
	// What was begun is not left half done where the browser goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.r.Context()), operationTime)
	defer cancel()
	head, err := c.opts.Store.Run(ctx, v.r.PathValue("run"))
	if err != nil {
		return err
	}
	refused, err := op.may(ctx, c, &head)
	next := ""
	if err == nil && refused == nil {
		next, err = op.do(ctx, c, &head, v)
	}
	switch found, ok := errors.AsType[*RefusedError](err); {
	case ok:
		refused = found
	case errors.Is(err, store.ErrNotFound):
		refused = &RefusedError{Why: "The process that works on the run cannot be reached from here. End it there."}
	case err != nil:
		return err
	}
	if refused != nil {
		return c.showOperation(v, http.StatusConflict, refused)
	}
	c.log.Info("an operation of the console", "operation", name, "run", head.ID, "by", v.name)
	http.Redirect(v.w, v.r, "/runs/"+next, http.StatusSeeOther)
	return nil
}

// showOperation shows what an operation will do; wrong is why one that was sent was not carried out.
func (c runPages) showOperation(v *visit, status int, wrong *RefusedError) error {
	ctx := v.r.Context()
	op, ok := operations[v.r.PathValue("operation")]
	if !ok {
		return store.ErrNotFound
	}
	head, err := c.opts.Store.Run(ctx, v.r.PathValue("run"))
	if err != nil {
		return err
	}
	entries, err := runlog.Entries(ctx, c.opts.Store, head.ID)
	if err != nil {
		return err
	}
	p := operationPage{operation: op, runLine: lineOf(&head, time.Now()), Name: v.r.PathValue("operation"), Last: head.Seq, Refused: wrong}
	if p.Refused == nil {
		if p.Refused, err = op.may(ctx, c, &head); err != nil {
			return err
		}
	}
	if p.Name == "fork" {
		p.Fork = forkOf(v, entries)
		p.Will = forkWill(p.Fork.At, entries)
		if wrong != nil { // the form can be sent again
			p.Refused, p.Error = nil, wrong.Why
		}
	} else {
		p.Will = op.will(&head, runlog.StateOf(entries))
	}
	c.render(v.w, v.r, status, "operation", view{Title: strings.TrimSuffix(op.Title, "?"), Visitor: v.name, Role: v.role, Body: &p})
	return nil
}

// ended refuses what cannot be done with a run by itself: it has ended, is a part of another one, or a job's.
func (c runPages) ended(ctx context.Context, head *store.Run, command string) (*RefusedError, error) {
	if head.State.Ended() {
		return &RefusedError{Why: fmt.Sprintf("The run has ended, as %s. A fork of it goes on from any of its steps.", head.State)}, nil
	}
	if head.Parent != "" {
		return &RefusedError{Why: fmt.Sprintf("The run is a part of the run %s: do it with that one.", head.Parent)}, nil
	}
	id, _, numbered := cutLast(head.ID, ".")
	if !numbered {
		return nil, nil
	}
	job, err := c.opts.Store.Job(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (job.Run != head.ID || job.State.Ended()) {
		return nil, nil
	}
	if command != "" {
		command += " " + id
	}
	return &RefusedError{Why: fmt.Sprintf("The run is an attempt of the job %s, which its worker parks, goes on with and tries again by itself.", id), Command: command}, err
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func mayCancel(ctx context.Context, c runPages, head *store.Run) (*RefusedError, error) {
	refused, err := c.ended(ctx, head, "troupe jobs cancel")
	if refused == nil && err == nil && c.opts.Runs == nil && owner.Holds(*head, time.Now()) {
		return &RefusedError{Why: "This console does not reach the process that works on the run. End that process, and the run can be cancelled here."}, nil
	}
	return refused, err
}

func mayPark(ctx context.Context, c runPages, head *store.Run) (*RefusedError, error) {
	refused, err := c.ended(ctx, head, "")
	switch {
	case refused != nil || err != nil:
		return refused, err
	case !owner.Holds(*head, time.Now()):
		return &RefusedError{Why: "No process works on the run: it waits in the store to be resumed."}, nil
	case c.opts.Runs == nil:
		return &RefusedError{Why: "This console does not reach the process that works on the run."}, nil
	}
	return nil, nil
}

func mayResume(ctx context.Context, c runPages, head *store.Run) (*RefusedError, error) {
	refused, err := c.ended(ctx, head, "")
	switch {
	case refused != nil || err != nil:
		return refused, err
	case owner.Holds(*head, time.Now()):
		return &RefusedError{Why: "A process works on the run."}, nil
	case c.opts.Runs == nil:
		return &RefusedError{Why: "This console cannot resume runs.", Command: "troupe runs resume " + head.ID}, nil
	}
	return nil, nil
}

func mayFork(_ context.Context, c runPages, head *store.Run) (*RefusedError, error) {
	if c.opts.Runs == nil {
		return &RefusedError{Why: "This console cannot fork runs.", Command: "troupe runs fork " + head.ID}, nil
	}
	return nil, nil
}

func doCancel(ctx context.Context, c runPages, head *store.Run, v *visit) (string, error) {
	cause := "cancelled by console:" + v.name
	if owner.Holds(*head, time.Now()) {
		return head.ID, c.opts.Runs.Cancel(ctx, head.ID, cause)
	}
	return head.ID, c.end(ctx, head.ID, cause)
}

func doPark(ctx context.Context, c runPages, head *store.Run, _ *visit) (string, error) {
	return head.ID, c.opts.Runs.Park(ctx, head.ID)
}

func doResume(ctx context.Context, c runPages, head *store.Run, _ *visit) (string, error) {
	return head.ID, c.opts.Runs.Resume(ctx, head.ID)
}

func doFork(ctx context.Context, c runPages, head *store.Run, v *visit) (string, error) {
	entries, err := runlog.Entries(ctx, c.opts.Store, head.ID)
	if err != nil {
		return "", err
	}
	f := forkOf(v, entries)
	if strings.TrimSpace(f.Prompt) == strings.TrimSpace(promptOf(entries)) { // a form drops the first line break
		f.Prompt = ""
	}
	f.ID = uuid.NewString()
	return f.ID, c.opts.Runs.Fork(ctx, head.ID, *f)
}

// forkOf reads what a visitor wants to fork; the prompt is that of the run where none was sent.
func forkOf(v *visit, entries []runlog.Entry) *Fork {
	get := func(name string) string { return strings.ReplaceAll(v.r.FormValue(name), "\r\n", "\n") }
	f := &Fork{Prompt: cmp.Or(get("prompt"), promptOf(entries)), Say: strings.TrimSpace(get("say"))}
	if at, err := strconv.ParseInt(get("at"), 10, 64); err == nil && at > 0 && at <= int64(len(entries)) {
		f.At = at
	} else {
		f.At = int64(len(entries))
	}
	return f
}

// promptOf is the text that a run began with.
func promptOf(entries []runlog.Entry) string {
	if len(entries) > 0 {
		if b, ok := entries[0].Body.(*runlog.RunStarted); ok && len(b.Input) > 0 {
			return b.Input[len(b.Input)-1].Content.Text()
		}
	}
	return ""
}

// end ends a run that no process works on, with the runs that it has started.
func (c runPages) end(ctx context.Context, id, cause string) error {
	s := c.opts.Store
	head, err := claims.Run(ctx, s, id, owner.New("console"), time.Minute)
	switch {
	case errors.Is(err, store.ErrFinished), errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrLeased):
		return &RefusedError{Why: "A process has begun to work on the run just now. Try again."}
	case err != nil:
		return err
	}
	if err := c.endHeld(ctx, &head, cause); err != nil {
		return errors.Join(err, s.Release(ctx, id, head.Owner, head.Epoch))
	}
	return nil
}

// endBelow ends a run that another one has started, under the lease of that one.
func (c runPages) endBelow(ctx context.Context, id string, above *store.Run, cause string) error {
	head, err := c.opts.Store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && head.State.Ended() {
		return nil
	}
	if err != nil {
		return err
	}
	head.Owner, head.Epoch = above.Owner, above.Epoch
	return c.endHeld(ctx, &head, cause)
}

// endHeld ends a run whose lease it has, with the runs that it has started.
func (c runPages) endHeld(ctx context.Context, head *store.Run, cause string) error {
	s, id := c.opts.Store, head.ID
	state, err := runlog.Fold(ctx, s, id)
	if err != nil {
		return err
	}
	var events []store.Event
	add := func(typ, key string, body any) {
		e := runlog.Entry{Type: typ, Key: key, Body: body}
		ev, encoding := e.Encode()
		events, err = append(events, ev), cmp.Or(err, encoding)
	}
	spent := state.Spent
	for _, call := range state.Calls {
		if call.Run != "" {
			err = cmp.Or(err, c.endBelow(ctx, call.Run, head, cause))
			if below, folding := runlog.Fold(ctx, s, call.Run); folding == nil && below.Finished != nil {
				spent = spent.Plus(below.Finished.Spent)
			}
		}
		if call.Sent && call.Open() && len(events) < store.MaxEvents-1 {
			add(store.ToolUnknown, call.Key, &runlog.ToolUnknown{Turn: call.Turn, CallID: call.CallID, Tool: call.Tool, Server: call.Server, Reason: cause})
		}
	}
	add(store.RunFinished, "", &runlog.RunFinished{State: store.Cancelled, Stop: runlog.StopCancelled, Error: cause, Usage: state.Usage,
		Steps: state.Steps, ToolCalls: state.ToolCalls, Spent: spent})
	if err != nil {
		return err
	}
	if err := c.withdraw(ctx, id, cause); err != nil {
		return err
	}
	_, err = s.Append(ctx, store.Append{Run: id, Owner: head.Owner, Epoch: head.Epoch, After: store.Unchecked, State: store.Cancelled, Summary: cause, Events: events})
	return err
}

// withdraw cancels the open questions of a run.
func (c runPages) withdraw(ctx context.Context, run, cause string) error {
	for {
		asks, err := c.opts.Store.Asks(ctx, store.AskQuery{Run: run, Status: store.AskPending})
		if err != nil || len(asks) == 0 {
			return err
		}
		for i := range asks {
			d := store.Decision{Status: store.AskCancelled, By: "console", Answer: runlog.DeclineAnswer(cause)}
			if _, err := c.opts.Store.SettleAsk(ctx, asks[i].ID, d); err != nil && !errors.Is(err, store.ErrSettled) {
				return err
			}
		}
	}
}

func cancelWill(head *store.Run, s *runlog.State) []string {
	out := []string{"The run ends as cancelled, with the sub-agents that it has started. It cannot be resumed; it can be forked."}
	if n := len(openQuestions(s)); n > 0 {
		out = append(out, "Its open questions are withdrawn.")
	}
	for _, call := range s.Calls {
		if call.Sent && call.Open() && call.Run == "" {
			out = append(out, fmt.Sprintf("The call of %s is under way: what it has done by then stays done.", call.Tool))
		}
	}
	return out
}

func parkWill(_ *store.Run, s *runlog.State) []string {
	out := []string{"Nothing more begins. The run waits in the store until it is resumed, with its questions."}
	if s.Turn.Open() {
		out = append(out, "The model has a short time to end its turn. If it does not, it is asked again when the run is resumed, and both are paid for.")
	}
	for _, call := range s.Calls {
		if call.Sent && call.Open() && call.Run == "" {
			out = append(out, fmt.Sprintf("The call of %s has a short time to end. If it does not, its outcome counts as unknown.", call.Tool))
		}
	}
	return out
}

func resumeWill(_ *store.Run, s *runlog.State) []string {
	out := []string{fmt.Sprintf("The run goes on after its event %d. What the model has answered is not asked again, and calls that have a result are not made again.", s.Seq)}
	if s.Turn.Open() {
		out = append(out, fmt.Sprintf("The model is asked again for turn %d: its answer was not recorded.", s.Turn.N))
	}
	if n := len(openQuestions(s)); n > 0 {
		out = append(out, fmt.Sprintf("It waits for the answers to its %s.", counted(n, "open question")))
	}
	for _, call := range s.Calls {
		if !call.Open() || call.Intent == nil {
			continue
		}
		text := "The call of %s was not sent, and is made."
		switch {
		case call.Run != "":
			text = "The sub-agent of %s goes on, too."
		case call.Sent && call.Round != nil:
			text = "The call of %s goes on with what its server has asked for."
		case call.Sent && call.Task != "":
			text = "The server is asked what became of %s."
		case call.Sent && call.Intent.Safe:
			text = "The call of %s is made again: the tool is declared safe to repeat."
		case call.Sent:
			text = "The call of %s may have had its effect. It is not repeated: a question in the inbox asks what became of it."
		}
		out = append(out, fmt.Sprintf(text, call.Tool))
	}
	return out
}

// forkWill says what a fork takes over.
func forkWill(at int64, entries []runlog.Entry) []string {
	n := slices.IndexFunc(entries, func(e runlog.Entry) bool { return e.Seq > at })
	if n < 0 {
		n = len(entries)
	}
	s := runlog.StateOf(entries[:n])
	out := []string{fmt.Sprintf("A new run takes over %s, with %s of the model. This run stays as it is.", counted(n, "event"), counted(s.Steps, "turn")),
		"Nothing that was sent by then is sent again: the fork has the results of the calls.",
		"What the run has spent by then counts for the limits of the fork. Calls that were not sent are decided anew, and may ask again."}
	for _, call := range s.Calls {
		if call.Sent && call.Open() {
			out = append(out, fmt.Sprintf("The call of %s had no result by then: the fork takes it over if it came later, and reads else that the outcome is unknown.", call.Tool))
		}
	}
	return out
}

// openQuestions are those that wait, as far as the journal knows.
func openQuestions(s *runlog.State) (open []*runlog.Question) {
	for _, q := range s.Asks {
		if q.Settled == nil {
			open = append(open, q)
		}
	}
	return open
}
