package env

import (
	"context"
	"sync"
)

// interrupts lets a command take SIGINT for itself: in a conversation the first one ends
// a turn, and not the program.
type interrupts struct {
	mu   sync.Mutex
	take func() bool // reports whether it has taken one; nil takes none
}

type interruptsKey struct{}

// InterruptsOf are those of the program; nil in a context that is not its own.
func InterruptsOf(ctx context.Context) *interrupts {
	in, _ := ctx.Value(interruptsKey{}).(*interrupts)
	return in
}

// Set lets take decide until the returned function is called.
func (in *interrupts) Set(take func() bool) (release func()) {
	if in == nil {
		return func() {}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.take = take
	return func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.take = nil
	}
}

// taken offers one.
func (in *interrupts) taken() bool {
	in.mu.Lock()
	take := in.take
	in.mu.Unlock()
	return take != nil && take()
}
