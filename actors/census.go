package actors

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Count is what the census knows of one kind of actor.
type Count struct {
	Live      int64 // started and not yet stopped
	Spawned   int64 // since the system began
	Failed    int64 // panics
	Restarted int64
}

// Census is a count of everything alive.
type Census struct {
	Actors  map[Kind]Count // kinds that were never started are left out
	Tasks   map[string]int // by owner: running, or waiting by [System.WhenReadable]
	Dropped int64          // messages to actors that had stopped
}

// Live returns how many actors of the kinds are alive; of all kinds but the
// runtime itself if none is named.
func (c Census) Live(kinds ...Kind) int {
	var n int64
	for kind, count := range c.Actors {
		if slices.Contains(kinds, kind) || (len(kinds) == 0 && kind != KindRuntime) {
			n += count.Live
		}
	}
	return int(n)
}

// Info describes a live actor of the tree. Actors on the inline mailbox are
// only counted.
type Info struct {
	Path      string
	Kind      Kind
	Started   time.Time
	Restarts  int
	LastError error // the newest failure, nil if there was none
}

type counters struct{ live, spawned, failed, restarted atomic.Int64 }

type census struct {
	kinds   [numKinds]counters
	dropped atomic.Int64

	mu   sync.Mutex
	tree map[*process]struct{} // the pooled ones
}

func (c *census) of(k Kind) *counters { return &c.kinds[k] }

func (c *census) add(p *process) {
	counts := c.of(p.kind)
	counts.live.Add(1)
	counts.spawned.Add(1)
	if p.inline {
		return
	}
	p.started = time.Now().UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree[p] = struct{}{}
}

func (c *census) remove(p *process) {
	p.gone.Store(true)
	c.of(p.kind).live.Add(-1)
	if p.inline {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tree, p)
}

// Census counts what is alive. It may be called at any time.
func (s *System) Census() Census {
	out := Census{Actors: make(map[Kind]Count), Tasks: s.tasks.running(), Dropped: s.census.dropped.Load()}
	for i := range s.census.kinds {
		c := &s.census.kinds[i]
		if n := c.spawned.Load(); n > 0 {
			out.Actors[Kind(i)] = Count{Live: c.live.Load(), Spawned: n, Failed: c.failed.Load(), Restarted: c.restarted.Load()}
		}
	}
	return out
}

// Tree lists the live actors, by path.
func (s *System) Tree() []Info {
	s.census.mu.Lock()
	live := slices.Collect(maps.Keys(s.census.tree))
	s.census.mu.Unlock()
	out := make([]Info, 0, len(live))
	for _, p := range live {
		out = append(out, Info{Path: p.path(), Kind: p.kind, Started: time.Unix(0, p.started), Restarts: int(p.restarts.Load()), LastError: p.failure()})
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// tasks counts the running ones by owner, a text or a process, and tells when
// there are none.
type tasks struct {
	mu    sync.Mutex
	of    map[any]int
	total int
	none  chan struct{} // made by the first that waits
}

func (t *tasks) begin(owner any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[any]int)
	}
	t.of[owner]++
	t.total++
}

func (t *tasks) end(owner any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.of[owner]; n > 1 {
		t.of[owner] = n - 1
	} else {
		delete(t.of, owner)
	}
	if t.total--; t.total == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

func (t *tasks) running() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string]int, len(t.of))
	for owner, n := range t.of {
		out[ownerName(owner)] += n
	}
	return out
}

// idle returns a channel that is closed when no task runs.
func (t *tasks) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.total == 0 {
		return closed
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	return t.none
}
