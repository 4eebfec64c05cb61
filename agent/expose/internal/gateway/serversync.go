// serversync.go: the task that reads one backend's lists.
//
//	             news                 none is left
//	(no task) ─────────▶ reading ──────────────────▶ (no task)
//	                      │   ▲
//	              a list failed│ or more news
//	                      ▼   │
//	                     resting

package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// Times of a gateway.
const (
	listTimeout = 30 * time.Second       // for the lists of one backend, as a host has it
	relistPause = 200 * time.Millisecond // between two readings of one backend's lists
	// A backend that changes long lists all the time gets a share of a processor, not all of
	// it (SECA-9): it rests so many times as long as registering its lists took.
	offerShare   = 8
	maxOfferRest = 5 * time.Second
)

// relistDelays are the delays after which the failed lists of a connected backend are read
// again. After the last, the backend has to notify of a change.
var relistDelays = []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}

// news are the parts of a backend that have to be read or set again.
type news uint8

const (
	newTools news = 1 << iota
	newResources
	newTemplates
	newPrompts
	newLevel // of log messages
	newWatch // subscriptions, which may have to move

	newLists = newTools | newResources | newTemplates | newPrompts
)

func newsOf(tools, resources, prompts bool) (n news) {
	if tools {
		n |= newTools
	}
	if resources {
		n |= newResources | newTemplates
	}
	if prompts {
		n |= newPrompts
	}
	return n
}

// serverSync is a gateway's row for one backend.
type serverSync struct {
	g      *Gateway
	server string
	ctx    context.Context // ends with the gateway, or its pause
	wake   chan struct{}   // has room for one: there is news
	first  chan struct{}   // closed when the lists were read once, or could not be

	// Guarded by the lock of the gateway, whose row this is.
	news       news
	busy       bool   // a task reads the lists
	listed     bool   // first is closed
	generation uint64 // of the connection that the lists are of
	failures   int    // of reading, in a row
	announced  news   // lists of whose changes the backend notifies
}

// notify adds news of a backend, and starts its task if it does not run.
func (g *Gateway) notify(server string, n news) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.backends[server]
	if s == nil || n == 0 || s.ctx.Err() != nil {
		return
	}
	s.news |= n
	select {
	case s.wake <- struct{}{}:
	default:
	}
	if !s.busy {
		s.busy = true
		g.System.Go("gateway "+server, s.sync)
	}
}

// sync works off the news of a backend until there is none.
func (s *serverSync) sync() {
	defer s.markListed()
	var pause, least time.Duration
	for s.rest(pause, least) {
		n := s.takeNews()
		if n == 0 {
			return
		}
		failed := s.read(n & newLists)
		began := time.Now()
		s.g.offer()
		least = min(offerShare*time.Since(began), maxOfferRest)
		s.markListed()
		if n&newLevel != 0 {
			s.g.setWantedLevel(s.ctx, s.server)
		}
		if n&(newWatch|newResources|newTemplates) != 0 {
			s.g.checkWatches()
		}
		pause = s.delay(failed)
	}
}

// takeNews returns the news of a backend. If there is none its task is over.
func (s *serverSync) takeNews() news {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	n := s.news
	s.news = 0
	if n == 0 {
		s.busy = false
	}
	return n
}

// rest waits between two readings, for least at least: a burst of news is read at once. It
// reports whether the gateway goes on.
func (s *serverSync) rest(pause, least time.Duration) bool {
	if pause > relistPause { // after a failure, news is a reason to try earlier
		retry := time.NewTimer(pause)
		defer retry.Stop()
		select {
		case <-retry.C:
		case <-s.wake:
		case <-s.ctx.Done():
		}
		pause = relistPause
	}
	if pause = max(pause, least); pause > 0 {
		next := time.NewTimer(pause)
		defer next.Stop()
		select {
		case <-next.C:
		case <-s.ctx.Done():
		}
	}
	select {
	case <-s.wake:
	default:
	}
	return s.ctx.Err() == nil
}

// delay returns when to read a backend again, and makes failed lists news. A backend that is
// not connected is read when it is.
func (s *serverSync) delay(failed news) time.Duration {
	ready := false
	if c, err := s.g.backend(s.server); err == nil {
		ready = c.Status().State == conn.Ready
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if failed == 0 {
		s.failures = 0
		return relistPause
	}
	if !ready || s.failures >= len(relistDelays) {
		return relistPause
	}
	s.news |= failed
	s.failures++
	return relistDelays[s.failures-1]
}

// markListed notes that the lists of a backend were read, or could not be.
func (s *serverSync) markListed() {
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	if !s.listed {
		s.listed = true
		close(s.first)
	}
}

// read reads lists of a backend and returns those that failed: their last contents stay.
func (s *serverSync) read(n news) (failed news) {
	if n == 0 {
		return 0
	}
	c, err := s.g.backend(s.server)
	if err != nil {
		return n
	}
	ctx, cancel := context.WithTimeout(s.ctx, max(listTimeout, s.g.ListWait))
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		if s.ctx.Err() == nil {
			s.g.Log.Warn("a server cannot be reached; its last lists stay", "server", s.server, "error", err)
		}
		return n
	}
	generation := c.Status().Generation // before the lists: reading once too often does no harm
	s.g.mu.Lock()
	if s.generation != generation {
		s.generation, s.announced = generation, 0
	}
	s.g.mu.Unlock()
	l := &s.g.lists
	l.setCompletes(s.server, info.Capabilities.Completions != nil || !info.Version.Has(mcp.FeatureCompletions))
	for _, list := range []struct {
		kind news
		read func() error
	}{
		{newTools, func() error { return fill(ctx, s.g, &l.tools, s.server, c.ListTools) }},
		{newResources, func() error { return fill(ctx, s.g, &l.resources, s.server, c.ListResources) }},
		{newTemplates, func() error { return fill(ctx, s.g, &l.templates, s.server, c.ListResourceTemplates) }},
		{newPrompts, func() error { return fill(ctx, s.g, &l.prompts, s.server, c.ListPrompts) }},
	} {
		if n&list.kind == 0 {
			continue
		}
		if err := list.read(); err != nil {
			failed |= list.kind
			if s.ctx.Err() == nil {
				s.g.Log.Warn("a list of a server cannot be read; its last contents stay", "server", s.server, "error", err)
			}
		}
	}
	return failed
}

// fill reads a list of a backend.
func fill[D any](ctx context.Context, g *Gateway, s *items[D], server string, read func(context.Context) ([]D, error)) error {
	items, err := read(ctx)
	if errors.Is(err, mcp.ErrMethodNotFound) {
		g.warn("list", target{server: server}, "a server does not know a list that it declares; the list counts as empty", err)
		items, err = nil, nil
	}
	if err == nil {
		g.lists.put(func() { s.last[server] = items })
	}
	return err
}
