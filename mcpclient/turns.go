package mcpclient

import (
	"context"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/pool"
)

// turnOf returns what a call needs before it is sent to a server that would not say which
// of several calls it asks something for: an instance that has calls of the same owner
// only. Nil is nothing.
func (c requests) turnOf(ctx context.Context, t *asks.Call, o *CallOptions) (*pool.Turn, error) {
	if c.opts.main != nil || !asks.MayAsk(t.Method) || !c.questions.elicits() && !c.questions.samples() && (t.Roots == nil || !c.questions.tellsRoots()) {
		return nil, nil // it has its instance, or the server may ask no person
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Era == mcp.EraModern { // its questions say whose they are
		return nil, nil
	}
	if c.web.Streamable() != nil && !c.opts.Serial { // they come on the stream of the call as a rule
		return nil, nil
	}
	w := &pool.Turn{Owner: t.Party(nil), Alone: c.opts.Serial}
	if o != nil {
		if o.Sampler != nil { // else the call has the client's, as others do
			w.Owner = t.Party(o.Sampler)
		}
		w.Keep = o.Keep && c.pooled().Most > 1
		if report := o.OnInstance; report != nil {
			w.OnWait = func(u pool.Use) { report(&InstanceWait{Server: c.server.Name, InUse: u.InUse, Of: u.Of, Held: u.Held}) }
			w.OnEnd = func() { report(nil) }
		}
	}
	if strings.HasPrefix(t.Method, "tasks/") || o != nil && o.task != nil { // its id is known to one process
		w.Only = c.pooled().First()
	}
	return w, nil
}

// lend gives the call an instance, where it needs one, and then calls then: before lend
// returns, or on a goroutine of the system. The wait holds no goroutine; it ends with ctx, and
// when the call is cancelled.
func (c requests) lend(ctx context.Context, t *asks.Call, o *CallOptions, cancelled *canceller, then func(error)) {
	w, err := actors.Guard(func() (*pool.Turn, error) { return c.requests.turnOf(ctx, t, o) })
	if err != nil || w == nil {
		then(err)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cancelled.waits(cancel)
	c.pooled().Lend(ctx, w, lentTo(t, w, func(err error) {
		cancel(nil)
		then(err)
	}))
}

// lent is lend for a caller that waits.
func (c requests) lent(ctx context.Context, t *asks.Call, o *CallOptions) error {
	w, err := c.requests.turnOf(ctx, t, o)
	if err != nil || w == nil {
		return err
	}
	done := make(chan error, 1)
	c.pooled().Lend(ctx, w, lentTo(t, w, func(err error) { done <- err }))
	return <-done
}

// lentTo gives the call the instance that it was lent. Its later turns on it are those of the same
// owner.
func lentTo(t *asks.Call, w *pool.Turn, then func(error)) func(*pool.Instance, error) {
	return func(i *pool.Instance, err error) {
		if err == nil {
			c := (*Client)(i.Member().(*member))
			t.SetClient(c.questions.asks, c)
			t.Again = func(ctx context.Context, then func(error)) {
				next := &pool.Turn{Owner: w.Owner, Alone: w.Alone, Only: i}
				i.Pool().Lend(ctx, next, lentTo(t, next, then))
			}
			t.HaveTurn(i)
		}
		then(err)
	}
}

// before has the options hear that the request is about to be written, unless its tool has changed. The tool
// is looked at last: what the options do before may take long.
func (o *CallOptions) before() func(proceed func(error)) {
	if o == nil || o.OnSend == nil && o.unchanged == nil {
		return nil
	}
	return func(proceed func(error)) {
		written := func(err error) {
			if err == nil && o.unchanged != nil {
				err = o.unchanged()
			}
			if err != nil {
				err = &notSentError{err}
			}
			proceed(err)
		}
		if o.OnSend == nil {
			written(nil)
			return
		}
		o.OnSend(written)
	}
}
