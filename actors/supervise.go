package actors

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Failure is a panic of an actor.
type Failure struct {
	Actor   string // its path
	Kind    Kind
	Message string // the type of the message it was handling
	Value   any    // what it panicked with
	Stack   []byte
}

// Error says which actor panicked with what; the stack is in [Failure.Stack].
// A value that is neither an error nor text is shown by its type only: it may be
// the message, and that may hold what must not be logged.
func (f *Failure) Error() string {
	return fmt.Sprintf("actor %s failed while handling %s: %v", f.Actor, f.Message, shown(f.Value))
}

// shown is what errors and logs tell of the value of a panic.
func shown(value any) any {
	switch value.(type) {
	case error, string:
		return value
	default:
		return fmt.Sprintf("%T", value)
	}
}

// Unwrap returns the panic's value if it is an error.
func (f *Failure) Unwrap() error {
	err, _ := f.Value.(error)
	return err
}

// errGoexit is the failure of code that ended its goroutine.
var errGoexit = errors.New("runtime.Goexit was called")

func newFailure(p *process, msg, value any) *Failure {
	return &Failure{Actor: p.path(), Kind: p.kind, Message: messageName(msg), Value: value, Stack: debug.Stack()}
}

// messageName is the type of what the actor was handling, as the actor sees it.
func messageName(msg any) string {
	switch m := msg.(type) {
	case *actor.Started:
		msg = Started{}
	case *actor.Stopping, *actor.Restarting, *actor.Stopped:
		msg = Stopping{}
	case *actor.Terminated:
		msg = ChildStopped{}
	case *Task:
		msg = m.msg
	case *Timer:
		if msg = m.msg; msg == nil {
			return "the message of an After"
		}
	}
	return fmt.Sprintf("%T", msg)
}

func logPanic(log *slog.Logger, f *Failure) {
	log.Error("an actor panicked", "actor", f.Actor, "kind", f.Kind.String(), "error", f, "stack", string(f.Stack))
}

// watch is what a supervisor remembers of a child that has failed.
type watch struct {
	failures []time.Time // within the policy's window
	clock    *time.Timer // a delayed restart
}

// settle forgets a delayed restart.
func (p *process) settle() {
	if p.watch != nil && p.watch.clock != nil {
		p.watch.clock.Stop()
	}
}

// delayedRestart is sent by a supervisor's clock to itself.
type delayedRestart struct{ child *process }

// childFailed carries out the child's row of the table.
func (c *cell) childFailed(sup actor.Supervisor, who *actor.PID, reason any) {
	child := c.kids.get(who.Id)
	if child == nil {
		sup.StopChildren(who)
		return
	}
	failure, ok := reason.(*Failure)
	if !ok {
		failure = newFailure(child, nil, reason)
		child.last.Store(failure)
	}
	logPanic(c.System().log, failure)
	// Deferred, as it must be done whatever becomes of ChildFailed.
	defer c.answer(sup, child, failure)
	if s, ok := c.user.(Supervisor); ok && !c.over {
		c.active = true
		defer func() { c.active = false }()
		defer c.quietly(failure)
		s.ChildFailed(&c.Context, Ref{child}, failure)
	}
}

// answer carries out the child's policy.
func (c *cell) answer(sup actor.Supervisor, child *process, failure *Failure) {
	action, delay := decide(child, time.Now())
	switch {
	case c.over || action == Stop || action == Escalate && c.broken:
		sup.StopChildren(child.pid)
	case action == Restart && delay == 0:
		sup.RestartChildren(child.pid)
	case action == Restart:
		child.watch.clock = time.AfterFunc(delay, func() { c.self.Send(&delayedRestart{child}) })
	case c.self == c.System().root:
		sup.StopChildren(child.pid)
		c.System().fail(failure)
	default:
		p := c.self.p
		f := &Failure{Actor: p.path(), Kind: p.kind, Message: "the failure of a child", Value: failure, Stack: failure.Stack}
		c.fail(f)
		sup.EscalateFailure(f, nil)
	}
}

// decide says what is done about the newest failure of child.
func decide(child *process, now time.Time) (Action, time.Duration) {
	policy := policies[child.kind]
	if policy.On != Restart {
		return policy.On, 0
	}
	if child.watch == nil {
		child.watch = new(watch)
	}
	recent := child.watch.failures[:0]
	for _, at := range child.watch.failures {
		if now.Sub(at) < policy.Window {
			recent = append(recent, at)
		}
	}
	child.watch.failures = append(recent, now)
	n := len(child.watch.failures)
	if n > policy.Max {
		return policy.Then, 0
	}
	return Restart, min(policy.FirstDelay<<(n-1), policy.MaxDelay)
}
