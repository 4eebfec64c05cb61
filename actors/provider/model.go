package provider

import (
	"context"
	"iter"
	"runtime/debug"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/lazy"
	"github.com/troupe-dev/troupe/llm"
)

// model is a model behind a provider.
type model struct {
	provider *provider
	model    llm.Model
}

// Name returns the model's own.
func (m *model) Name() string { return m.model.Name() }

// Unwrap returns the model itself.
func (m *model) Unwrap() llm.Model { return m.model }

// String returns the model's name.
func (m *model) String() string { return m.Name() }

// GoString returns what String does: %#v shows nothing of the model inside.
func (m *model) GoString() string { return m.Name() }

// Stream implements [llm.Model].
func (m *model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if ctx.Err() != nil {
			yield(nil, context.Cause(ctx))
			return
		}
		r := &reading{ticket: ticket{provider: m.provider, model: m.model, ctx: lazy.Context{Parent: ctx}}, req: req, yield: yield}
		var err error
		if r.atOnce, err = m.provider.enter(&r.ticket); err != nil {
			r.ctx.End(nil)
			yield(nil, m.refusal(err))
			return
		}
		if err := r.run(); err != nil {
			yield(nil, err)
		}
	}
}

// refusal is the error of a request that was not taken in. Another model may do better.
func (m *model) refusal(err error) error {
	e := m.provider.wrap(m.model, err)
	e.Retryable = err == ErrBusy
	return e
}

// reading is the goroutine's part of a request.
type reading struct {
	ticket
	req   *llm.Request
	yield func(llm.Event, error) bool

	err      error // of the newest attempt
	probe    bool  // it tries whether the server is back
	atOnce   bool  // no actor knows of it: it has its place, and its first attempt has not failed
	passed   bool  // an event of this attempt has been passed on
	done     bool  // the last one has
	left     bool  // the reader wants no more
	yielded  bool  // the reader's code runs
	panicked bool  // the model has
	settled  bool  // the completion has been told of the end, or has said it
}

// run does what the completion decides, until the request has ended; the error is left to
// pass on.
func (r *reading) run() error {
	defer r.leave()
	for {
		d := decision{kind: proceed}
		if !r.atOnce {
			d = r.next()
		}
		switch d.kind {
		case over, broken:
			r.settled = d.kind == over
			return d.err
		case retry:
			r.tellObservers(d)
		case proceed:
			err := r.attempt(d.probe)
			ended := r.done || r.left || r.ctx.Err() != nil
			if ended && r.atOnce && !r.panicked {
				return r.ended()
			}
			if r.settled = ended && (r.done || r.panicked); r.settled || !ended {
				r.attempted(&attemptEnded{err: err, panicked: r.panicked, passed: r.passed, restarts: r.observer().Restart != nil})
			}
			if ended {
				return r.ended()
			}
		}
	}
}

// attempted tells the completion of the end of an attempt.
func (r *reading) attempted(end *attemptEnded) {
	if !r.atOnce {
		r.tell(end)
		return
	}
	r.atOnce = false
	if s := r.provider.owes(&r.ticket); s != nil {
		s.hand(&r.ticket, end)
	}
}

// ended is the error of a request that is whole, or was left, or whose context has ended.
func (r *reading) ended() error {
	if r.done || r.left {
		return nil
	}
	return context.Cause(&r.ctx)
}

// leave ends the request if it has not been: its reader may have left, or panicked.
func (r *reading) leave() {
	switch {
	case r.atOnce:
		r.ctx.End(context.Canceled)
		r.provider.release(&r.ticket, r.health())
		return
	case r.settled:
	case r.ctx.Err() != nil:
		r.tell(&cancelled{})
	default:
		r.ctx.End(context.Canceled) // before: its completion may be about to begin
		r.tell(&left{})
	}
	r.ctx.End(context.Canceled)
	r.provider.forget(&r.ticket)
}

// health is what a request that was out at once says of the server, if it has been answered.
func (r *reading) health() verdict {
	if r.done {
		return verdict{health: well}
	}
	return verdict{}
}

// tellObservers says that another attempt follows.
func (r *reading) tellObservers(d decision) {
	o := r.observer()
	if d.restart && o.Restart != nil {
		o.Restart()
	}
	for _, told := range []func(llm.Attempt){o.Retry, r.provider.opts.Retry.OnRetry} {
		if told != nil {
			told(d.told)
		}
	}
}

// attempt passes one attempt on. Its error is the model's; one that ends without [llm.Finish]
// is one as well.
func (r *reading) attempt(probe bool) (err error) {
	defer func() {
		if r.yielded {
			return // the reader's panic is not ours
		}
		if p := recover(); p != nil {
			r.panicked, err = true, &actors.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	r.err, r.probe, r.passed = nil, probe, false
	r.model.Stream(&r.ctx, r.req)(r.pass)
	if r.err != nil || r.done || r.left {
		return r.err
	}
	e := r.provider.wrap(r.ticket.model, llm.ErrStreamCut)
	e.Retryable = true
	return e
}

// pass passes an event of the attempt on, and reports whether it takes another.
func (r *reading) pass(ev llm.Event, err error) bool {
	if r.err != nil || r.done || r.left {
		return false // the model goes on all the same
	}
	if r.err = err; err != nil {
		return false
	}
	if !r.passed && r.probe {
		r.parent.Send(&answered{&r.ticket})
	}
	r.passed = true
	_, r.done = ev.(llm.Finish)
	r.yielded = true
	more := r.yield(ev, nil)
	r.yielded = false
	r.left = !more
	return more && !r.done
}
