package run

import (
	"context"
	"errors"
	"sync"
)

// openQuestions are the questions of a run that are on the terminal, or are to come there: each has a goroutine, as the
// view goes on with the events of the run meanwhile. So a question that is decided elsewhere, or whose run
// ends, goes away.
type openQuestions struct {
	tasks sync.WaitGroup // one for each
	last  chan struct{}  // closed once the newest of those is over that are put one after the other; nil before the first

	mu    sync.Mutex                         // of shown
	shown map[string]context.CancelCauseFunc // by the id of the ask

	display sync.Mutex // of the fields below, and of the terminal where no question is on it
	busy    int        // how many of those that are put are not over
	held    []func()   // what is shown once they are; the limits of the run bound how much happens meanwhile
}

// begin calls show on a goroutine of its own, with a ctx that ends with the question.
func (p *openQuestions) begin(ctx context.Context, ask string, show func(context.Context)) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	if p.shown == nil {
		p.shown = make(map[string]context.CancelCauseFunc)
	}
	p.shown[ask] = cancel
	p.mu.Unlock()
	p.tasks.Go(func() {
		defer p.end(ask, nil)
		show(ctx)
	})
}

// put is begin for a question that is put to a person once all before it are over, unless it has ended by then. One
// goroutine calls it.
func (p *openQuestions) put(ctx context.Context, ask string, show func(context.Context)) {
	before, over := p.last, make(chan struct{})
	p.last = over
	p.display.Lock()
	p.busy++
	p.display.Unlock()
	p.begin(ctx, ask, func(ctx context.Context) {
		defer p.over(over)
		if before != nil {
			<-before // it ends with its answer, or with its ctx
		}
		if ctx.Err() == nil {
			show(ctx)
		}
	})
}

// over ends a question that was put, and shows what was held back for those, if it was the last.
func (p *openQuestions) over(over chan struct{}) {
	close(over)
	p.display.Lock()
	defer p.display.Unlock()
	if p.busy--; p.busy > 0 {
		return
	}
	for _, show := range p.held {
		show()
	}
	p.held = nil
}

// after calls show, but not over a question that a person reads: then it is called after it. What is passing is left out.
func (p *openQuestions) after(passing bool, show func()) {
	p.display.Lock()
	defer p.display.Unlock()
	switch {
	case p.busy == 0:
		show()
	case !passing:
		p.held = append(p.held, show)
	}
}

// end ends a question. The cause is what its reader is told.
func (p *openQuestions) end(ask string, cause error) {
	p.mu.Lock()
	cancel := p.shown[ask]
	delete(p.shown, ask)
	p.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
}

// cancelAll ends all of them.
func (p *openQuestions) cancelAll(cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.shown {
		cancel(cause)
	}
}

// errRunOver is why the questions end of a run that has.
var errRunOver = errors.New("the run is over")

// endAll ends all of them, and waits until the terminal is free.
func (p *openQuestions) endAll() {
	p.cancelAll(errRunOver)
	p.tasks.Wait()
}

// any reports whether a question is on the terminal, or is to come there.
func (p *openQuestions) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.shown) > 0
}
