package gateway

import (
	"sync"
	"sync/atomic"
)

// maxWarnings bounds the warnings about one backend.
const maxWarnings = 100

// Warnings are the warnings about backends that a front has logged. Each is logged once,
// though lists are read again and again, for each client. The zero value is empty.
type Warnings struct {
	logged sync.Map // of about
	counts sync.Map // of *atomic.Int32, by server
}

type warning struct{ kind, name, what, why string }

// about is a warning about a backend.
type about struct {
	server string
	warning
}

// add reports whether a warning is to be logged; last, whether it is the last one about that
// backend.
func (w *Warnings) add(server string, one warning) (first, last bool) {
	count, _ := w.counts.LoadOrStore(server, new(atomic.Int32))
	n := count.(*atomic.Int32)
	if n.Load() >= maxWarnings {
		return false, false
	}
	if _, again := w.logged.LoadOrStore(about{server, one}, nil); again {
		return false, false
	}
	return true, n.Add(1) == maxWarnings
}
