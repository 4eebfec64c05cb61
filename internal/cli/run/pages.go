package run

import (
	"context"
	"errors"
	"sync"
)

// openPages are the pages that a view shows while its run goes on: what happens in the
// run may complete them.
type openPages struct {
	mu    sync.Mutex
	shown map[string]context.CancelCauseFunc // by the id of the ask
	tasks sync.WaitGroup                     // one for each
}

// errPageOver ends that a page is shown.
var errPageOver = errors.New("the page is not waited for any more")

// begin calls show on a goroutine of its own, with a ctx that ends with the page.
func (p *openPages) begin(ctx context.Context, ask string, show func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	if p.shown == nil {
		p.shown = make(map[string]context.CancelCauseFunc)
	}
	p.shown[ask] = cancel
	p.mu.Unlock()
	p.tasks.Go(func() {
		defer p.end(ask)
		show(ctx)
	})
}

func (p *openPages) end(ask string) {
	p.mu.Lock()
	cancel := p.shown[ask]
	delete(p.shown, ask)
	p.mu.Unlock()
	if cancel != nil {
		cancel(errPageOver)
	}
}

// endAll ends all of them, and waits until the terminal is free.
func (p *openPages) endAll() {
	p.mu.Lock()
	for _, cancel := range p.shown {
		cancel(errPageOver)
	}
	p.mu.Unlock()
	p.tasks.Wait()
}

func (p *openPages) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.shown) > 0
}
