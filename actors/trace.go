package actors

import (
	"fmt"
	"strings"
	"sync"
)

// TraceEvent is one message about to be handled.
type TraceEvent struct {
	Actor   Ref
	Message any
}

// Tracer records messages in the order in which they are handled, for tests:
// its Record is an [Options].Trace.
type Tracer struct {
	// Keep chooses what is recorded. Nil keeps all.
	Keep func(TraceEvent) bool

	mu     sync.Mutex
	events []TraceEvent
}

// maxTrace bounds what a Tracer keeps.
const maxTrace = 100_000

// Record adds an event; after a hundred thousand it adds no more.
func (t *Tracer) Record(ev TraceEvent) {
	if t.Keep != nil && !t.Keep(ev) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) < maxTrace {
		t.events = append(t.events, ev)
	}
}

// Lines returns what was recorded, each as "kind message-type".
func (t *Tracer) Lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]string, len(t.events))
	for i, ev := range t.events {
		name := fmt.Sprintf("%T", ev.Message)
		if i := strings.IndexByte(name, '['); i > 0 {
			name = name[:i] // without type parameters
		}
		out[i] = ev.Actor.Kind().String() + " " + name[strings.LastIndexByte(name, '.')+1:]
	}
	return out
}
