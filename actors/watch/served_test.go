package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

func newServed(t testing.TB, change func(*watch.ServedOptions)) (*watch.Served, *peer) {
	p := newPeer(t, func(ctx context.Context, _ *call.Request) (string, error) { return never(ctx) })
	o := watch.ServedOptions{Spawn: p.spawn}
	if change != nil {
		change(&o)
	}
	return watch.NewServed(o), p
}

// after is work that takes a while.
func after(d time.Duration, result string, err error) func(context.Context) (json.RawMessage, error) {
	return func(ctx context.Context) (json.RawMessage, error) {
		select {
		case <-time.After(d):
			return json.RawMessage(result), err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func ms(n int64) *int64 { return &n }

// TASK-03, TASK-04, TASK-06, TASK-08, TASK-09, TASK-11: a task is there at once, works,
// ends, and gives its result to whoever asks, before or after, marked as its own.
func TestServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		s, _ := newServed(t, func(o *watch.ServedOptions) {
			o.OnStatus = func(task *watch.ServedTask) { mu.Lock(); defer mu.Unlock(); told = append(told, task.Core().Status) }
		})
		task, err := s.Create(t.Context(), ms(60_000), after(5*time.Second, `{"role":"assistant","_meta":{"a/b":1}}`, nil))
		if err != nil {
			t.Fatal(err)
		}
		created, err := time.Parse(time.RFC3339, task.CreatedAt)
		if err != nil || !created.Equal(time.Now()) || task.Status != mcp.TaskWorking || *task.TTL != 60_000 || *task.PollInterval != 1000 {
			t.Errorf("created %+v (%v)", task, err)
		}
		begin := time.Now()
		early := make(chan string, 1)
		go func() {
			raw, err := s.Result(t.Context(), task.TaskID)
			early <- fmt.Sprint(string(raw), err)
		}()
		want := fmt.Sprintf(`{"_meta":{"a/b":1,"io.modelcontextprotocol/related-task":{"taskId":%q}},"role":"assistant"}<nil>`, task.TaskID)
		if got := <-early; got != want || time.Since(begin) != 5*time.Second {
			t.Errorf("Result: got %s after %v, want %s after 5 s", got, time.Since(begin), want)
		}
		got, err := s.Get(task.TaskID)
		if err != nil || got.Status != mcp.TaskCompleted || got.CreatedAt != task.CreatedAt || got.LastUpdatedAt == task.LastUpdatedAt {
			t.Errorf("Get: got %+v, %v", got, err)
		}
		raw, err := s.Result(t.Context(), task.TaskID)
		if fmt.Sprint(string(raw), err) != want {
			t.Errorf("Result again: got %s, %v", raw, err)
		}
		synctest.Wait()
		if fmt.Sprint(told) != "[completed]" {
			t.Errorf("told of %v, want completed", told)
		}
		time.Sleep(time.Minute) // TASK-15
		if _, err := s.Get(task.TaskID); !errors.Is(err, mcp.ErrInvalidParams) {
			t.Errorf("Get after its time: got %v, want -32602", err)
		}
		if kept, _ := s.Len(); kept != 0 {
			t.Errorf("%d tasks are kept after their time", kept)
		}
	})
}

// TASK-07, TASK-09, LOG-06: what goes wrong is the task's error; of a panic nothing is
// given away.
func TestServedFailure(t *testing.T) {
	tests := map[string]struct {
		work func(context.Context) (json.RawMessage, error)
		want string
	}{
		"refused":  {after(0, "", mcp.ErrUserRejected), "user rejected sampling request (-1)"},
		"a secret": {after(0, "", errors.New("password 1234")), "internal error (-32603)"},
		"a panic":  {func(context.Context) (json.RawMessage, error) { panic("password 1234") }, "internal error (-32603)"},
		"no JSON":  {after(0, "oh", nil), "internal error (-32603)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServed(t, nil)
				task, err := s.Create(t.Context(), nil, tt.work)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Result(t.Context(), task.TaskID); err == nil || err.Error() != tt.want {
					t.Errorf("Result: got %v, want %s", err, tt.want)
				}
				if got, _ := s.Get(task.TaskID); name != "no JSON" && (got.Status != mcp.TaskFailed || got.StatusMessage+fmt.Sprintf(" (%d)", mcp.ErrorOf(errOf(s, task.TaskID)).Code) != tt.want) {
					t.Errorf("Get: got %+v", got)
				}
			})
		})
	}
}

func errOf(s *watch.Served, id string) error {
	_, err := s.Result(context.Background(), id)
	return err
}

// TASK-12: a task that is cancelled is so at once, its work stops, and it stays so;
// one that has ended, or is unknown, is -32602 (TASK-16).
func TestServedCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, nil)
		var cause error
		var mu sync.Mutex
		task, err := s.Create(t.Context(), nil, func(ctx context.Context) (json.RawMessage, error) {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			cause = context.Cause(ctx)
			return json.RawMessage(`{}`), nil // it ends well all the same
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got, err := s.Cancel(task.TaskID)
		if err != nil || got.Status != mcp.TaskCancelled {
			t.Errorf("Cancel: got %+v, %v", got, err)
		}
		synctest.Wait()
		if cause == nil {
			t.Error("the work goes on")
		}
		if got, _ := s.Get(task.TaskID); got.Status != mcp.TaskCancelled {
			t.Errorf("Get: got %+v, want it to stay cancelled", got)
		}
		for _, id := range []string{task.TaskID, "unknown"} {
			if _, err := s.Cancel(id); !errors.Is(err, mcp.ErrInvalidParams) {
				t.Errorf("Cancel(%q): got %v, want -32602", id, err)
			}
		}
		for name, f := range map[string]func() error{
			"Get":    func() error { _, err := s.Get("unknown"); return err },
			"Result": func() error { _, err := s.Result(t.Context(), "unknown"); return err },
			"List":   func() error { c := "!"; _, err := s.List(&c); return err },
		} {
			if err := f(); !errors.Is(err, mcp.ErrInvalidParams) {
				t.Errorf("%s: got %v, want -32602", name, err)
			}
		}
	})
}

// TASK-15, TASK-21: how long a task is kept is bounded, and told; after it the work ends.
func TestServedTTL(t *testing.T) {
	tests := []struct {
		asked *int64
		want  time.Duration
	}{
		{nil, 30 * time.Minute}, {ms(5000), 5 * time.Second}, {ms(0), time.Second}, {ms(-1), time.Second}, {ms(1 << 60), 2 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServed(t, nil)
				task, err := s.Create(t.Context(), tt.asked, after(100*time.Hour, "", nil))
				if err != nil {
					t.Fatal(err)
				}
				if got := time.Duration(*task.TTL) * time.Millisecond; got != tt.want {
					t.Errorf("ttl: got %v, want %v", got, tt.want)
				}
				waits := make(chan error, 1)
				begin := time.Now()
				go func() { waits <- errOf(s, task.TaskID) }()
				if err := <-waits; !errors.Is(err, mcp.ErrInvalidParams) || time.Since(begin) != tt.want {
					t.Errorf("Result: got %v after %v, want -32602 after %v", err, time.Since(begin), tt.want)
				}
				synctest.Wait()
				if kept, working := s.Len(); kept+working != 0 {
					t.Errorf("%d tasks are kept, %d worked on", kept, working)
				}
			})
		})
	}
}

// TASK-21: limits on what is worked on at once, and on what is kept; a cancelled task
// makes room (TASK-12).
func TestServedLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, func(o *watch.ServedOptions) { o.Working, o.Limit = 2, 3 })
		create := func(d time.Duration) (mcp.Task, error) { return s.Create(t.Context(), nil, after(d, `{}`, nil)) }
		first, err := create(time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := create(time.Second); err != nil {
			t.Fatal(err)
		}
		if _, err := create(0); !errors.Is(err, mcp.ErrInternal) {
			t.Errorf("a third at once: got %v, want an error", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := create(time.Second); err != nil {
			t.Errorf("a third: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := create(0); !errors.Is(err, mcp.ErrInternal) {
			t.Errorf("a fourth to keep: got %v, want an error", err)
		}
		if _, err := s.Cancel(first.TaskID); err != nil {
			t.Fatal(err)
		}
		if _, err := create(0); err != nil {
			t.Errorf("a fourth, in place of a cancelled one: %v", err)
		}
	})
}

// TASK-13, TASK-17: the list has all and only what can be read, in pages; ids can not
// be guessed.
func TestServedList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, func(o *watch.ServedOptions) { o.Working, o.Limit = 1000, 1000 })
		ids := map[string]bool{}
		for range 120 {
			task, err := s.Create(t.Context(), nil, after(time.Minute, `{}`, nil))
			if err != nil {
				t.Fatal(err)
			}
			if len(task.TaskID) < 22 || ids[task.TaskID] {
				t.Errorf("id %q", task.TaskID)
			}
			ids[task.TaskID] = true
		}
		var cursor *string
		var pages []int
		for {
			page, err := s.List(cursor)
			if err != nil {
				t.Fatal(err)
			}
			pages = append(pages, len(page.Tasks))
			for _, task := range page.Tasks {
				if !ids[task.TaskID] {
					t.Errorf("%s is listed twice, or nobody's", task.TaskID)
				}
				delete(ids, task.TaskID)
				if _, err := s.Get(task.TaskID); err != nil {
					t.Errorf("a listed task: %v", err)
				}
			}
			if cursor = page.NextCursor; cursor == nil {
				break
			}
		}
		if fmt.Sprint(pages) != "[50 50 20]" || len(ids) != 0 {
			t.Errorf("got pages of %v, %d tasks are missing", pages, len(ids))
		}
	})
}

// The failure or end of a task's actor ends the task, and those who wait for it, alone.
func TestServedActorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := newServed(t, nil)
		one, err := s.Create(t.Context(), nil, after(time.Hour, `{}`, nil))
		if err != nil {
			t.Fatal(err)
		}
		other, err := s.Create(t.Context(), nil, after(time.Hour, `{}`, nil))
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- errOf(s, one.TaskID) }()
		synctest.Wait()
		p.refs[0].Stop()
		if err := <-done; !errors.Is(err, mcp.ErrInternal) {
			t.Errorf("Result: got %v, want an error", err)
		}
		if got, err := s.Get(other.TaskID); err != nil || got.Status != mcp.TaskWorking {
			t.Errorf("another task: got %+v, %v", got, err)
		}
		failing := watch.NewServed(watch.ServedOptions{Spawn: func(_ actors.Spec, then func(actors.Ref, error)) { then(actors.Ref{}, errCut) }})
		if _, err := failing.Create(t.Context(), nil, after(0, `{}`, nil)); !errors.Is(err, mcp.ErrInternal) {
			t.Errorf("without an actor: got %v", err)
		}
		if kept, _ := failing.Len(); kept != 0 {
			t.Errorf("%d tasks are kept", kept)
		}
	})
}
