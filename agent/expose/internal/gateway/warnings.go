package gateway

import (
	"log/slog"
	"sync"
)

// maxWarnings bounds the warnings about one backend.
const maxWarnings = 100

// Warnings are the warnings about backends that a front has logged. Each is logged once,
// though lists are read again and again, for each client. The zero value is empty.
type Warnings struct {
	mu       sync.Mutex // guards byServer, which tasks of all gateways of a front use in passing
	byServer map[string]map[warning]struct{}
}

type warning struct{ kind, name, what, why string }

// add reports whether a warning is to be logged; last, whether it is the last one about that
// backend.
func (w *Warnings) add(server string, one warning) (first, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byServer[server]
	if _, again := all[one]; again || len(all) >= maxWarnings {
		return false, false
	}
	if all == nil {
		all = make(map[warning]struct{})
		if w.byServer == nil {
			w.byServer = make(map[string]map[warning]struct{})
		}
		w.byServer[server] = all
	}
	all[one] = struct{}{}
	return true, len(all) == maxWarnings
}

// warn logs that clients get an item of a backend changed, or not at all.
func (g *Gateway) warn(kind string, t target, what string, why error) {
	first, last := g.Warnings.add(t.server, warning{kind, shorten(t.own), what, why.Error()})
	if !first {
		return
	}
	attrs := []any{slog.String("kind", kind), slog.String("server", t.server), slog.String("name", shorten(t.own)), slog.Any("error", why)}
	if last {
		attrs = append(attrs, slog.String("note", "more about this server is not logged"))
	}
	g.Log.Warn(what, attrs...)
}

// shorten makes a foreign text fit for a log.
func shorten(s string) string { return s[:min(len(s), 200)] }
