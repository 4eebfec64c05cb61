//go:build linux

package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/store"
)

// trial is one job on two workers, and one fault.
type trial struct {
	*world
	ctx  context.Context
	kind string
}

const jobID = "j1"

// row is a fault of the matrix: of these kinds of jobs, or of all in general.
type row struct {
	kinds []string
	do    func(c *trial)
	tell  func(o *orders) // what the workers are told besides
}

// general are the kinds of jobs that a row without kinds of its own has.
var general = []string{"calls", "approval", "form", "old form", "limit", "team"}

// patient is of workers whose model may hang without that being an outage yet.
func patient(o *orders) { o.FirstByte = 20 * time.Second }

// rows are the faults of workers.
func rows() map[string]row {
	all := map[string]row{
		"killed twice, with progress between":      {do: func(c *trial) { c.killWithProgress(2) }},
		"killed five times, with progress between": {do: func(c *trial) { c.killWithProgress(5) }},
		"killed twice, without progress":           {do: func(c *trial) { c.killWithout(2) }, tell: patient},
		"killed five times, without progress":      {do: func(c *trial) { c.killWithout(5) }, tell: patient},
		"killed more often than MaxLosses": {do: func(c *trial) { c.killWithout(4) }, tell: func(o *orders) {
			patient(o)
			o.MaxLosses = 2
		}},
		"the model is away for longer than GiveUp": {do: func(c *trial) {
			c.until("there is progress", func() bool { return c.progress() > 0 })
			c.silent(agent.KindJob)
			c.must(c.model.fail("503"))
			c.until("a person is asked", func() bool {
				asks, err := c.s.Asks(c.ctx, store.AskQuery{Status: store.AskPending})
				return err == nil && slices.ContainsFunc(asks, func(a store.Ask) bool { return a.Kind == agent.KindJob })
			})
			c.must(c.model.fail(""))
			c.silent("")
		}, tell: func(o *orders) { o.GiveUp = lease }},
		"stands still past the lease": {do: func(c *trial) {
			c.until("there is progress", func() bool { return c.progress() > 0 })
			p := c.hold()
			c.must(c.still(p))
			sleep(c.ctx, 2*lease)
			c.must(c.fleet.signal(p, syscall.SIGCONT))
		}},
		"the store is locked past the lease": {do: func(c *trial) {
			c.until("there is progress", func() bool { return c.progress() > 0 })
			over, err := c.lock(c.ctx)
			c.must(err)
			sleep(c.ctx, 2*lease)
			c.must(over())
		}},
		"the disk is full past the lease": {do: func(c *trial) {
			c.until("there is progress", func() bool { return c.progress() > 0 })
			c.hold()
			for _, name := range []string{"w0", "w1"} {
				lift, err := full(c.fleet.get(name))
				c.must(err)
				defer func() { c.must(lift()) }()
			}
			sleep(c.ctx, 2*lease)
		}},
		"SIGTERM, twice": {do: func(c *trial) {
			for n := range 2 {
				c.until("there is progress", func() bool { return c.progress() > n })
				p := c.hold()
				c.must(c.fleet.term(p))
				c.start(p.name)
			}
		}},
		"answers while no worker is up": {kinds: []string{"approval", "form", "limit"}, do: func(c *trial) {
			c.away(true)
			c.until("a question is open", func() bool { return c.pending() > 0 })
			c.must(c.fleet.kill(c.fleet.get("w0")))
			c.must(c.fleet.kill(c.fleet.get("w1")))
			c.away(false)
			c.until("all are answered", func() bool { return c.pending() == 0 })
			c.start("w0")
			c.start("w1")
		}},
		"an answer wakes a worker that gave up": {kinds: []string{"approval"}, do: (*trial).wakeAfterGivingUp},
		"a person goes on with a parked run":    {kinds: []string{"approval", "limit"}, do: (*trial).personGoesOn},
		"retried, and killed meanwhile": {kinds: []string{"mended"}, do: func(c *trial) {
			c.until("it was retried", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.retry[jobID] > 0 })
			c.kill()
		}},
		"cancelled, and killed meanwhile": {kinds: []string{"cancelled"}, do: func(c *trial) {
			c.until("it was cancelled", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return !c.cancel[jobID].IsZero() })
			c.kill()
		}},
	}
	for _, mode := range modes {
		all["the model is away for longer than all attempts: "+mode] = row{do: func(c *trial) {
			c.until("there is progress", func() bool { return c.progress() > 0 })
			c.must(c.model.fail(mode))
			sleep(c.ctx, 5*lease)
			c.must(c.model.fail(""))
		}}
	}
	return all
}

// whole is set by make kill-matrix; else the tests try a few cases.
var whole = os.Getenv("KILL_MATRIX") == "whole"

// TestKillMatrixWorkers: whatever happens to two workers, their store and their model, a job ends by its run's own
// outcome, once, with each effect once.
func TestKillMatrixWorkers(t *testing.T) {
	t.Parallel()
	seed := seedOfCommit(t)
	var wg sync.WaitGroup
	places := make(chan struct{}, setting("CHAOS_SIDE_BY_SIDE", 8))
	all, n := rows(), 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		if r.kinds == nil {
			r.kinds = general
		}
		for _, kind := range r.kinds {
			if n++; !whole && (uint64(n)+seed)%12 != 0 {
				continue
			}
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				t.Run(fmt.Sprintf("%s, %s", name, kind), func(t *testing.T) { try(t, r, kind, seed) })
			})
		}
	}
	wg.Wait()
}

// try has one fault.
func try(t *testing.T, r row, kind string, seed uint64) {
	w := newWorld(t, seed)
	if kind == "mended" {
		w.program = peers.RequireTroupe(t) // which may have to be built: that takes its time on a machine with other work
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if r.tell != nil {
		r.tell(&w.fleet.orders)
	}
	for _, name := range []string{"w0", "w1"} {
		<-w.start(name).ready
	}
	var person sync.WaitGroup
	answers, leave := context.WithCancel(ctx)
	person.Go(func() { w.person(answers) })
	defer person.Wait()
	defer leave()
	w.add(ctx, jobID, kind)
	r.do(&trial{world: w, ctx: ctx, kind: kind})
	w.end(ctx, &person, leave)
}

// job is the job's row.
func (c *trial) job() (j store.Job) {
	c.t.Helper()
	c.must(stubborn(c.ctx, func() (err error) {
		j, err = c.s.Job(c.ctx, jobID)
		return err
	}))
	return j
}

// until waits until that is so, or the job has ended.
func (c *trial) until(what string, is func() bool) {
	c.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); sleep(c.ctx, 10*time.Millisecond) {
		if j := c.job(); j.State.Ended() && c.kind != "mended" {
			c.t.Logf("the job is %s before %s", j.State, what)
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("not within a minute: %s; the job is %+v", what, c.job().Brief())
		}
	}
}

// entries are those of all runs of the job.
func (c *trial) entries() (all []runlog.Entry) {
	j := c.job()
	for n := 1; n <= j.Attempts; n++ {
		_, entries, err := tree(c.ctx, c.s, j.RunID(n))
		if err != nil {
			continue // it was not begun
		}
		for _, e := range entries {
			all = append(all, e...)
		}
	}
	return all
}

// progress counts what cannot be lost any more.
func (c *trial) progress() (n int) {
	for _, e := range c.entries() {
		switch e.Type {
		case store.ModelResult, store.ToolResult, store.AskSettled:
			n++
		}
	}
	return n
}

// pending counts the open questions.
func (c *trial) pending() int {
	asks, err := c.s.Asks(c.ctx, store.AskQuery{Status: store.AskPending})
	c.must(err)
	return len(asks)
}

// hold is the worker that holds the job, once one does; where the job has ended, any.
func (c *trial) hold() *process {
	c.t.Helper()
	p := c.fleet.get("w0")
	c.until("a worker has the job", func() bool {
		name, _, _ := strings.Cut(c.job().Owner, "-")
		if it := c.fleet.get(name); it != nil {
			p = it
			return true
		}
		return false
	})
	return p
}

// kill kills the worker that holds the job, and starts it again.
func (c *trial) kill() {
	c.t.Helper()
	p := c.hold()
	c.must(c.fleet.kill(p))
	c.start(p.name)
}

func (c *trial) killWithProgress(times int) {
	last := 0
	for range times {
		c.until("there is progress", func() bool { return c.progress() > last })
		last = c.progress()
		c.kill()
	}
}

// killWithout kills worker after worker while the model thinks for ever.
func (c *trial) killWithout(times int) {
	c.until("there is progress", func() bool { return c.progress() > 0 })
	c.must(c.model.fail("hangs"))
	for range times {
		var epoch int64
		c.until("the model is asked", func() bool {
			j := c.job()
			epoch = j.Epoch
			if j.Owner == "" || j.Run == "" {
				return false
			}
			_, runs, err := tree(c.ctx, c.s, j.Run)
			for _, entries := range runs {
				if phase(entries) == asked {
					return err == nil
				}
			}
			return false
		})
		c.kill()
		c.until("a worker has claimed it", func() bool { return c.job().Epoch > epoch })
	}
	c.must(c.model.fail(""))
}

// wakeAfterGivingUp: w0 gives the run up, since the store is locked until its lease is over; w1 goes on with it and
// parks it at a question; w1 is gone; the answer wakes w0.
func (c *trial) wakeAfterGivingUp() {
	c.until("a call is under way", func() bool { j := c.job(); return j.Owner != "" && moment(c.ctx, c.s, j) == sent })
	c.away(true)
	first := c.hold()
	other := c.fleet.get(map[string]string{"w0": "w1", "w1": "w0"}[first.name])
	c.must(c.still(other))
	over, err := c.lock(c.ctx)
	c.must(err)
	sleep(c.ctx, 4*lease)
	c.must(c.fleet.signal(first, syscall.SIGSTOP))
	c.must(over())
	c.must(c.fleet.signal(other, syscall.SIGCONT))
	c.until("the other worker has had it", func() bool {
		all, err := c.changes(c.ctx)
		return err == nil && slices.ContainsFunc(all, func(ch change) bool { return ch.what == "claim" && strings.HasPrefix(ch.own, other.name+"-") })
	})
	c.until("it is parked", func() bool { return c.job().Owner == "" })
	c.must(c.fleet.signal(first, syscall.SIGCONT))
	c.must(c.fleet.term(other))
	c.away(false)
}

// personGoesOn: a person takes a parked run of a job up in a program of theirs, while both workers live.
func (c *trial) personGoesOn() {
	c.away(true)
	c.until("it is parked", func() bool { return c.pending() > 0 && c.job().Owner == "" })
	p, err := c.fleet.start("person", c.job().Run)
	c.must(err)
	<-p.ready
	c.away(false)
	<-p.ended
}
