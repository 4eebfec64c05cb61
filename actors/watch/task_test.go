package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// TASK-06, TASK-07, TASK-08, TASK-09, TASK-12, TASK-15, TASK-16, XTASK-06, XTASK-07,
// XTASK-08, XTASK-16, XTASK-20: what a task may say, and what comes of it.
func TestOutcomes(t *testing.T) {
	both := func(f func(g watch.Generation)) { f(watch.Core); f(watch.Extension) }
	type test struct {
		name   string
		g      watch.Generation
		seed   string   // status
		says   []string // to tasks/get, the last again and again; "!" is -32602
		result string   // of tasks/result, "!" is -32602
		want   string   // the outcome, or a part of its error
		kind   error
		asks   string
	}
	tests := []test{
		{name: "completed", g: watch.Core, seed: "working", says: []string{core("working", ""), core("completed", "")}, result: `{"content":[]}`, want: `{"content":[]}`, asks: "get get result"},
		{name: "completed at once", g: watch.Core, seed: "completed", result: `{"content":[]}`, want: `{"content":[]}`, asks: "result"},
		{name: "failed tool", g: watch.Core, seed: "working", says: []string{core("failed", "")}, result: `{"content":[],"isError":true}`, want: `{"content":[],"isError":true}`, asks: "get result"},
		{name: "failed request", g: watch.Core, seed: "working", says: []string{core("failed", "")}, result: "!", want: "no such task", kind: mcp.ErrInvalidParams, asks: "get result"},
		{name: "cancelled", g: watch.Core, seed: "working", says: []string{core("cancelled", `,"statusMessage":"why"`)}, want: "why", kind: watch.ErrCancelled, asks: "get"},
		{name: "completed", g: watch.Extension, seed: "working", says: []string{extension("working", ""), extension("completed", `,"result":{"content":[],"isError":true}`)}, want: `{"content":[],"isError":true}`, asks: "get get"},
		{name: "completed at once", g: watch.Extension, seed: "completed", says: []string{extension("completed", `,"result":{"content":[]}`)}, want: `{"content":[]}`, asks: "get"},
		{name: "failed", g: watch.Extension, seed: "working", says: []string{extension("failed", `,"error":{"code":-32603,"message":"broken"}`)}, want: "broken", kind: mcp.ErrInternal, asks: "get"},
		{name: "cancelled", g: watch.Extension, seed: "working", says: []string{extension("cancelled", "")}, want: "cancelled", kind: watch.ErrCancelled, asks: "get"},
		{name: "odd result", g: watch.Extension, seed: "working", says: []string{extension("completed", `,"result":{"resultType":"input_required"}`)}, want: "input_required", kind: call.ErrInvalidResponse, asks: "get"},
		{name: "without its result", g: watch.Extension, seed: "working", says: []string{extension("completed", "")}, want: "result", kind: call.ErrInvalidResponse, asks: "get get get get get"},
	}
	both(func(g watch.Generation) {
		of := core
		if g == watch.Extension {
			of = extension
		}
		tests = append(tests,
			test{name: "unknown", g: g, seed: "working", says: []string{"!"}, want: "not known", kind: watch.ErrUnknown, asks: "get"},
			test{name: "of another", g: g, seed: "working", says: []string{strings.Replace(of("working", ""), "t1", "t2", 1)}, want: "another task", kind: call.ErrInvalidResponse, asks: "get get get get get"},
			test{name: "unknown status", g: g, seed: "working", says: []string{of("dancing", "")}, want: "dancing", kind: call.ErrInvalidResponse, asks: "get get get get get"},
			test{name: "no task", g: g, seed: "working", says: []string{`{}`}, want: "taskId", kind: call.ErrInvalidResponse, asks: "get get get get get"},
		)
	})
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d %s", tt.g, tt.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) {
					answer := tt.result
					if req.Method == mcp.MethodGetTask {
						answer = tt.says[min(n, len(tt.says)-1)]
						n++
					}
					if answer == "!" {
						return "", invalid()
					}
					return answer, nil
				})
				w, _, task := watched(t, p.tasks(nil), tt.g, seed(t, tt.g, tt.seed))
				out := w.outcome(t)
				switch {
				case tt.kind == nil && (out.Err != nil || string(out.Result.Raw) != tt.want):
					t.Errorf("got %s, %v, want %s", out.Result.Raw, out.Err, tt.want)
				case tt.kind != nil && (!errors.Is(out.Err, tt.kind) || !strings.Contains(out.Err.Error(), tt.want)):
					t.Errorf("got %s, %v, want %q, %v", out.Result.Raw, out.Err, tt.want, tt.kind)
				}
				if got := p.methods(); got != tt.asks {
					t.Errorf("asked for %q, want %q", got, tt.asks)
				}
				if again, over := task.Outcome(); !over || again.Err != out.Err {
					t.Errorf("Outcome: got %v, %v, want %v", again, over, out)
				}
				if w2, _, _ := task, 0, 0; w2.ID() != "t1" || w2.Tag() != "tag" || w2.Generation() != tt.g {
					t.Errorf("got task %q, %v, %v", w2.ID(), w2.Tag(), w2.Generation())
				}
			})
		})
	}
}

// TASK-08, XTASK-09: a task is asked for at its own interval, a little later but never
// sooner; what it wishes is bounded, and may change.
func TestInterval(t *testing.T) {
	tests := []struct {
		name        string
		poll        string
		first, then time.Duration
	}{
		{"its own", `2000`, 2 * time.Second, 2 * time.Second},
		{"too often", `1`, 100 * time.Millisecond, 100 * time.Millisecond},
		{"hardly ever", `99999999999999`, 5 * time.Minute, 5 * time.Minute},
		{"negative", `-5`, time.Second, 2 * time.Second},
		{"not said", ``, time.Second, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				said := `{"taskId":"t1","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":null}`
				if tt.poll != "" {
					said = strings.TrimSuffix(said, "}") + `,"pollIntervalMs":` + tt.poll + "}"
				}
				p := newPeer(t, func(context.Context, *call.Request) (string, error) { return said, nil })
				s, err := watch.Extension.Decode([]byte(said))
				if err != nil {
					t.Fatal(err)
				}
				_, leave, _ := watched(t, p.tasks(nil), watch.Extension, &s)
				time.Sleep(2*tt.then + tt.then/2 + tt.first)
				leave()
				at := p.times(mcp.MethodGetTask)
				if len(at) < 2 {
					t.Fatalf("asked at %v, want twice at least", at)
				}
				check := func(what string, got, want time.Duration) {
					if got < want || got > want+want/10+time.Millisecond {
						t.Errorf("%s: after %v, want %v and up to a tenth more", what, got, want)
					}
				}
				check("first", at[0], tt.first)
				check("second", at[1]-at[0], tt.then)
			})
		})
	}
}

// TASK-10: input_required opens tasks/result, as a stream for the questions, and the
// task is still asked for. The result is the outcome whatever tasks/get says.
func TestStreamForQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPeer(t, func(ctx context.Context, req *call.Request) (string, error) {
			if req.Method == mcp.MethodGetTask {
				return core("input_required", ""), nil
			}
			if req.Idle != -1 || req.Max != -1 {
				t.Errorf("tasks/result has limits: %v, %v", req.Idle, req.Max)
			}
			if req.Tag != "tag" || req.Name != "t1" || !req.Safe {
				t.Errorf("tasks/result: got %+v", req)
			}
			<-release
			return `{"content":[]}`, nil
		})
		w, _, _ := watched(t, p.tasks(nil), watch.Core, seed(t, watch.Core, "working"))
		time.Sleep(10 * time.Second)
		close(release)
		if out := w.outcome(t); out.Err != nil {
			t.Errorf("got %v", out.Err)
		}
		if got := len(p.times(mcp.MethodTaskResult)); got != 1 {
			t.Errorf("tasks/result was asked for %d times, want once", got)
		}
		if got := len(p.times(mcp.MethodGetTask)); got < 8 {
			t.Errorf("tasks/get was asked for %d times in 10 s, want it to go on", got)
		}
	})
}

// A connection that is lost, a server that is overloaded: the task is asked for again,
// a bounded number of times, and a lost tasks/result is fetched again.
func TestFailuresOnTheWay(t *testing.T) {
	tests := []struct {
		name string
		errs []error // of what comes first
		want error
	}{
		{"two losses", []error{&call.LostError{Err: errCut}, &call.LostError{Err: errCut}}, nil},
		{"overload", []error{mcp.ErrInternal, mcp.Errorf(7, "slow down")}, nil},
		{"time", []error{&call.TimeoutError{}}, nil},
		{"for good", []error{errCut, errCut, errCut, errCut, errCut, errCut}, errCut},
		{"no such method", []error{mcp.ErrMethodNotFound}, mcp.ErrMethodNotFound},
		{"undeclared", []error{mcp.ErrMissingClientCapability}, mcp.ErrMissingClientCapability},
		{"closing", []error{call.ErrClosed}, call.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n atomic.Int32
				lost := false
				p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) {
					if req.Method == mcp.MethodTaskResult {
						if !lost {
							lost = true
							return "", &call.LostError{Err: errCut}
						}
						return `{"content":[]}`, nil
					}
					if i := int(n.Add(1)) - 1; i < len(tt.errs) {
						return "", tt.errs[i]
					}
					return core("completed", ""), nil
				})
				w, _, _ := watched(t, p.tasks(nil), watch.Core, seed(t, watch.Core, "working"))
				if out := w.outcome(t); !errors.Is(out.Err, tt.want) {
					t.Errorf("got %v, want %v", out.Err, tt.want)
				}
			})
		})
	}
}

// TASK-06: a task that was completed stays so, whatever a late reading says.
func TestFinalIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) {
			if req.Method == mcp.MethodGetTask {
				return core("completed", ""), nil
			}
			<-release
			return `{"content":[]}`, nil
		})
		ts := p.tasks(nil)
		w, _, task := watched(t, ts, watch.Core, nil)
		synctest.Wait()
		late := *seed(t, watch.Core, "cancelled")
		ts.Noticed(late)
		synctest.Wait()
		if s, _ := task.State(); s.Status != mcp.TaskCompleted {
			t.Errorf("status: got %s, want completed", s.Status)
		}
		close(release)
		if out := w.outcome(t); out.Err != nil {
			t.Errorf("got %v", out.Err)
		}
	})
}

// TASK-14: a notice of a core task is a hint to ask, no more; one that says nothing
// new is not even that, and a flood of them does not make us ask faster than is decent.
func TestHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) { return core("working", ""), nil })
		ts := p.tasks(nil)
		s := seed(t, watch.Core, "working")
		s.Poll = 5 * time.Minute
		_, leave, _ := watched(t, ts, watch.Core, s)
		time.Sleep(10 * time.Second)
		ts.Noticed(*seed(t, watch.Core, "working"))
		synctest.Wait()
		if got := p.methods(); got != "" {
			t.Errorf("asked for %q after a notice without news", got)
		}
		for range 1000 {
			done := *seed(t, watch.Core, "completed")
			ts.Noticed(done)
			done.ID = "t2" // of nobody
			ts.Noticed(done)
			time.Sleep(time.Millisecond)
		}
		leave()
		if n := len(p.times(mcp.MethodGetTask)); n < 2 || n > 11 {
			t.Errorf("asked %d times in a second of hints, want some and at most 11", n)
		}
	})
}

// XTASK-14: a notice of the extension says the same as tasks/get; an older one is
// dropped, and a task that is announced is asked for rarely.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return extension("working", ""), nil })
		ts := p.tasks(nil)
		w, _, task := watched(t, ts, watch.Extension, seed(t, watch.Extension, "working"))
		ts.Announced("t1", true)
		time.Sleep(5 * time.Minute)
		if n := len(p.times(mcp.MethodGetTask)); n < 5 || n > 12 {
			t.Errorf("asked %d times in 5 min, want about every 30 s", n)
		}
		decode := func(raw string) watch.State {
			s, err := watch.Extension.Decode([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		old := strings.Replace(extension("completed", `,"result":{"old":true}`), `"lastUpdatedAt":"2026`, `"lastUpdatedAt":"2025`, 1)
		ts.Noticed(decode(old))
		synctest.Wait()
		if s, _ := task.State(); s.Status != mcp.TaskWorking {
			t.Errorf("an older notice was taken: %s", s.Status)
		}
		ts.Noticed(decode(extension("completed", `,"result":{"content":[]}`)))
		if out := w.outcome(t); string(out.Result.Raw) != `{"content":[]}` {
			t.Errorf("got %s, %v", out.Result.Raw, out.Err)
		}
	})
}

// A subscription that ends has the task asked for at once.
func TestAnnouncedNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return extension("working", ""), nil })
		ts := p.tasks(nil)
		_, leave, _ := watched(t, ts, watch.Extension, seed(t, watch.Extension, "working"))
		defer leave()
		ts.Announced("t1", true)
		time.Sleep(2 * time.Second) // the first is still due at its own interval
		before := len(p.times(mcp.MethodGetTask))
		time.Sleep(3 * time.Second)
		ts.Announced("t1", false)
		time.Sleep(time.Millisecond)
		if n := len(p.times(mcp.MethodGetTask)); n != before+1 {
			t.Errorf("asked %d times, want once more than %d", n, before)
		}
	})
}

// CANC-05, TASK-12, XTASK-13: an owner that leaves, or whose time is up, cancels the
// task with tasks/cancel; others only leave.
func TestCancel(t *testing.T) {
	tests := []struct {
		name    string
		owner   bool
		limit   time.Duration
		refuses bool // the peer has no tasks/cancel
		want    string
	}{
		{"owner leaves", true, 0, false, "cancel"},
		{"another leaves", false, 0, false, ""},
		{"owner without time", true, time.Second / 2, false, "cancel"},
		{"another without time", false, time.Second / 2, false, ""},
		{"the peer can not", true, 0, true, ""},
	}
	for _, g := range []watch.Generation{watch.Core, watch.Extension} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%d %s", g, tt.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newPeer(t, func(context.Context, *call.Request) (string, error) {
						if g == watch.Core {
							return core("cancelled", ""), nil
						}
						return `{"resultType":"complete"}`, nil
					})
					ts := p.tasks(func(o *watch.Options) { o.Cancels = func() bool { return !tt.refuses } })
					w := newWaiter()
					w.Owner, w.Limit, w.Timeout = tt.owner, tt.limit, errCut
					task, leave, err := ts.Watch(g, "t1", seed(t, g, "working"), nil, &w.Waiter)
					if err != nil {
						t.Fatal(err)
					}
					if tt.limit > 0 {
						if out := w.outcome(t); out.Err != errCut {
							t.Errorf("got %v, want %v", out.Err, errCut)
						}
					} else {
						leave()
					}
					leave() // does no harm
					time.Sleep(time.Minute)
					if got := p.methods(); got != tt.want {
						t.Errorf("asked for %q, want %q", got, tt.want)
					}
					if out, over := task.Outcome(); over != tt.owner || over && !errors.Is(out.Err, watch.ErrCancelled) {
						t.Errorf("the task ended: %v (%v), want %v", over, out.Err, tt.owner)
					}
					if len(w.done) != 0 {
						t.Error("a waiter that has left got an outcome")
					}
				})
			})
		}
	}
}

// XTASK-13: the server may end a task otherwise than cancelled, and who still waits
// gets that.
func TestCancelIsCooperative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) {
			if req.Method == mcp.MethodCancelTask {
				return `{"resultType":"complete"}`, nil
			}
			return extension("completed", `,"result":{"content":[]}`), nil
		})
		ts := p.tasks(nil)
		owner := newWaiter()
		owner.Owner = true
		_, leave, err := ts.Watch(watch.Extension, "t1", seed(t, watch.Extension, "working"), nil, &owner.Waiter)
		if err != nil {
			t.Fatal(err)
		}
		w, _, _ := watched(t, ts, watch.Extension, nil)
		leave()
		if out := w.outcome(t); out.Err != nil {
			t.Errorf("got %v, want the result", out.Err)
		}
	})
}

// TIME-05: while the task is held, limits stand still; those who come meanwhile have
// all of theirs.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return core("working", ""), nil })
		ts := p.tasks(nil)
		begin := time.Now()
		first := newWaiter()
		first.Limit, first.Timeout = 10*time.Second, errCut
		task, _, err := ts.Watch(watch.Core, "t1", seed(t, watch.Core, "working"), nil, &first.Waiter)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		one, two := task.Hold(), task.Hold()
		time.Sleep(time.Hour)
		second := newWaiter()
		second.Limit, second.Timeout = 7*time.Second, errCut
		task.Wait(&second.Waiter)
		one()
		one()
		time.Sleep(time.Hour)
		two()
		first.outcome(t)
		if took := time.Since(begin) - 2*time.Hour; took != 10*time.Second {
			t.Errorf("the first had %v, want 10 s", took)
		}
		second.outcome(t)
		if took := time.Since(begin) - 2*time.Hour - 4*time.Second; took != 7*time.Second {
			t.Errorf("the second had %v, want 7 s", took)
		}
	})
}

// The peer is asked, at its interval, only while a caller waits.
func TestUnwatchedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status atomic.Value
		status.Store("working")
		p := newPeer(t, func(_ context.Context, req *call.Request) (string, error) {
			if req.Method == mcp.MethodTaskResult {
				return `{}`, nil
			}
			return core(status.Load().(string), ""), nil
		})
		ts := p.tasks(nil)
		_, leave, _ := watched(t, ts, watch.Core, seed(t, watch.Core, "working"))
		time.Sleep(3500 * time.Millisecond)
		leave()
		n := len(p.times(mcp.MethodGetTask))
		time.Sleep(time.Hour)
		if got := len(p.times(mcp.MethodGetTask)); got != n {
			t.Errorf("asked %d times while nobody waited", got-n)
		}
		status.Store("completed")
		w, _, _ := watched(t, ts, watch.Core, nil)
		if out := w.outcome(t); out.Err != nil {
			t.Errorf("got %v", out.Err)
		}
	})
}

// The failure of a watcher ends exactly the calls that wait for its task, and so does
// its end from outside.
func TestFailureEndsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return core("working", ""), nil })
		ts := p.tasks(func(o *watch.Options) {
			o.Cancels = func() bool { panic(errCut) } // in the watcher of the one that is left
		})
		watchOne := func(id string, owner bool) (*waiting, *watch.Task, func()) {
			w := newWaiter()
			w.Owner = owner
			task, leave, err := ts.Watch(watch.Core, id, seed(t, watch.Core, "working"), nil, &w.Waiter)
			if err != nil {
				t.Fatal(err)
			}
			return w, task, leave
		}
		panicking, _, _ := watchOne("a", false)
		_, _, leave := watchOne("a", true)
		killed, task, _ := watchOne("b", false)
		bystander, other, _ := watchOne("c", false)
		synctest.Wait()
		leave()
		task.Ref().Stop()
		for name, w := range map[string]*waiting{"panicking": panicking, "killed": killed} {
			if out := w.outcome(t); !errors.Is(out.Err, watch.ErrFailed) || errors.Is(out.Err, errCut) != (name == "panicking") {
				t.Errorf("%s: got %v", name, out.Err)
			}
		}
		time.Sleep(10 * time.Second)
		if len(bystander.done) != 0 || !other.Ref().Alive() {
			t.Error("another task was ended as well")
		}
		if n := ts.Len(); n != 1 {
			t.Errorf("%d tasks are watched, want 1", n)
		}
	})
}

// Limits: one task too many is refused, unless there is one that nobody waits for.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(context.Context, *call.Request) (string, error) { return core("working", ""), nil })
		ts := p.tasks(func(o *watch.Options) { o.Limit = 2 })
		w := newWaiter()
		_, leave, err := ts.Watch(watch.Core, "a", nil, nil, &w.Waiter)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ts.Watch(watch.Core, "b", nil, nil, &newWaiter().Waiter); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ts.Watch(watch.Core, "c", nil, nil, nil); !errors.Is(err, watch.ErrBusy) {
			t.Errorf("a third: got %v, want %v", err, watch.ErrBusy)
		}
		leave()
		synctest.Wait()
		if _, _, err := ts.Watch(watch.Core, "c", nil, nil, nil); err != nil {
			t.Errorf("a third, in place of one that nobody waits for: %v", err)
		}
		if got := ts.IDs(watch.Core); len(got) != 1 || got[0] != "b" {
			t.Errorf("IDs: got %v, want b", got)
		}
	})
}

// A system that ends, ends those who wait.
func TestNoActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(ctx context.Context, _ *call.Request) (string, error) { return never(ctx) })
		ts := watch.NewTasks(watch.Options{Do: p.do, Spawn: func(_ actors.Spec, then func(actors.Ref, error)) { then(actors.Ref{}, errCut) }})
		w, _, _ := watched(t, ts, watch.Core, nil)
		if out := w.outcome(t); !errors.Is(out.Err, errCut) {
			t.Errorf("got %v, want %v", out.Err, errCut)
		}
		running := p.tasks(nil)
		other, _, _ := watched(t, running, watch.Core, nil)
		synctest.Wait()
		if err := p.sys.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if out := other.outcome(t); !errors.Is(out.Err, watch.ErrFailed) {
			t.Errorf("got %v, want %v", out.Err, watch.ErrFailed)
		}
	})
}

// Ten thousand tasks in their pause hold no goroutine each.
func TestManyPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(ctx context.Context, _ *call.Request) (string, error) { return never(ctx) })
		ts := p.tasks(func(o *watch.Options) { o.Limit = 10_000 })
		s := seed(t, watch.Core, "working")
		s.Poll = 5 * time.Minute
		before := runtime.NumGoroutine()
		var leaves []func()
		for i := range 10_000 {
			_, leave, err := ts.Watch(watch.Core, fmt.Sprint(i), s, nil, &newWaiter().Waiter)
			if err != nil {
				t.Fatal(err)
			}
			leaves = append(leaves, leave)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 500 { // the system keeps some for its next work
			t.Errorf("%d goroutines for 10,000 tasks", n)
		}
		for _, leave := range leaves {
			leave()
		}
	})
}

// Whatever happens, whoever waits gets one outcome, and nothing is left.
func TestChaos(t *testing.T) {
	for s := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				r := rand.New(rand.NewPCG(s, 1))
				dice := func(n int) int {
					mu.Lock()
					defer mu.Unlock()
					return r.IntN(n)
				}
				statuses := []string{"working", "working", "working", "input_required", "completed", "failed", "cancelled"}
				p := newPeer(t, nil)
				p.answer = func(ctx context.Context, req *call.Request) (string, error) {
					select {
					case <-time.After(time.Duration(dice(2000)) * time.Millisecond):
					case <-ctx.Done():
						return "", context.Cause(ctx)
					}
					switch dice(10) {
					case 0:
						return "", &call.LostError{Err: errCut}
					case 1:
						return "", mcp.ErrInternal
					case 2:
						if req.Method == mcp.MethodTaskResult {
							return never(ctx)
						}
					}
					more := ""
					if req.Method == mcp.MethodGetTask {
						more = `,"result":{},"error":{"code":1,"message":"x"},"inputRequests":{"` + fmt.Sprint(dice(3)) + `":{"method":"roots/list"}}`
					}
					id := strings.Split(string(req.Params), `"`)[3]
					text := strings.Replace(extension(statuses[dice(len(statuses))], more), "t1", id, 1)
					return strings.Replace(strings.Replace(text, "ttlMs", "ttl", 1), "pollIntervalMs", "pollInterval", 1), nil
				}
				ts := p.tasks(func(o *watch.Options) {
					o.Answer = func(ctx context.Context, _ *watch.Task, q mcp.InputRequests) (mcp.InputResponses, error) {
						if dice(4) == 0 {
							<-ctx.Done()
							return nil, context.Cause(ctx)
						}
						return mcp.InputResponses{"0": []byte(`{}`)}, nil
					}
				})
				var outcomes, waiters, left atomic.Int32
				var wg sync.WaitGroup
				for i := range 200 {
					wg.Go(func() {
						g := watch.Generation(1 + i%2)
						w := newWaiter()
						w.Owner = dice(2) == 0
						w.Limit, w.Timeout = time.Duration(1+dice(20))*time.Second, errCut
						task, leave, err := ts.Watch(g, fmt.Sprint(i/4*4+i%2), nil, nil, &w.Waiter)
						if err != nil {
							t.Errorf("Watch: %v", err)
							return
						}
						waiters.Add(1)
						time.Sleep(time.Duration(dice(5000)) * time.Millisecond)
						switch dice(6) {
						case 0:
							task.Ref().Stop()
						case 1:
							leave()
							if len(w.done) == 0 {
								left.Add(1)
								return
							}
						case 2:
							release := task.Hold()
							time.AfterFunc(time.Duration(dice(30))*time.Second, release)
						case 3:
							task.Poke()
						}
						<-w.done
						outcomes.Add(1)
						if len(w.done) != 0 {
							t.Error("a second outcome")
						}
					})
				}
				wg.Wait()
				time.Sleep(5 * time.Minute)
				if outcomes.Load()+left.Load() != waiters.Load() {
					t.Errorf("%d outcomes and %d left, of %d", outcomes.Load(), left.Load(), waiters.Load())
				}
				t.Logf("%d outcomes, %d left, %d requests, %d tasks still known", outcomes.Load(), left.Load(), len(strings.Fields(p.methods())), ts.Len())
			})
		})
	}
}

// What peers say of tasks is read or refused, and never more.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(core("working", "")), true)
	f.Add([]byte(extension("completed", `,"result":{}`)), false)
	f.Add([]byte(extension("input_required", `,"inputRequests":{"a":{"method":"roots/list"}}`)), false)
	f.Add([]byte(`{"taskId":"","status":"working","ttl":1e400}`), true)
	f.Fuzz(func(t *testing.T, raw []byte, isCore bool) {
		g := watch.Extension
		if isCore {
			g = watch.Core
		}
		s, err := g.Decode(raw)
		if err == nil && (s.ID == "" || s.Poll < 0 || s.Poll > 101*365*24*time.Hour) {
			t.Errorf("Decode(%s): got %+v", raw, s)
		}
	})
}
