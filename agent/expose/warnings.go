package expose

import (
	"log/slog"
	"sync"
)

// maxWarned bounds how many things of one server are warned of.
const maxWarned = 100

// warned keeps what was warned of, so that each is said once: a list is read again and
// again, for each client.
type warned struct {
	mu       sync.Mutex
	byServer map[string]map[warning]struct{}
}

type warning struct{ kind, name, what, why string }

// first reports whether a warning about a server is to be logged; last, that it is the last
// one about that server.
func (w *warned) first(server string, one warning) (first, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byServer[server]
	if _, again := all[one]; again || len(all) >= maxWarned {
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
	return true, len(all) == maxWarned
}

// warn logs that something of a server does not go to clients as it is.
func (g *gateway) warn(kind string, t target, what string, why error) {
	first, last := g.up.front.warned.first(t.server, warning{kind, shorten(t.own), what, why.Error()})
	if !first {
		return
	}
	attrs := []any{slog.String("kind", kind), slog.String("server", t.server), slog.String("name", shorten(t.own)), slog.Any("error", why)}
	if last {
		attrs = append(attrs, slog.String("note", "more about this server is not logged"))
	}
	g.log.Warn(what, attrs...)
}
