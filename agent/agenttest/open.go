package agenttest

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// closeTime bounds the end of the servers.
const closeTime = 10 * time.Second

// Options are the surroundings of a test's agents; nil is the same as the zero value.
type Options struct {
	// Model is the runtime's, [llmtest.Script] as a rule. Nil is a script without turns:
	// asking it is an error of the run.
	Model llm.Model
	// Servers are the runtime's, in the process of the test. Each may be used by one
	// runtime at a time.
	Servers []*FakeServer
	// Human answers the questions of runs and servers. Nil answers none: each question
	// fails the test.
	Human *FakeHuman
	// Runtime is everything else. Its Servers come before those above, its Model and its
	// OnAsk count where Model and Human are nil.
	Runtime agent.Options
}

// Open opens a runtime that is closed when the test ends, before the test's earlier
// cleanups. The test fails if it does not close in time, or leaves anything.
func Open(t testing.TB, opts *Options) *agent.Runtime {
	t.Helper()
	rt, err := agent.Open(t.Context(), opts.Agent(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Errorf("closing the runtime: %v", err)
		}
		leftOf(t, "the runtime", rt.System())
	})
	return rt
}

// Agent returns the options of [Open]'s runtime, for programs that open one themselves. The
// servers end with the test, which has to close the runtime before that.
func (o *Options) Agent(t testing.TB) *agent.Options {
	t.Helper()
	d := *cmp.Or(o, new(Options))
	a := d.Runtime
	if d.Model != nil {
		a.Model = d.Model
	}
	if a.Model == nil {
		a.Model = llmtest.Script()
	}
	if d.Human == nil && a.OnAsk == nil {
		d.Human = Human()
	}
	if d.Human != nil {
		d.Human.start(t)
		a.OnAsk = d.Human.OnAsk
		a.Host = unprompted(a.Host, d.Human)
	}
	a.Servers = slices.Concat(a.Servers, start(t, d.Servers))
	return &a
}

// unprompted has the human answer the questions of servers outside of all calls, too.
func unprompted(o *mcpclient.HostOptions, h *FakeHuman) *mcpclient.HostOptions {
	host := *cmp.Or(o, new(mcpclient.HostOptions))
	if host.Human == nil {
		host.Human = h
	}
	return &host
}

// start starts the servers, in a system of their own.
func start(t testing.TB, fakes []*FakeServer) []mcpclient.Server {
	t.Helper()
	if len(fakes) == 0 {
		return nil
	}
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, f := range fakes {
			if err := f.stop(); err != nil {
				t.Errorf("closing the server %s: %v", f.name, err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("closing the servers: %v", err)
		}
		leftOf(t, "the servers", sys)
	})
	servers := make([]mcpclient.Server, len(fakes))
	for i, f := range fakes {
		if servers[i], err = f.start(sys); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

// leftOf fails the test if something of a system that was shut down is alive.
func leftOf(t testing.TB, what string, sys *actors.System) {
	t.Helper()
	census := sys.Census()
	for kind, count := range census.Actors {
		if count.Live > 0 {
			t.Errorf("%s left %d actors of the kind %s", what, count.Live, kind)
		}
	}
	for owner, n := range census.Tasks {
		if n > 0 {
			t.Errorf("%s left %d goroutines of %s", what, n, owner)
		}
	}
}

// Bubble runs f in a bubble of package testing/synctest, where time is virtual: it stands
// still while anything happens, and jumps to the next timer when all wait. [Open] inside of
// f; the runtime then has to be closed by the end of f, which it is.
//
// Scripted models, servers and humans, functions of the program and the store in memory
// work inside. Waits for the world outside do not: the test hangs or fails with real
// connections, other processes, SQLite.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
