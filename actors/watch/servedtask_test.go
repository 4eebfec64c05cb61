package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

func form(message string) mcp.InputRequest {
	return mcp.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(fmt.Sprintf(`{"message":%q}`, message))}
}

func keysOf(m mcp.InputRequests) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

// XTASK-06, XTASK-10, XTASK-11, XTASK-20: all open questions are shown, partial answers
// leave the rest, unknown and answered keys are ignored, and a key that is asked again
// is another one.
func TestServedAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told []string
		s, _ := newServed(t, func(o *watch.ServedOptions) {
			o.OnStatus = func(w *watch.ServedTask) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, w.Extension().Status)
			}
		})
		task, err := s.Begin(t.Context(), watch.Work{Tag: "tag", Run: func(ctx context.Context, w *watch.ServedTask) (watch.Ending, error) {
			first, err := w.Ask(ctx, mcp.InputRequests{"a": form("A?"), "b": form("B?")})
			if err != nil {
				return watch.Ending{}, err
			}
			second, err := w.Ask(ctx, mcp.InputRequests{"a": form("A again?")})
			if err != nil {
				return watch.Ending{}, err
			}
			return watch.Ending{Result: json.RawMessage(fmt.Sprintf(`{"a":%s,"b":%s,"again":%s}`, first["a"], first["b"], second["a"]))}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		want := func(status, keys string) {
			t.Helper()
			synctest.Wait()
			got := task.Extension()
			if got.Status != status || keysOf(got.InputRequests) != keys {
				t.Errorf("got %s with the questions %q, want %s with %q", got.Status, keysOf(got.InputRequests), status, keys)
			}
			if err := got.ValidateDetailed(); err != nil {
				t.Error(err)
			}
		}
		answer := func(key, value string) { task.Answer(mcp.InputResponses{key: json.RawMessage(value)}) }
		want(mcp.TaskInputRequired, "a b")
		if got := task.Core().Status; got != mcp.TaskWorking { // it has no way to ask there
			t.Errorf("as a core task: got %s, want working", got)
		}
		answer("c", `0`)
		want(mcp.TaskInputRequired, "a b")
		answer("b", `1`)
		want(mcp.TaskInputRequired, "a")
		answer("b", `2`)
		answer("a", `3`)
		want(mcp.TaskInputRequired, "a-2")
		answer("a", `4`)
		want(mcp.TaskInputRequired, "a-2")
		answer("a-2", `5`)
		want(mcp.TaskCompleted, "")
		if got := string(task.Extension().Result); got != `{"a":3,"b":1,"again":5}` {
			t.Errorf("result: got %s", got)
		}
		answer("a", `6`) // of a task that has ended
		if got := fmt.Sprint(told); got != "[input_required input_required working input_required working completed]" {
			t.Errorf("told of %s", got)
		}
		if task.Tag() != "tag" {
			t.Errorf("Tag: got %v", task.Tag())
		}
	})
}

// A question that nobody waits for any more is withdrawn, and one of a task that ends is
// not waited for.
func TestServedAskEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, nil)
		errs := make(chan error, 2)
		task, err := s.Begin(t.Context(), watch.Work{Run: func(ctx context.Context, w *watch.ServedTask) (watch.Ending, error) {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := w.Ask(short, mcp.InputRequests{"a": form("A?")})
			errs <- err
			_, err = w.Ask(ctx, mcp.InputRequests{"b": form("B?")})
			errs <- err
			return watch.Ending{}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Ask: got %v, want its context's end", err)
		}
		synctest.Wait()
		if got := keysOf(task.Extension().InputRequests); got != "b" {
			t.Errorf("got the questions %q, want b", got)
		}
		if !task.Cancel() {
			t.Error("Cancel: got false")
		}
		if err := <-errs; !errors.Is(err, watch.ErrTaskCancelled) {
			t.Errorf("Ask of a cancelled task: got %v", err)
		}
		if _, err := task.Ask(t.Context(), mcp.InputRequests{"c": form("C?")}); !errors.Is(err, watch.ErrTaskCancelled) {
			t.Errorf("Ask after the end: got %v", err)
		}
	})
}

// TASK-10: a question in a request of ours makes a core task wait for input; the
// extension shows none that it could answer.
func TestServedAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, nil)
		task, err := s.Begin(t.Context(), watch.Work{Run: func(ctx context.Context, w *watch.ServedTask) (watch.Ending, error) {
			one, other := w.Asking(), w.Asking()
			time.Sleep(time.Second)
			one()
			time.Sleep(time.Second)
			other()
			time.Sleep(time.Second)
			return watch.Ending{Result: json.RawMessage(`{}`)}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{mcp.TaskInputRequired, mcp.TaskInputRequired, mcp.TaskWorking, mcp.TaskCompleted} {
			synctest.Wait()
			if got := task.Core().Status; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := task.Extension().Status; got == mcp.TaskInputRequired {
				t.Errorf("as a task of the extension: got %s", got)
			}
			time.Sleep(time.Second)
		}
	})
}

// TASK-07, XTASK-08: a result that says that the tool has failed is a failed core task
// and a complete one of the extension.
func TestServedFailedResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, nil)
		task, err := s.Begin(t.Context(), watch.Work{Run: func(context.Context, *watch.ServedTask) (watch.Ending, error) {
			return watch.Ending{Result: json.RawMessage(`{"isError":true}`), Failed: true, Message: "no paper"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		<-task.Over().Done()
		if got := task.Core(); got.Status != mcp.TaskFailed || got.StatusMessage != "no paper" {
			t.Errorf("Core: got %+v", got)
		}
		if got := task.Extension(); got.Status != mcp.TaskCompleted || string(got.Result) != `{"isError":true}` || got.Error != nil {
			t.Errorf("Extension: got %+v", got)
		}
	})
}

// TASK-15, TASK-21: a task whose actor is killed has failed, once, and is there for its
// time; what tasks keep is bounded.
func TestServedLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var told, gone []string
		s, _ := newServed(t, func(o *watch.ServedOptions) {
			o.Lasting, o.MaxBytes = true, 100
			o.OnStatus = func(w *watch.ServedTask) { mu.Lock(); defer mu.Unlock(); told = append(told, w.Core().Status) }
			o.OnGone = func(w *watch.ServedTask) { mu.Lock(); defer mu.Unlock(); gone = append(gone, w.ID()) }
		})
		begin := func(bytes int64, result string) (*watch.ServedTask, error) {
			work := after(time.Hour, result, nil)
			if result != "" {
				work = after(0, result, nil)
			}
			return s.Begin(t.Context(), watch.Work{TTL: ms(60_000), Bytes: bytes, Run: func(ctx context.Context, _ *watch.ServedTask) (watch.Ending, error) {
				raw, err := work(ctx)
				return watch.Ending{Result: raw}, err
			}})
		}
		task, err := begin(60, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := begin(60, ""); !errors.Is(err, mcp.ErrInternal) {
			t.Errorf("more than may be kept: got %v, want an error", err)
		}
		synctest.Wait()
		task.Actor().Stop()
		synctest.Wait()
		got, err := s.Get(task.ID())
		if err != nil || got.Status != mcp.TaskFailed || fmt.Sprint(told) != "[failed]" {
			t.Errorf("after its actor was killed: got %+v, %v, told %v; want failed once", got, err, told)
		}
		big, err := begin(0, `"`+strings.Repeat("x", 200)+`"`)
		if err != nil {
			t.Fatal(err)
		}
		<-big.Over().Done()
		if got := big.Core(); got.Status != mcp.TaskFailed || !strings.Contains(got.StatusMessage, "no room") {
			t.Errorf("a result that is too large: got %+v", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := s.Get(task.ID()); !errors.Is(err, mcp.ErrInvalidParams) {
			t.Errorf("after its time: got %v, want -32602", err)
		}
		if list, _ := s.List(nil); len(list.Tasks) != 0 {
			t.Errorf("after their time: got %+v", list.Tasks)
		}
		if kept, _ := s.Len(); kept != 0 || len(gone) != 2 {
			t.Errorf("%d tasks are kept, %d have gone, want 0 and 2", kept, len(gone))
		}
	})
}

// XTASK-04: a task that can not be made durable is none.
func TestServedKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServed(t, nil)
		ran := false
		_, err := s.Begin(t.Context(), watch.Work{
			Keep: func(_ context.Context, w *watch.ServedTask) error {
				if _, err := s.Get(w.ID()); err != nil || ran {
					t.Errorf("before it is durable: got %v, its work has begun: %v", err, ran)
				}
				return errCut
			},
			Run: func(context.Context, *watch.ServedTask) (watch.Ending, error) { ran = true; return watch.Ending{}, nil },
		})
		synctest.Wait()
		if kept, _ := s.Len(); !errors.Is(err, mcp.ErrInternal) || ran || kept != 0 {
			t.Errorf("got %v, work done: %v, kept: %d", err, ran, kept)
		}
	})
}
