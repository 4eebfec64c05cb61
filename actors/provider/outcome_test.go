package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// subject is one request in some state, which a test ends in some way.
type subject struct {
	*bench
	cancel context.CancelCauseFunc
	done   chan struct{}
	out    outcome
	closed chan struct{} // by the model, at the end of a stream that had begun
	free   *llmtest.Gate // lets go of what it waits for
}

// states are what a request may be doing.
var states = map[string]struct {
	opts  provider.Options
	begin func(s *subject) llm.Model // what is asked
}{
	"waiting for a place": {provider.Options{Concurrency: 1}, func(s *subject) llm.Model {
		blocker := s.Model(llmtest.Script(llmtest.Join(llmtest.Hold(s.free), llmtest.Say("ok"))))
		go read(context.Background(), blocker)
		synctest.Wait()
		return llmtest.Script(llmtest.Say("x"))
	}},
	"waiting for the rate": {provider.Options{PerMinute: 1}, func(s *subject) llm.Model {
		read(context.Background(), s.Model(llmtest.Script(llmtest.Say("ok"))))
		return llmtest.Script(llmtest.Say("x"))
	}},
	"waiting for the circuit": {provider.Options{Circuit: provider.Circuit{Failures: 1}}, func(s *subject) llm.Model {
		read(context.Background(), s.Model(llmtest.Script(llmtest.Join(llmtest.Say("a"), down()))))
		return llmtest.Script(llmtest.Say("x"))
	}},
	"before the first event": {provider.Options{PerMinute: byActor}, func(s *subject) llm.Model { return s.streaming(llmtest.Hold(s.free)) }},
	"streaming": {provider.Options{PerMinute: byActor}, func(s *subject) llm.Model {
		return s.streaming(llmtest.Join(llmtest.Say("a"), llmtest.Hold(s.free)))
	}},
	"at once, before the first event": {provider.Options{}, func(s *subject) llm.Model { return s.streaming(llmtest.Hold(s.free)) }},
	"at once, streaming": {provider.Options{}, func(s *subject) llm.Model {
		return s.streaming(llmtest.Join(llmtest.Say("a"), llmtest.Hold(s.free)))
	}},
	"between two attempts": {provider.Options{}, func(s *subject) llm.Model {
		return llmtest.Script(llmtest.Fail(busy(30*time.Second)), llmtest.Say("x"))
	}},
}

// streaming is a model that says when its stream has ended.
func (s *subject) streaming(t llmtest.Turn) llm.Model {
	script := llmtest.Script(t)
	return fake{"llmtest/streaming", func(ctx context.Context, yield func(llm.Event, error) bool) {
		defer close(s.closed)
		for ev, err := range script.Stream(ctx, hello()) {
			if !yield(ev, err) {
				return
			}
		}
	}}
}

// put brings a request into a state.
func put(t *testing.T, state string) *subject {
	t.Helper()
	s := &subject{bench: newBench(t, states[state].opts), done: make(chan struct{}), closed: make(chan struct{}), free: llmtest.NewGate()}
	t.Cleanup(s.free.Open)
	m := s.Model(states[state].begin(s))
	ctx, cancel := context.WithCancelCause(t.Context())
	s.cancel = cancel
	synctest.Wait() // until the provider's actor has started
	go func() {
		defer close(s.done)
		s.out = read(ctx, m)
	}()
	synctest.Wait()
	return s
}

// ended waits for the outcome and fails unless there is exactly one.
func (s *subject) ended(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	select {
	case <-s.done:
	default:
		t.Fatal("there is no outcome")
	}
	return s.out.once(t)
}

// However a request is ended, in whatever state: one outcome, at once, and the next one
// works.
func TestOneOutcome(t *testing.T) {
	ways := map[string]struct {
		end  func(s *subject)
		want error
		shut bool // nothing works afterwards
	}{
		"cancel":               {func(s *subject) { s.cancel(errLeft) }, errLeft, false},
		"kill":                 {func(s *subject) { s.newest(actors.KindCompletion).Stop() }, actors.ErrStopped, false},
		"stop of the provider": {func(s *subject) { s.newest(actors.KindProvider).Stop() }, actors.ErrStopped, false},
		"crash of the provider": {func(s *subject) {
			s.newest(actors.KindProvider).Send(boom{})
		}, errBoom, false},
		"crash of the group": {func(s *subject) { s.newest(actors.KindLLM).Send(boom{}) }, errBoom, false},
		"close":              {func(s *subject) { s.Close() }, provider.ErrClosed, true},
		"shutdown": {func(s *subject) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = s.sys.Shutdown(ctx) // looked at in the cleanup
		}, provider.ErrClosed, true},
	}
	for state := range states {
		for name, way := range ways {
			if name == "kill" && strings.HasPrefix(state, "at once") {
				continue // it has no actor of its own
			}
			t.Run(state+"/"+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := put(t, state)
					s.mu.Lock()
					s.fail = explode
					s.mu.Unlock()
					start := time.Now()
					way.end(s)
					if err := s.ended(t); !errors.Is(err, way.want) {
						t.Errorf("got %v, want %v", err, way.want)
					}
					if took := time.Since(start); took != 0 {
						t.Errorf("the end took %v", took)
					}
					s.free.Open()
					synctest.Wait()
					if !way.shut {
						s.works(t)
					}
				})
			})
		}
	}
}

// boom makes whoever gets it panic.
type boom struct{}

var errBoom = errors.New("boom")

func explode(ev actors.TraceEvent) {
	if _, ok := ev.Message.(boom); ok {
		panic(errBoom)
	}
}

// A reader who leaves frees the place at once and closes the stream; one who panics, too,
// and its panic stays its own.
func TestReaderLeaves(t *testing.T) {
	for i := range 4 {
		panics, rate := i%2 == 1, i/2*byActor
		t.Run(fmt.Sprint(panics, rate), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := &subject{bench: newBench(t, provider.Options{Concurrency: 1, PerMinute: rate}), closed: make(chan struct{}), free: llmtest.NewGate()}
				m := s.Model(s.streaming(llmtest.Say("a", "b", "c")))
				synctest.Wait()
				_, err := actors.Guard(func() (struct{}, error) {
					for range m.Stream(t.Context(), hello()) {
						if panics {
							panic(errBoom)
						}
						break
					}
					return struct{}{}, nil
				})
				if errors.Is(err, errBoom) != panics {
					t.Errorf("the reader's own panic: got %v", err)
				}
				select {
				case <-s.closed:
				default:
					t.Error("the stream is still open")
				}
				s.works(t)
			})
		})
	}
}

// A model that panics is a failure of its completion alone: supervision sees it, its
// reader gets it as an error, and nobody else hears of it.
func TestModelPanics(t *testing.T) {
	for i, when := range []string{"at once", "after an event", "at its end", "at once", "after an event", "at its end"} {
		t.Run(when, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := put(t, []string{"streaming", "at once, streaming"}[i/3]) // another one, which goes on
				m := s.Model(fake{"llmtest/x", func(_ context.Context, yield func(llm.Event, error) bool) {
					switch when {
					case "after an event":
						yield(llm.TextDelta{Text: "a"}, nil)
					case "at its end":
						defer panic(errBoom)
						yield(llm.Finish{}, nil)
						return
					}
					panic(errBoom)
				}})
				out := read(t.Context(), m)
				err := out.once(t)
				if when == "at its end" { // of a turn that is whole
					if err != nil {
						t.Errorf("got %v, want a complete turn", err)
					}
				} else if !errors.Is(err, errBoom) {
					t.Errorf("got %v, want %v", err, errBoom)
				}
				synctest.Wait()
				if n := s.sys.Census().Actors[actors.KindCompletion].Failed; n != 1 {
					t.Errorf("%d completions have failed, want 1", n)
				}
				select {
				case <-s.done:
					t.Errorf("the other request has ended: %+v", s.out)
				default:
				}
				s.free.Open()
				if err := s.ended(t); err != nil {
					t.Errorf("the other request: %v", err)
				}
				s.works(t)
			})
		})
	}
}

// A panic of any actor at any message leads to one outcome for each request it had, and
// the next one works.
func TestPanicAtEveryMessage(t *testing.T) {
	type point struct {
		kind actors.Kind
		msg  string
	}
	// Together the requests come by all messages.
	test := func(name string, opts provider.Options, points []point) {
		for _, p := range points {
			t.Run(fmt.Sprintf("%s/%v/%s", name, p.kind, p.msg), func(t *testing.T) {
				bubble(t, func(t *testing.T) { panicAt(t, opts, p.kind, p.msg) })
			})
		}
	}
	circuit := provider.Circuit{Failures: 1, Open: 10 * time.Second}
	test("at once", provider.Options{Concurrency: 1, Circuit: circuit}, []point{
		{actors.KindProvider, "*provider.begin"}, {actors.KindProvider, "provider.freed"}, {actors.KindProvider, "*provider.want"},
		{actors.KindProvider, "*provider.ended"}, {actors.KindProvider, "*provider.gone"}, {actors.KindProvider, "*provider.answered"},
		{actors.KindCompletion, "actors.Started"}, {actors.KindCompletion, "*provider.granted"}, {actors.KindCompletion, "*provider.refused"},
		{actors.KindCompletion, "*provider.attemptEnded"}, {actors.KindCompletion, "provider.retryDue"}, {actors.KindCompletion, "*provider.cancelled"},
		{actors.KindCompletion, "*provider.left"}, {actors.KindCompletion, "actors.Stopping"},
	})
	test("by actor", provider.Options{Concurrency: 1, PerMinute: 2, Circuit: circuit}, []point{
		{actors.KindLLM, "provider.spawn"},
		{actors.KindProvider, "actors.Started"}, {actors.KindProvider, "*provider.begin"}, {actors.KindProvider, "*provider.want"},
		{actors.KindProvider, "*provider.ended"}, {actors.KindProvider, "*provider.gone"}, {actors.KindProvider, "*provider.answered"},
		{actors.KindProvider, "actors.ChildStopped"}, {actors.KindProvider, "provider.rateDue"},
		{actors.KindCompletion, "actors.Started"}, {actors.KindCompletion, "*provider.granted"}, {actors.KindCompletion, "*provider.refused"},
		{actors.KindCompletion, "*provider.attemptEnded"}, {actors.KindCompletion, "provider.retryDue"}, {actors.KindCompletion, "*provider.cancelled"},
		{actors.KindCompletion, "*provider.left"}, {actors.KindCompletion, "actors.Stopping"},
	})
}

func panicAt(t *testing.T, opts provider.Options, kind actors.Kind, msg string) {
	b := newBench(t, opts)
	var once sync.Once
	hit := make(chan struct{})
	b.mu.Lock()
	b.fail = func(ev actors.TraceEvent) {
		if ev.Actor.Kind() == kind && fmt.Sprintf("%T", ev.Message) == msg {
			once.Do(func() { close(hit); panic(errBoom) })
		}
	}
	b.mu.Unlock()
	var wg sync.WaitGroup
	ask := func(ctx context.Context, m llm.Model) {
		wg.Go(func() { read(ctx, m).once(t) })
	}
	// While the first one holds the place, the second waits for it.
	gate := llmtest.NewGate()
	first := b.Model(llmtest.Script(llmtest.Join(llmtest.Hold(gate), llmtest.Say("z"))))
	if opts.PerMinute == 0 {
		synctest.Wait()
		ask(t.Context(), first)
		synctest.Wait()
	}
	ask(t.Context(), b.Model(llmtest.Script(down(), llmtest.Say("a"))))
	synctest.Wait()
	gate.Open()
	synctest.Wait()
	ctx, cancel := context.WithCancelCause(t.Context())
	ask(ctx, b.Model(llmtest.Script(llmtest.Say("b"))))
	ask(t.Context(), b.Model(llmtest.Script(llmtest.Say("c"))))
	wg.Go(func() {
		for range b.Model(llmtest.Script(llmtest.Say("d", "e"))).Stream(t.Context(), hello()) {
			break
		}
	})
	synctest.Wait()
	cancel(errLeft)
	wg.Wait()
	synctest.Wait() // a reader that leaves does not wait until its completion has heard of it
	select {
	case <-hit:
	default:
		t.Fatal("the message never came")
	}
	time.Sleep(2 * time.Minute)
	b.works(t)
}

// What happens to a request are messages to its completion, in order.
func TestTrace(t *testing.T) {
	type row struct {
		name string
		run  func(s *subject, t *testing.T)
		want string
	}
	test := func(opts provider.Options, tests []row) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := &subject{bench: newBench(t, opts), closed: make(chan struct{}), free: llmtest.NewGate()}
					s.Provider("llmtest")
					synctest.Wait()
					tt.run(s, t)
					synctest.Wait()
					var got []string
					for _, l := range s.tracer.Lines() {
						if l, ok := strings.CutPrefix(l, "completion "); ok {
							got = append(got, l)
						}
					}
					if want := strings.Fields(tt.want); !slices.Equal(got, want) {
						t.Errorf("got  %v\nwant %v", got, want)
					}
				})
			})
		}
	}
	test(provider.Options{}, []row{
		{"at once, an answer", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Say("a"))))
		}, ""},
		{"at once, a retry", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Fail(busy(time.Second)), llmtest.Say("a"))))
		}, "Started attemptEnded retryDue granted attemptEnded Stopping"},
		{"at once, a failure", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Fail(errBoom))))
		}, "Started attemptEnded Stopping"},
		{"at once, cancelled while streaming", func(s *subject, t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errLeft) })
			read(ctx, s.Model(s.streaming(llmtest.Hold(s.free))))
		}, ""},
	})
	test(provider.Options{PerMinute: byActor}, []row{
		{"an answer", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Say("a"))))
		}, "Started granted attemptEnded Stopping"},
		{"a retry", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Fail(busy(time.Second)), llmtest.Say("a"))))
		}, "Started granted attemptEnded retryDue granted attemptEnded Stopping"},
		{"a failure", func(s *subject, t *testing.T) {
			read(t.Context(), s.Model(llmtest.Script(llmtest.Fail(errBoom))))
		}, "Started granted attemptEnded Stopping"},
		{"cancelled while streaming", func(s *subject, t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errLeft) })
			read(ctx, s.Model(s.streaming(llmtest.Hold(s.free))))
		}, "Started granted cancelled Stopping"},
		{"cancelled between attempts", func(s *subject, t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errLeft) })
			read(ctx, s.Model(llmtest.Script(llmtest.Fail(busy(time.Minute)))))
		}, "Started granted attemptEnded cancelled Stopping"},
		{"left", func(s *subject, t *testing.T) {
			for range s.Model(llmtest.Script(llmtest.Say("a", "b"))).Stream(t.Context(), hello()) {
				break
			}
		}, "Started granted left Stopping"},
		{"killed", func(s *subject, t *testing.T) {
			time.AfterFunc(time.Second, func() { s.newest(actors.KindCompletion).Stop() })
			read(t.Context(), s.Model(s.streaming(llmtest.Hold(s.free))))
		}, "Started granted Stopping"},
		{"an open circuit", func(s *subject, t *testing.T) {
			s.fails(t, 5, llmtest.Join(llmtest.Say("a"), down()))
			synctest.Wait()
			s.tracer = actors.Tracer{}
			read(t.Context(), s.Model(llmtest.Script(llmtest.Say("a"))))
		}, "Started refused retryDue granted attemptEnded Stopping"},
	})
}

// A panic of a model that is being left is seen by supervision, and by nobody else.
func TestModelPanicsWhenLeft(t *testing.T) {
	for _, rate := range []int{0, byActor} {
		bubble(t, func(t *testing.T) {
			b := newBench(t, provider.Options{PerMinute: rate})
			m := b.Model(fake{"llmtest/x", func(_ context.Context, yield func(llm.Event, error) bool) {
				if !yield(llm.TextDelta{Text: "a"}, nil) {
					panic(errBoom)
				}
			}})
			synctest.Wait()
			for range m.Stream(t.Context(), hello()) {
				break
			}
			synctest.Wait()
			if n := b.sys.Census().Actors[actors.KindCompletion].Failed; n != 1 {
				t.Errorf("%d completions have failed, want 1", n)
			}
			b.works(t)
		})
	}
}
