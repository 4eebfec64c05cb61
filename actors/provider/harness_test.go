package provider_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// byActor is a rate that makes no request wait: there is an actor for each of them, also for
// one that finds a place free.
const byActor = 1 << 20

var errLeft = errors.New("enough")

// newSystem returns a system that is shut down, with nothing left, when the test ends.
func newSystem(t testing.TB, opts *actors.Options) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if n := sys.Census().Live(); n != 0 {
			t.Errorf("actors left: %+v", sys.Census().Actors)
		}
		time.Sleep(time.Second) // virtual: what is asleep in the bubble ends
	})
	return sys
}

// bench is a group with what the test needs to reach its actors.
type bench struct {
	*provider.Group
	sys *actors.System

	tracer actors.Tracer

	mu   sync.Mutex
	refs map[actors.Kind][]actors.Ref
	fail func(actors.TraceEvent) // called before each message; may panic
}

// newBench opens a group whose providers have the options.
func newBench(t testing.TB, opts provider.Options) *bench {
	t.Helper()
	return newBenchWith(t, &provider.GroupOptions{Providers: map[string]provider.Options{"": opts}})
}

// newBenchWith opens a group with options of its own.
func newBenchWith(t testing.TB, opts *provider.GroupOptions) *bench {
	t.Helper()
	b := &bench{refs: make(map[actors.Kind][]actors.Ref)}
	b.sys = newSystem(t, &actors.Options{Trace: b.trace})
	g, err := provider.Open(b.sys, opts)
	if err != nil {
		t.Fatal(err)
	}
	b.Group = g
	return b
}

func (b *bench) trace(ev actors.TraceEvent) {
	b.tracer.Record(ev)
	b.mu.Lock()
	if _, ok := ev.Message.(actors.Started); ok {
		b.refs[ev.Actor.Kind()] = append(b.refs[ev.Actor.Kind()], ev.Actor)
	}
	fail := b.fail
	b.mu.Unlock()
	if fail != nil {
		fail(ev)
	}
}

// newest returns the newest actor of a kind.
func (b *bench) newest(kind actors.Kind) actors.Ref {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.refs[kind]); n > 0 {
		return b.refs[kind][n-1]
	}
	return actors.Ref{}
}

func (b *bench) live(kind actors.Kind) int { return b.sys.Census().Live(kind) }

// state returns what the provider of the scripted models does.
func (b *bench) state() provider.State { return b.Provider("llmtest").State() }

// quiet fails unless nothing goes on any more.
func (b *bench) quiet(t *testing.T) {
	t.Helper()
	synctest.Wait()
	if s := b.state(); s.InFlight != 0 || s.Waiting != 0 {
		t.Errorf("afterwards: got %+v, want nothing out and nothing waiting", s)
	}
	if n := b.live(actors.KindCompletion); n != 0 {
		t.Errorf("afterwards: %d completions are left", n)
	}
}

// works fails unless the next request is answered.
func (b *bench) works(t *testing.T) {
	t.Helper()
	resp, err := llm.Generate(t.Context(), b.Model(llmtest.Script(llmtest.Say("ok"))), hello())
	if err != nil || resp.Text() != "ok" {
		t.Errorf("the next request: got %v, %v, want ok", resp, err)
	}
	b.quiet(t)
}

// outcome is how a stream that was read to its end has ended.
type outcome struct {
	text   string
	errs   []error
	finish int
}

// read reads a stream; it is what one goroutine of a test does.
func read(ctx context.Context, m llm.Model) (out outcome) {
	for ev, err := range m.Stream(ctx, hello()) {
		switch ev := ev.(type) {
		case llm.TextDelta:
			out.text += ev.Text
		case llm.Finish:
			out.finish++
		}
		if err != nil {
			out.errs = append(out.errs, err)
		}
	}
	return out
}

// once fails unless there was exactly one outcome, and returns its error.
func (o outcome) once(t *testing.T) error {
	t.Helper()
	if o.finish+len(o.errs) != 1 {
		t.Errorf("got %d ends and the errors %v, want one of both", o.finish, o.errs)
	}
	if len(o.errs) > 0 {
		return o.errs[0]
	}
	return nil
}

// bubble runs f in a bubble of virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// hello is a request.
func hello() *llm.Request { return &llm.Request{Messages: []llm.Message{llm.User("hello")}} }

// fake is a model made of a function.
type fake struct {
	name   string
	stream func(ctx context.Context, yield func(llm.Event, error) bool)
}

func (f fake) Name() string { return f.name }

func (f fake) Stream(ctx context.Context, _ *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) { f.stream(ctx, yield) }
}
