package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// errWithdrawn is why the context of a question ends that is not open any more.
var errWithdrawn = errors.New("the question is not open any more")

// question puts what the task wants to know and has not asked before (XTASK-10,
// XTASK-11). It reports false if that has ended the task.
func (a *watcher) question(c *actors.Context, s *State) bool {
	for r := range a.rounds {
		if !r.open(s.Inputs) {
			a.withdraw(r)
		}
	}
	for key := range a.answers {
		if _, open := s.Inputs[key]; !open {
			delete(a.answers, key)
		}
	}
	fresh := mcp.InputRequests{}
	for key, q := range s.Inputs {
		if !a.asked[key] {
			fresh[key] = q
		}
	}
	if len(a.asked)+len(fresh) > maxKeys {
		a.giveUp(c, fmt.Errorf("task %s: more than %d questions", a.task.id, maxKeys))
		return false
	}
	if len(fresh) > 0 {
		a.put(c, fresh)
	}
	if len(a.answers) > 0 && !a.updating { // the update before was lost
		if a.resent++; a.resent > maxResent {
			a.giveUp(c, fmt.Errorf("task %s does not take the answers to its questions", a.task.id))
			return false
		}
		a.update(c)
	}
	return true
}

// open reports whether one of the round's questions is.
func (r *round) open(inputs mcp.InputRequests) bool {
	for _, key := range r.keys {
		if _, ok := inputs[key]; ok {
			return true
		}
	}
	return false
}

func (a *watcher) withdraw(r *round) {
	delete(a.rounds, r)
	r.cancel(errWithdrawn)
}

// put has questions answered. The limits of those who wait stand still meanwhile.
func (a *watcher) put(c *actors.Context, fresh mcp.InputRequests) {
	r := &round{}
	for key := range fresh {
		a.asked[key] = true
		r.keys = append(r.keys, key)
	}
	a.rounds[r] = struct{}{}
	t := a.task
	release := t.Hold()
	r.cancel = actors.Await(c, func(ctx context.Context) (mcp.InputResponses, error) {
		defer release()
		if t.tasks.opts.Answer == nil {
			return nil, errors.New("the task asks for input that was not offered")
		}
		return t.tasks.opts.Answer(ctx, t, fresh)
	}, func(answers mcp.InputResponses, err error) any { return &answered{r, answers, err} })
}

func (a *watcher) answered(c *actors.Context, m *answered) {
	if _, open := a.rounds[m.round]; !open {
		return // withdrawn
	}
	delete(a.rounds, m.round)
	if m.err != nil { // MRTR-12, MRTR-13
		a.giveUp(c, m.err)
		return
	}
	for key, answer := range m.responses {
		a.answers[key] = answer
	}
	a.resent = 0
	a.update(c)
}

// update sends the answers that the peer has not got yet.
func (a *watcher) update(c *actors.Context) {
	if a.updating || len(a.answers) == 0 {
		return
	}
	t := a.task
	p := &mcp.UpdateTaskParams{TaskID: t.id, InputResponses: mcp.InputResponses{}}
	keys := make([]string, 0, len(a.answers))
	for key, answer := range a.answers {
		keys = append(keys, key)
		p.InputResponses[key] = answer
	}
	req := t.request(mcp.MethodUpdateTask)
	var err error
	if req.Params, err = mcp.Marshal(p); err != nil {
		a.giveUp(c, fmt.Errorf("writing the answers to a task's questions: %w", err))
		return
	}
	req.Max = askLimit
	a.updating = true
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		_, err := t.tasks.opts.Do(ctx, req)
		return struct{}{}, err
	}, func(_ struct{}, err error) any { return &updated{keys, err} })
}

// updated drops the answers that have arrived. Others are sent again if the next
// reading shows that they are still wanted; what is wrong with the task it says too.
func (a *watcher) updated(c *actors.Context, m *updated) {
	a.updating = false
	if m.err != nil {
		a.task.tasks.opts.Logger.Debug("answers to a task's questions were not taken", "task", a.task.id, "error", m.err)
		a.hint(c)
		return
	}
	for _, key := range m.keys {
		delete(a.answers, key)
	}
	a.update(c) // what has come meanwhile
}

// giveUp ends the task because of us: the peer is told to cancel it, and those who
// wait get the reason.
func (a *watcher) giveUp(c *actors.Context, err error) {
	t := a.task
	req := t.request(mcp.MethodCancelTask)
	req.Max = cancelLimit
	if t.tasks.opts.Cancels == nil || t.tasks.opts.Cancels() {
		c.System().Go(c.Self().Path(), func() {
			ctx, cancel := context.WithTimeout(context.Background(), cancelLimit)
			defer cancel()
			_, _ = t.tasks.opts.Do(ctx, req) // the peer may end it as it likes
		})
	}
	a.end(c, call.Outcome{Err: &leftError{err}})
}
