package storetest

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/store"
)

// outcome is what an append has come to.
type outcome struct {
	last int64
	err  error
}

// starter returns the store as a T, or skips the test.
func starter[T any](t *testing.T, s store.Store) T {
	t.Helper()
	st, ok := s.(T)
	if !ok {
		t.Skipf("the store is no %v", reflect.TypeFor[T]())
	}
	return st
}

// startAppend waits for an append that was only started.
func startAppend(st store.Starter, a store.Append) outcome {
	done := make(chan outcome, 1)
	st.StartAppend(a, func(last int64, err error) { done <- outcome{last, err} })
	return <-done
}

// testStartCreate: StartCreate accepts and refuses what Create does.
func testStartCreate(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.Starter](t, s)
	start := func(r store.Run, owner string, first ...store.Event) (store.Run, error) {
		type created struct {
			run store.Run
			err error
		}
		done := make(chan created, 1)
		st.StartCreate(r, owner, ttl, first, func(r store.Run, err error) { done <- created{r, err} })
		got := <-done
		return got.run, got.err
	}
	first := []store.Event{event("first", 1), event("second", 2)}
	r, err := start(store.Run{ID: "r", Agent: "a", Title: "title"}, "w", first...)
	wantErr(t, "StartCreate", err, nil)
	if head, err := s.Run(t.Context(), "r"); err != nil || head != r || r.Seq != 2 || r.Owner != "w" || r.State != store.Running {
		t.Errorf("Run: got %+v, %v, want %+v", head, err, r)
	}
	clear(first) // they are the caller's again
	if n := len(replay(t, s, "r")); n != 2 {
		t.Errorf("got %d events, want 2", n)
	}
	old, err := start(store.Run{ID: "r"}, "another")
	wantErr(t, "StartCreate of one that is there", err, store.ErrExists)
	if old != r {
		t.Errorf("got %+v, want %+v", old, r)
	}
	_, err = start(store.Run{}, "w")
	wantErr(t, "StartCreate without an ID", err, store.ErrInvalid)
	_, err = start(store.Run{ID: "x"}, "")
	wantErr(t, "StartCreate without an owner", err, store.ErrInvalid)
	wantErr(t, "Close", s.Close(), nil)
	_, err = start(store.Run{ID: "x"}, "w")
	wantErr(t, "StartCreate after Close", err, store.ErrClosed)
}

// jobsOrErr is what a write of jobs has come to.
type jobsOrErr struct {
	jobs []store.Job
	err  error
}

// startAdd waits for a job that is only being added.
func startAdd(st store.JobStarter, j store.Job) (store.Job, error) {
	done := make(chan jobsOrErr, 1)
	st.StartAdd(j, func(j store.Job, err error) { done <- jobsOrErr{[]store.Job{j}, err} })
	got := <-done
	return got.jobs[0], got.err
}

// testStartAdd: StartAdd accepts and refuses what AddJob does, and adds in the order of its calls.
func testStartAdd(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.JobStarter](t, s)
	added, err := startAdd(st, store.Job{ID: "j", Agent: "a", Key: "k", Prompt: "go"})
	wantErr(t, "StartAdd", err, nil)
	if j, err := s.Job(t.Context(), "j"); err != nil || j.State != store.JobQueued || j.Created != added.Created || j.Epoch != added.Epoch {
		t.Errorf("Job: got %+v, %v, want %+v", j, err, added)
	}
	for _, tt := range []struct {
		name string
		job  store.Job
		want error
	}{
		{"again", store.Job{Agent: "a", Key: "k", Prompt: "go"}, store.ErrRepeated},
		{"of that ID", store.Job{ID: "j", Agent: "a", Prompt: "other"}, store.ErrExists},
		{"without an agent", store.Job{Prompt: "go"}, store.ErrInvalid},
	} {
		got, err := startAdd(st, tt.job)
		wantErr(t, "StartAdd "+tt.name, err, tt.want)
		if known := tt.want != store.ErrInvalid; known != (got.ID == "j") {
			t.Errorf("StartAdd %s: got %+v", tt.name, got)
		}
	}
	const jobs = 100
	var under sync.WaitGroup
	under.Add(jobs)
	for i := range jobs {
		st.StartAdd(store.Job{ID: fmt.Sprint("job", i), Agent: "ordered", Prompt: "go"}, func(_ store.Job, err error) {
			if err != nil {
				t.Errorf("StartAdd: %v", err)
			}
			under.Done()
		})
	}
	under.Wait()
	claimed, err := s.ClaimJobs(t.Context(), "w", jobs, ttl, []string{"ordered"})
	wantErr(t, "ClaimJobs", err, nil)
	for i, j := range claimed {
		wantEqual(t, "ID", j.ID, fmt.Sprint("job", i))
	}
	wantErr(t, "Close", s.Close(), nil)
	_, err = startAdd(st, store.Job{Agent: "a", Prompt: "go"})
	wantErr(t, "StartAdd after Close", err, store.ErrClosed)
}

// testStartClaim: StartClaim claims what ClaimJobs does, as many as there are places when it is made.
func testStartClaim(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.JobStarter](t, s)
	claim := func(places int, owner string) ([]store.Job, error) {
		done := make(chan jobsOrErr, 1)
		st.StartClaim(store.Claim{Owner: owner, TTL: ttl, Agents: []string{"a", "a"}, Places: func() int { return places }},
			func(jobs []store.Job, err error) { done <- jobsOrErr{jobs, err} })
		got := <-done
		return got.jobs, got.err
	}
	for i := range 5 {
		_, err := s.AddJob(t.Context(), store.Job{ID: fmt.Sprint("job", i), Agent: "a", Prompt: "go"})
		wantErr(t, "AddJob", err, nil)
	}
	for _, tt := range []struct{ places, want int }{{0, 0}, {-1, 0}, {2, 2}, {store.MaxClaim + 1, 3}, {1, 0}} {
		got, err := claim(tt.places, "w")
		wantErr(t, "StartClaim", err, nil)
		if len(got) != tt.want {
			t.Errorf("with %d places: got %d jobs, want %d", tt.places, len(got), tt.want)
		}
		for _, j := range got {
			if j.State != store.JobRunning || j.Owner != "w" || j.Attempts != 1 || j.Run == "" {
				t.Errorf("got %+v", j)
			}
		}
	}
	_, err := claim(1, "")
	wantErr(t, "StartClaim without an owner", err, store.ErrInvalid)
	wantErr(t, "Close", s.Close(), nil)
	_, err = claim(1, "w")
	wantErr(t, "StartClaim after Close", err, store.ErrClosed)
}

// testStartAppend: StartAppend accepts and refuses what Append does.
func testStartAppend(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.Starter](t, s)
	r := create(t, s, "r", event("first", 1))
	second := []store.Event{event("second", 2)}
	for _, tt := range []struct {
		name string
		a    store.Append
		want outcome
	}{
		{"with an event", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: second}, outcome{2, nil}},
		{"the same again", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: second}, outcome{2, nil}},
		{"behind another event", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 1, Events: []store.Event{event("other", 3)}}, outcome{0, store.ErrConflict}},
		{"under another epoch", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch + 1, After: 2, Events: second}, outcome{0, store.ErrFenced}},
		{"to no run", store.Append{Run: "none", Owner: "w", Epoch: 1, Events: second}, outcome{0, store.ErrNotFound}},
		{"without a run", store.Append{Owner: "w", Events: second}, outcome{0, store.ErrInvalid}},
		{"without an owner", store.Append{Run: "r", Epoch: r.Epoch, After: 2, Events: second}, outcome{0, store.ErrInvalid}},
		{"by another owner", store.Append{Run: "r", Owner: "x", Epoch: r.Epoch, After: 2, Events: second}, outcome{0, store.ErrFenced}},
		{"with an ask", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 2, Events: second, Asks: []store.Ask{fullAsk("q", "r")}}, outcome{3, nil}},
		{"without anything", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 3}, outcome{3, nil}},
		{"that ends the run", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 3, State: store.Finished, Summary: "done"}, outcome{3, nil}},
		{"after the end", store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, After: 3, Events: second}, outcome{0, store.ErrFinished}},
	} {
		got := startAppend(st, tt.a)
		wantErr(t, "StartAppend "+tt.name, got.err, tt.want.err)
		if got.last != tt.want.last {
			t.Errorf("StartAppend %s: got %d, want %d", tt.name, got.last, tt.want.last)
		}
	}
	if n := len(replay(t, s, "r")); n != 3 {
		t.Errorf("got %d events, want 3", n)
	}
	if head, err := s.Run(t.Context(), "r"); err != nil || head.State != store.Finished || head.Summary != "done" || head.Owner != "" {
		t.Errorf("Run: got %+v, %v", head, err)
	}
	a, err := s.Ask(t.Context(), "q")
	wantErr(t, "Ask", err, nil)
	wantEqual(t, "the ask's run", a.Run, "r")
}

// testStartAppendOrder: appends that one caller starts, each before the one before has ended, are
// made in that order. Done may start the next one.
func testStartAppendOrder(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.Starter](t, s)
	const callers, appends, chained = 8, 50, 20
	var wg sync.WaitGroup
	for c := range callers {
		r := create(t, s, fmt.Sprint("r", c))
		wg.Add(appends + chained)
		start := func(i int, then func()) {
			st.StartAppend(store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: int64(i), Events: []store.Event{event("e", i)}}, func(last int64, err error) {
				if err != nil || last != int64(i+1) {
					t.Errorf("%s: append %d: got %d, %v, want %d", r.ID, i, last, err, i+1)
				}
				then()
				wg.Done()
			})
		}
		var chain func(i int) func()
		chain = func(i int) func() {
			return func() {
				if i < appends+chained {
					start(i, chain(i+1))
				}
			}
		}
		wg.Go(func() {
			for i := range appends - 1 {
				start(i, func() {})
			}
			start(appends-1, chain(appends))
		})
	}
	wg.Wait()
	for c := range callers {
		all := replay(t, s, fmt.Sprint("r", c))
		if len(all) != appends+chained {
			t.Errorf("run %d: got %d events, want %d", c, len(all), appends+chained)
		}
		for i, e := range all {
			wantEqual(t, "body", string(e.Body), string(event("e", i).Body))
		}
	}
}

func testStartAppendClosed(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.Starter](t, s)
	r := create(t, s, "r")
	wantErr(t, "Close", s.Close(), nil)
	got := startAppend(st, store.Append{Run: "r", Owner: "w", Epoch: r.Epoch, Events: []store.Event{event("e", 1)}})
	wantErr(t, "StartAppend after Close", got.err, store.ErrClosed)
}

// testStartAppendCloseRace closes a store into which appends are started: each comes to one outcome,
// the last at the end of Close or with ErrClosed.
func testStartAppendCloseRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter[store.Starter](t, s)
	const callers = 8
	var started, ended atomic.Int64
	var wg sync.WaitGroup
	begun := make(chan struct{}, callers)
	for c := range callers {
		r := create(t, s, fmt.Sprint("r", c))
		wg.Go(func() {
			for closed := make(chan struct{}, 1); ; {
				started.Add(1)
				over := make(chan struct{}, 1)
				st.StartAppend(store.Append{Run: r.ID, Owner: "w", Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("e", 1)}}, func(_ int64, err error) {
					ended.Add(1)
					if err != nil {
						wantErr(t, "StartAppend while closing", err, store.ErrClosed)
						closed <- struct{}{}
					}
					over <- struct{}{}
				})
				<-over
				select {
				case begun <- struct{}{}:
				default:
				}
				select {
				case <-closed:
					return
				default:
				}
			}
		})
	}
	for range callers {
		<-begun
	}
	wantErr(t, "Close", s.Close(), nil)
	wg.Wait()
	if started.Load() != ended.Load() {
		t.Errorf("%d appends were started, done was called %d times", started.Load(), ended.Load())
	}
}
