package storetest

import (
	"fmt"
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

// starter returns the store as a [store.Starter], or skips the test.
func starter(t *testing.T, s store.Store) store.Starter {
	t.Helper()
	st, ok := s.(store.Starter)
	if !ok {
		t.Skip("the store is no Starter")
	}
	return st
}

// startAppend waits for an append that was only started.
func startAppend(st store.Starter, a store.Append) outcome {
	done := make(chan outcome, 1)
	st.StartAppend(a, func(last int64, err error) { done <- outcome{last, err} })
	return <-done
}

// testStartAppend: StartAppend accepts and refuses what Append does.
func testStartAppend(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter(t, s)
	r := create(t, s, "r", event("first", 1))
	second := []store.Event{event("second", 2)}
	for _, tt := range []struct {
		name string
		a    store.Append
		want outcome
	}{
		{"with an event", store.Append{Run: "r", Epoch: r.Epoch, After: 1, Events: second}, outcome{2, nil}},
		{"the same again", store.Append{Run: "r", Epoch: r.Epoch, After: 1, Events: second}, outcome{2, nil}},
		{"behind another event", store.Append{Run: "r", Epoch: r.Epoch, After: 1, Events: []store.Event{event("other", 3)}}, outcome{0, store.ErrConflict}},
		{"under another epoch", store.Append{Run: "r", Epoch: r.Epoch + 1, After: 2, Events: second}, outcome{0, store.ErrFenced}},
		{"to no run", store.Append{Run: "none", Epoch: 1, Events: second}, outcome{0, store.ErrNotFound}},
		{"without a run", store.Append{Events: second}, outcome{0, store.ErrInvalid}},
		{"with an ask", store.Append{Run: "r", Epoch: r.Epoch, After: 2, Events: second, Asks: []store.Ask{fullAsk("q", "r")}}, outcome{3, nil}},
		{"without anything", store.Append{Run: "r", Epoch: r.Epoch, After: 3}, outcome{3, nil}},
		{"that ends the run", store.Append{Run: "r", Epoch: r.Epoch, After: 3, State: store.Finished, Summary: "done"}, outcome{3, nil}},
		{"after the end", store.Append{Run: "r", Epoch: r.Epoch, After: 3, Events: second}, outcome{0, store.ErrFinished}},
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
	st := starter(t, s)
	const callers, appends, chained = 8, 50, 20
	var wg sync.WaitGroup
	for c := range callers {
		r := create(t, s, fmt.Sprint("r", c))
		wg.Add(appends + chained)
		start := func(i int, then func()) {
			st.StartAppend(store.Append{Run: r.ID, Epoch: r.Epoch, After: int64(i), Events: []store.Event{event("e", i)}}, func(last int64, err error) {
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
	st := starter(t, s)
	r := create(t, s, "r")
	wantErr(t, "Close", s.Close(), nil)
	got := startAppend(st, store.Append{Run: "r", Epoch: r.Epoch, Events: []store.Event{event("e", 1)}})
	wantErr(t, "StartAppend after Close", got.err, store.ErrClosed)
}

// testStartAppendCloseRace closes a store into which appends are started: each comes to one outcome,
// the last at the end of Close or with ErrClosed.
func testStartAppendCloseRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	st := starter(t, s)
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
				st.StartAppend(store.Append{Run: r.ID, Epoch: r.Epoch, After: store.Unchecked, Events: []store.Event{event("e", 1)}}, func(_ int64, err error) {
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
