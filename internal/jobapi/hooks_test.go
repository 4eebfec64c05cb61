package jobapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

const secretText = "a secret of enough bytes"

func newSystem(t *testing.T, o *actors.Options) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second) // of a bubble: the library's own timers
	})
	return sys
}

func secret(t *testing.T) jobapi.Secret {
	t.Helper()
	s, err := jobapi.NewSecret(secretText)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// receiver plays who is told, and remembers when.
type receiver struct {
	mu     sync.Mutex
	took   []string // ids
	times  []time.Time
	answer func(n int) (time.Duration, error) // of the nth attempt, from one
	ends   []string
}

func (r *receiver) post(_ context.Context, id string, _ []byte) (time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, id)
	r.times = append(r.times, time.Now())
	if r.answer == nil {
		return 0, nil
	}
	return r.answer(len(r.took))
}

func (r *receiver) ended(result string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, result)
}

func (r *receiver) is(t *testing.T, attempts int, ends ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.took) != attempts || !slices.Equal(r.ends, ends) {
		t.Errorf("got %d attempts and the ends %q, want %d and %q", len(r.took), r.ends, attempts, ends)
	}
}

func start(t *testing.T, sys *actors.System, s jobapi.HookStore, r *receiver) *jobapi.Hooks {
	t.Helper()
	o := jobapi.HooksOptions{Store: s, Secret: secret(t), OnEnd: r.ended}
	h, err := jobapi.StartHooks(sys, o.WithPost(r.post))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func left(t *testing.T, s store.Records) int {
	t.Helper()
	all, err := s.Records(context.Background(), store.RecordQuery{Kind: "webhook", Owner: "webhooks"})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

var done = store.Job{ID: "j1", Agent: "main", State: store.JobDone, Attempts: 1, Hook: "https://example.com/", Prompt: "secret prompt",
	Result: json.RawMessage(`{"text":"ok"}`)}

// A webhook is sent until it is taken, with growing waits, under one id.
func TestHookIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, s := newSystem(t, nil), memstore.New(nil)
		r := &receiver{answer: func(n int) (time.Duration, error) {
			switch n {
			case 1:
				return 0, errors.New("no route")
			case 2:
				return 10 * time.Minute, errors.New("503, and it wants time")
			}
			return 0, nil
		}}
		h := start(t, sys, s, r)
		h.Tell(done)
		h.Tell(store.Job{ID: "j2"}) // it has no hook
		if err := h.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		r.is(t, 1)
		if n := left(t, s); n != 1 {
			t.Errorf("records: got %d, want the one that is to be sent again", n)
		}
		time.Sleep(time.Minute)
		r.is(t, 2)
		time.Sleep(9 * time.Minute)
		r.is(t, 2)
		time.Sleep(2 * time.Minute)
		r.is(t, 3, "delivered")
		if n := left(t, s); n != 0 || sys.Census().Live(actors.KindHook) != 0 {
			t.Errorf("after the end: %d records, %d actors, want none", n, sys.Census().Live(actors.KindHook))
		}
		if ids := slices.Compact(slices.Clone(r.took)); len(ids) != 1 {
			t.Errorf("the ids: got %q, want one, so that a receiver can tell", ids)
		}
	})
}

// Attempts are bounded, and one that wants no more gets no more (ROB-8).
func TestHookIsGivenUp(t *testing.T) {
	tests := []struct {
		name     string
		err      error
		attempts int
		end      string
	}{
		{"never taken", errors.New("500"), jobapi.HookAttempts, "failed"},
		{"gone", jobapi.ErrGone, 1, "failed"},
		{"refused", netguard.ErrRefused, 1, "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys, s := newSystem(t, nil), memstore.New(nil)
				r := &receiver{answer: func(int) (time.Duration, error) { return 0, tt.err }}
				start(t, sys, s, r).Tell(done)
				time.Sleep(20 * time.Hour)
				r.is(t, tt.attempts, tt.end)
				if n := left(t, s); n != 0 {
					t.Errorf("records: got %d, want none", n)
				}
			})
		})
	}
}

// slowLook holds the first look at a store: its webhooks are read when read is closed, and
// its answer comes when answer is.
type slowLook struct {
	*memstore.Store
	read, answer chan struct{}
}

func (s slowLook) Records(ctx context.Context, q store.RecordQuery) ([]store.Record, error) {
	<-s.read
	return s.Store.Records(ctx, q)
}

func (s slowLook) Jobs(ctx context.Context, q store.JobQuery) ([]store.Job, error) {
	<-s.answer
	return s.Store.Jobs(ctx, q)
}

// A webhook that is told of, and ends, while the store is looked at is not sent again when
// that look's old answer comes.
func TestHookEndsDuringLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, s := newSystem(t, nil), slowLook{memstore.New(nil), make(chan struct{}), make(chan struct{})}
		r := &receiver{answer: func(int) (time.Duration, error) {
			time.Sleep(time.Second)
			return 0, jobapi.ErrGone
		}}
		start(t, sys, s, r).Tell(done)
		synctest.Wait() // it is in the store, and at its receiver
		close(s.read)
		time.Sleep(time.Minute)
		r.is(t, 1, "failed")
		close(s.answer)
		time.Sleep(time.Minute)
		r.is(t, 1, "failed")
	})
}

// A worker that ends leaves what is not delivered to the next.
func TestHooksAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, s := newSystem(t, nil), memstore.New(nil)
		down := &receiver{answer: func(int) (time.Duration, error) { return 0, errors.New("down") }}
		first := start(t, sys, s, down)
		first.Tell(done)
		time.Sleep(time.Second)
		first.Stop()
		time.Sleep(time.Minute) // its next attempt would have been by now
		down.is(t, 1)
		r := new(receiver)
		start(t, newSystem(t, nil), s, r)
		time.Sleep(time.Second)
		r.is(t, 1, "delivered")
		if n := left(t, s); n != 0 {
			t.Errorf("records: got %d, want none", n)
		}
	})
}

// endJob works a job off at a store, as a worker that dies before it reports the end.
func endJob(t *testing.T, s store.Jobs, id string) {
	t.Helper()
	ctx := context.Background()
	if _, err := s.AddJob(ctx, store.Job{ID: id, Agent: "main", Prompt: "p", Hook: "https://example.com/"}); err != nil {
		t.Fatal(err)
	}
	list, err := s.ClaimJobs(ctx, "w", 1, time.Minute, []string{"main"})
	if err != nil || len(list) != 1 {
		t.Fatalf("ClaimJobs: got %v, %v", list, err)
	}
	u := store.JobUpdate{JobLease: store.JobLease{ID: id, Epoch: list[0].Epoch}, Owner: "w", State: store.JobDone}
	if _, err := s.UpdateJob(ctx, u); err != nil {
		t.Fatal(err)
	}
}

// A worker that dies between the end of a job and its webhook leaves it to the others,
// and one of them sees to it.
func TestHookOfDeadWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memstore.New(nil), new(receiver)
		start(t, newSystem(t, nil), s, r)
		start(t, newSystem(t, nil), s, r)
		time.Sleep(time.Second)
		endJob(t, s, "j1")
		time.Sleep(2 * time.Minute)
		r.is(t, 1, "delivered")
		time.Sleep(time.Hour)
		r.is(t, 1, "delivered")
	})
}

// A job that is cancelled in the queue has no worker: the worker that is woken reports it.
func TestHookOfQueuedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memstore.New(nil), new(receiver)
		first, second := start(t, newSystem(t, nil), s, r), start(t, newSystem(t, nil), s, r)
		time.Sleep(time.Second)
		if _, err := s.AddJob(t.Context(), store.Job{ID: "j1", Agent: "main", Prompt: "p", Hook: "https://example.com/"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.CancelJob(t.Context(), "j1"); err != nil {
			t.Fatal(err)
		}
		first.Look()
		second.Look()
		time.Sleep(time.Second)
		r.is(t, 1, "delivered")
		if id := r.took[0]; id != "j1.0.cancelled" {
			t.Errorf("its id: got %q", id)
		}
		time.Sleep(time.Hour)
		r.is(t, 1, "delivered")
	})
}

// What ended long before a worker could report it is not reported, and not looked at again.
func TestHookTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := memstore.New(nil), new(receiver)
		endJob(t, s, "j1")
		time.Sleep(25 * time.Hour)
		start(t, newSystem(t, nil), s, r)
		time.Sleep(time.Hour)
		r.is(t, 0)
		if found, err := s.Jobs(t.Context(), store.JobQuery{Untold: true}); err != nil || len(found) != 0 {
			t.Errorf("untold jobs: got %v, %v, want none", found, err)
		}
	})
}

// A store that fails loses no webhook while the process lives.
func TestHookWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(nil)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		r := new(receiver)
		start(t, newSystem(t, nil), s, r).Tell(done)
		time.Sleep(time.Second)
		r.is(t, 1, "delivered")
	})
}

// The failure of one webhook's actor is its own: others are delivered, and the failed one
// by the worker that looks into the store next. A failure of their parent loses none either.
func TestHookKilled(t *testing.T) {
	for kind, name := range map[actors.Kind]string{actors.KindHook: "the actor of one", actors.KindHooks: "the actor of all"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var once sync.Once
				sys := newSystem(t, &actors.Options{Trace: func(ev actors.TraceEvent) {
					kills := false
					if _, answered := ev.Message.(jobapi.Answered); ev.Actor.Kind() == actors.KindHook && kind == actors.KindHook && answered {
						once.Do(func() { kills = true })
					}
					if _, recorded := ev.Message.(jobapi.Recorded); ev.Actor.Kind() == kind && recorded {
						once.Do(func() { kills = true })
					}
					if kills {
						panic("killed by the test")
					}
				}})
				s, r := memstore.New(nil), new(receiver)
				h := start(t, sys, s, r)
				h.Tell(done)
				time.Sleep(time.Second)
				other := done
				other.ID = "j2"
				h.Tell(other)
				time.Sleep(time.Hour)
				for _, id := range []string{"j1.1.done", "j2.1.done"} {
					if !slices.Contains(r.took, id) {
						t.Errorf("%s was not delivered: %q", id, r.took)
					}
				}
				if n := left(t, s); n != 0 {
					t.Errorf("records: got %d, want none", n)
				}
			})
		})
	}
}

// What arrives is signed, says what has become of the job, and has no prompt in it.
func TestHookOverHTTP(t *testing.T) {
	type delivery struct {
		header http.Header
		body   []byte
	}
	got := make(chan delivery, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- delivery{r.Header, body}
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // more than is read
	}))
	defer srv.Close()
	ended := make(chan string, 1)
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sys.Shutdown(context.Background()) }()
	h, err := jobapi.StartHooks(sys, jobapi.HooksOptions{Store: memstore.New(nil), Secret: secret(t),
		Guard: newGuard(t, strings.TrimPrefix(srv.URL, "http://")), OnEnd: func(r string) { ended <- r }})
	if err != nil {
		t.Fatal(err)
	}
	j := done
	j.Hook = srv.URL + "/hook"
	h.Tell(j)
	d := <-got
	if err := secret(t).Verify(d.header, d.body, time.Now()); err != nil {
		t.Error(err)
	}
	var m struct {
		Type string
		Data jobapi.Job
	}
	if err := json.Unmarshal(d.body, &m); err != nil || m.Type != "job.done" || m.Data.ID != "j1" || string(m.Data.Result) != `{"text":"ok"}` {
		t.Errorf("the body: got %s, %v", d.body, err)
	}
	if strings.Contains(string(d.body), "secret prompt") || strings.Contains(string(d.body), secretText) {
		t.Errorf("the body: got %s, want no prompt and no secret", d.body)
	}
	if r := <-ended; r != "delivered" {
		t.Errorf("its end: got %q", r)
	}
}

// newSystem2 is a system outside of a bubble.
func newSystem2(t *testing.T) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Shutdown(context.Background()) })
	return sys
}
