package agent_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestLockedStore: another process holds the lock for longer than a write waits for it,
// while four runs are under way. All finish, each call was made once, and nothing is lost.
func TestLockedStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "troupe.db")
	s, err := sqlite.Open(path, &sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	library := "sqlite3" // the one that the store uses: locks are a process's
	if !slices.Contains(sql.Drivers(), library) {
		library = sql.Drivers()[0]
	}
	other, err := sql.Open(library, path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetMaxOpenConns(1)

	const n = 4
	var made atomic.Int64
	var asked sync.WaitGroup
	locked := make(chan struct{})
	asked.Add(n)
	model := llmtest.Loop(llmtest.Func(func(ctx context.Context, req *llm.Request) llmtest.Turn {
		if len(req.Messages) > 1 {
			return llmtest.Say("done")
		}
		asked.Done()
		<-locked // the answer comes while nothing can be written
		return call("double", in{1})
	}))
	count := agent.Func("double", "Counts.", func(context.Context, in) (string, error) { made.Add(1); return "", nil })
	rt, err := agent.Open(t.Context(), &agent.Options{Model: model, Store: s, Tools: []agent.Tool{count}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var runs []*agent.Run
	for i := range n {
		runs = append(runs, start(t, rt, fmt.Sprint("r", i)))
	}
	seen := make(chan []string, 1)
	go func() { seen <- types(t, runs[0]) }()
	asked.Wait()
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	close(locked)
	for len(rt.Stalled()) < n {
		if t.Context().Err() != nil {
			t.Fatal("not all runs stall")
		}
		time.Sleep(time.Millisecond)
	}
	if !rt.IsStalled("r0") || made.Load() != 0 {
		t.Errorf("r0 is not stalled, or of %d calls one was made that is not journalled", made.Load())
	}
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "done" {
			t.Errorf("%s: got %+v, %v", run.ID(), res, err)
		}
	}
	if list := <-seen; !slices.Contains(list, "store_stalled") || !slices.Contains(list, "store_resumed") {
		t.Errorf("events: %q", list)
	}
	if made.Load() != n || len(rt.Stalled()) != 0 {
		t.Errorf("%d calls were made, want %d; stalled: %v", made.Load(), n, rt.Stalled())
	}
}

// full is a store without room.
type full struct {
	store.Store
	since, until time.Time
}

func (f *full) err() error {
	if now := time.Now(); now.After(f.since) && now.Before(f.until) {
		return store.ErrFull
	}
	return nil
}

func (f *full) Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error) {
	if err := f.err(); err != nil {
		return store.Run{}, err
	}
	return f.Store.Create(ctx, r, owner, ttl, first...)
}

func (f *full) Append(ctx context.Context, a store.Append) (int64, error) {
	if err := f.err(); err != nil {
		return 0, err
	}
	return f.Store.Append(ctx, a)
}

// TestFullStore: ten seconds without room delay runs, and end none; a sub-agent's too.
func TestFullStore(t *testing.T) {
	for _, from := range []time.Duration{200, 600, 800, 1300, 1500, 2000} { // milliseconds, at 700 of which there is an answer
		bubble(t, func(t *testing.T) { fullStore(t, from*time.Millisecond) })
	}
}

// fullStore has no room from then on.
func fullStore(t *testing.T, from time.Duration) {
	t.Helper()
	s := &full{Store: memstore.New(nil)}
	s.since = time.Now().Add(from)
	s.until = s.since.Add(10 * time.Second)
	slow := func(turn llmtest.Turn) llmtest.Turn { return llmtest.Join(llmtest.Slow(700*time.Millisecond), turn) }
	rt := open(t, &agent.Options{Model: llmtest.Loop(slow(llmtest.Say("found"))), Store: s})
	helper, err := rt.Agent("helper", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := rt.Agent("lead", &agent.Config{Model: llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if len(req.Messages) > 1 {
			return slow(llmtest.Say("done"))
		}
		return slow(call("helper", task("look")))
	})), Tools: []agent.Tool{helper.AsTool("helper", "Looks.")}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if res, err := a.Run(t.Context(), "go", nil); err != nil || res.Text != "done" {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
	wg.Wait()
	if time.Now().Before(s.until) {
		t.Error("the runs ended before there was room")
	}
}
