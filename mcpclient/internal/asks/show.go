package asks

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Show has a person decide about a question, within the limits, before it expires, and while a call
// is there that it may belong to. When it is its turn prepare returns what shows it; that runs on a
// goroutine of its own: a person's program that does not heed its context keeps its place under the
// limits, but not the server waiting.
func Show[D any](ctx context.Context, a *Asks, o *Origin, expires time.Time, page bool, prepare func() (show func(context.Context) (D, error), err error)) (none D, _ error) {
	if page && !a.Limits.AllowURL() {
		return none, ErrTooMany
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ctx, stop := context.WithDeadlineCause(ctx, expires, ErrExpired)
	defer stop()
	defer o.OnGone(func() { cancel(ErrGone) })()

	live := o.Live()
	var of any // nil is one for all whose call is not known
	if len(live) > 0 && !o.Strangers {
		of = live[0].Human
	}
	place, err := a.Limits.Enter(of, cancel)
	if err != nil {
		return none, err
	}
	for _, t := range live {
		t.Wait(1)
		defer t.Wait(-1)
	}
	done, err := place.Turn(ctx, page)
	if err != nil {
		place.Leave()
		return none, err
	}
	show, err := prepare()
	if err != nil {
		done()
		place.Leave()
		return none, err
	}
	reply := new(actors.Reply[D])
	a.System.Go("asking about "+a.Server, func() {
		d, err := actors.Guard(func() (D, error) { return show(ctx) })
		done()
		place.Leave()
		reply.Complete(d, err)
	})
	return reply.Wait(ctx)
}
