package mcpclient

import (
	"context"
	"slices"
	"sync"

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

// takeTurn waits until no call is out whose owner is another, where the server would
// not say which of them it asks something for.
func (c *Client) takeTurn(ctx context.Context, method string, human Human) (leave func(), err error) {
	if !c.elicits() && !c.samples() || !mayAsk(method) { // it may not ask anybody
		return func() {}, nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case info.Era == mcp.EraModern: // its questions say whose they are
	case c.opts.Serial:
		return c.asks.turns.enter(ctx, human, true)
	case c.web.link.Load() != nil: // they come on the stream of the call as a rule
	default:
		return c.asks.turns.enter(ctx, human, false)
	}
	return func() {}, nil
}

// turns lets the calls of one owner go at the same time, and those of different
// owners one after the other, in the order of their coming.
type turns struct {
	mu      sync.Mutex
	owner   Human // whose calls are out
	alone   bool  // no other joins the one that is out
	out     int
	waiting []*turn
}

// turn is a call that waits.
type turn struct {
	owner Human
	alone bool
	begun chan struct{}
}

// enter waits for the turn of a call. Nobody overtakes those that wait. The number of
// waiting calls is that of the callers: each waits on its own goroutine.
func (t *turns) enter(ctx context.Context, owner Human, alone bool) (leave func(), err error) {
	t.mu.Lock()
	if len(t.waiting) == 0 && t.fits(owner, alone) {
		t.take(owner, alone)
		t.mu.Unlock()
		return t.leave, nil
	}
	w := &turn{owner, alone, make(chan struct{})}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.begun:
		return t.leave, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		t.next() // those behind it may fit now
	}
	t.mu.Unlock()
	if i < 0 { // its turn came at the same moment
		t.leave()
	}
	return nil, context.Cause(ctx)
}

func (t *turns) fits(owner Human, alone bool) bool {
	return t.out == 0 || !t.alone && !alone && same(owner, t.owner)
}

func (t *turns) take(owner Human, alone bool) {
	t.owner, t.alone = owner, alone
	t.out++
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out--; t.out == 0 {
		t.owner = nil
	}
	t.next()
}

// next begins those that wait, as far as they fit.
func (t *turns) next() {
	for len(t.waiting) > 0 && t.fits(t.waiting[0].owner, t.waiting[0].alone) {
		w := t.waiting[0]
		t.waiting = append(t.waiting[:0:0], t.waiting[1:]...)
		t.take(w.owner, w.alone)
		close(w.begun)
	}
}
