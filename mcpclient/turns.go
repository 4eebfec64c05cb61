package mcpclient

import (
	"context"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// Owned is a [Human] that answers for somebody: several with the same Owner are one
// person, such as the Humans of the calls of one run. Others are one person only if
// they are the same value.
type Owned interface {
	Human
	// Owner returns a value that can be compared.
	Owner() any
}

// turnOf returns what a call needs before it is sent to a server that would not say which
// of several calls it asks something for: an instance that has calls of the same owner
// only. Nil is nothing.
func (c *Client) turnOf(ctx context.Context, t *callTag, o *CallOptions) (*turn, error) {
	if c.opts.main != nil || !mayAsk(t.method) || !c.elicits() && !c.samples() && (t.roots == nil || !c.tellsRoots()) {
		return nil, nil // it has its instance, or the server may not ask anybody
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
	w := &turn{of: t.party(o), alone: c.opts.Serial}
	if o != nil {
		w.keep = o.Keep && c.instances.most > 1
		if told := o.OnInstance; told != nil {
			w.told = told
		}
	}
	if strings.HasPrefix(t.method, "tasks/") || o != nil && o.task != nil { // its id is known to one process
		w.only = c.instances.own
	}
	return w, nil
}

// party is who answers for the call.
func (t *callTag) party(o *CallOptions) party {
	p := party{human: t.human}
	if o != nil {
		p.sampler = o.Sampler
	}
	if p.human == nil && p.sampler == nil && t.roots != nil {
		p.roots = t
	}
	return p
}

// lend gives the call an instance, where it needs one, and then calls then: before lend
// returns, or on a goroutine of the system. The wait holds no goroutine, and ends with ctx.
func (c *Client) lend(ctx context.Context, t *callTag, o *CallOptions, then func(error)) {
	w, err := actors.Guard(func() (*turn, error) { return c.turnOf(ctx, t, o) })
	if err != nil || w == nil {
		then(err)
		return
	}
	c.instances.lend(ctx, t, w, then)
}

// lent is lend for a caller that waits.
func (c *Client) lent(ctx context.Context, t *callTag, o *CallOptions) error {
	w, err := c.turnOf(ctx, t, o)
	if err != nil || w == nil {
		return err
	}
	done := make(chan error, 1)
	c.instances.lend(ctx, t, w, func(err error) { done <- err })
	return <-done
}

func (p *instances) lend(ctx context.Context, t *callTag, w *turn, then func(error)) {
	if i := p.try(w); i != nil {
		t.has(i)
		then(nil)
		return
	}
	stop := func() bool { return true }
	w.got = func(i *instance, err error) {
		stop()
		if err == nil {
			t.has(i)
			if w.waits && w.told != nil {
				w.told(nil)
			}
		}
		then(err)
	}
	stop = actors.AfterDone(ctx, func() { p.giveUp(w, context.Cause(ctx)) })
	p.enter(w)
}

// has gives the call its instance.
func (t *callTag) has(i *instance) {
	t.client, t.instance = i.client, i
	t.haveTurn(i.leave)
}

// before has the options hear that the request is about to be written.
func (o *CallOptions) before() func(proceed func(error)) {
	if o == nil || o.OnSend == nil {
		return nil
	}
	return func(proceed func(error)) {
		o.OnSend(func(err error) {
			if err != nil {
				err = &notSentError{err}
			}
			proceed(err)
		})
	}
}
