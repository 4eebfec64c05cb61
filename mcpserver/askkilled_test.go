package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// bang is a message that an actor of fragile fails by.
type bang struct{}

// fragile returns a system whose actors can be made to panic. It must be empty when the
// test ends, after the server that is in it has closed.
func fragile(t *testing.T) *actors.System {
	t.Helper()
	sys, err := actors.NewSystem(&actors.Options{Trace: func(ev actors.TraceEvent) {
		if _, ok := ev.Message.(bang); ok {
			panic("bang")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return sys
}

// empty closes the server, and fails if anything is left of it.
func empty(t *testing.T, s *mcpserver.Server, sys *actors.System) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := sys.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if c := sys.Census(); c.Live() != 0 || len(c.Tasks) != 0 {
		t.Errorf("left over: %+v", c)
	}
	time.Sleep(time.Second)
}

// endings are the ways in which an actor is ended from outside.
var endings = map[string]func(actors.Ref){
	"stopped":  func(r actors.Ref) { r.Stop() },
	"panicked": func(r actors.Ref) { r.Send(bang{}) },
}

// A handler whose parked actor is killed ends by its context, with a cause of its own,
// and the retry that comes all the same runs it again: one outcome for each request,
// also for those that come while it dies.
func TestParkedKilled(t *testing.T) {
	for name, kill := range endings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := fragile(t)
				s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{System: sys})
				if err != nil {
					t.Fatal(err)
				}
				defer empty(t, s, sys)
				ended := make(chan error, 100)
				paid := 0
				err = mcpserver.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					who, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
					if err != nil {
						ended <- context.Cause(ctx)
						return "", err
					}
					paid++
					return "Hello, " + who.Name + "!", nil
				})
				if err != nil {
					t.Fatal(err)
				}
				a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
				m := a.first("greet", `{}`)
				synctest.Wait()
				kill(mcpserver.CallActors(s)[0])
				if err := <-ended; !errors.Is(err, mcpserver.ErrAbandoned) {
					t.Errorf("the handler has ended with %v, want %v", err, mcpserver.ErrAbandoned)
				}
				if n := mcpserver.Calls(s); n != 0 {
					t.Errorf("%d calls are remembered", n)
				}
				for range 2 {
					if got := a.again("greet", `{}`, a.retry(m, respondAda)).text(); got != "Hello, Ada!" || paid != 1 {
						t.Errorf("the retry: got %q, carried out %d times", got, paid)
					}
				}
				for i := range 50 { // killed while the retry is on its way
					m := a.first("greet", `{}`)
					synctest.Wait()
					line := a.tool("greet", `{}`, a.retry(m, respondAda))
					ref := mcpserver.CallActors(s)[0]
					if i%2 == 0 {
						kill(ref)
						a.send(line)
					} else {
						a.send(line)
						kill(ref)
					}
					got := readMessage(t, a.receive())
					a.silent()
					if i%2 == 1 && got.Error != nil && got.Error.Code == mcp.CodeInternal { // it was at work already
						got = a.again("greet", `{}`, a.retry(m, respondAda))
					}
					if got.text() != "Hello, Ada!" {
						t.Fatalf("got %q", got.text())
					}
				}
			})
		})
	}
}

// SHM-08: a call whose actor is killed while its handler works ends with one error for each
// request that waits, and with the handler's context; the same retry after that waits for
// the handler, and runs it again.
func TestInvocationKilled(t *testing.T) {
	for name, kill := range endings {
		for _, noParking := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", run again ", noParking), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := fragile(t)
					s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{System: sys, Rounds: mcpserver.RoundOptions{NoParking: noParking}})
					if err != nil {
						t.Fatal(err)
					}
					defer empty(t, s, sys)
					begun, letGo, ended := slowTool(t, s)
					a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
					extra := a.retry(a.first("slow", `{}`), respondAda)
					a.send(a.tool("slow", `{}`, extra))
					<-begun
					a.send(a.tool("slow", `{}`, extra)) // waits for the same
					synctest.Wait()
					kill(mcpserver.CallActors(s)[0])
					for range 2 {
						if m := readMessage(t, a.receive()); m.Error == nil || m.Error.Code != mcp.CodeInternal {
							t.Errorf("got %q, want -32603", m.text())
						}
					}
					if err := <-ended; err == nil || errors.Is(err, mcpserver.ErrAbandoned) {
						t.Errorf("the handler has ended with %v, want the end of its actor", err)
					}
					a.silent()
					a.send(a.tool("slow", `{}`, extra))
					<-begun
					close(letGo)
					if got := readMessage(t, a.receive()).text(); got != "done" {
						t.Errorf("the same retry after that: got %q", got)
					}
					a.silent()
					if n := sys.Census().Live(actors.KindInvocation); n != 0 {
						t.Errorf("%d calls are left", n)
					}
				})
			})
		}
	}
}

// TASK-06, XTASK-08: a task whose actor is killed has failed, once and for all; each
// tasks/result that waits gets one answer, and the handler ends.
func TestTaskActorKilled(t *testing.T) {
	for name, kill := range endings {
		for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
			t.Run(name+" "+string(v), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := fragile(t)
					s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{System: sys, Tasks: &mcpserver.TaskOptions{Tools: lateOptions}})
					if err != nil {
						t.Fatal(err)
					}
					defer empty(t, s, sys)
					g := &gate{ended: make(chan error, 100)}
					addTaskTools(t, s, g)
					p := newTaskPeer(t, s, v)
					task, asks := p.create("slow", `{"seconds":50}`), p.create("confirm", `{}`)
					synctest.Wait()
					var waiting []string
					for range 3 {
						if v.Era() == mcp.EraLegacy {
							waiting = append(waiting, p.begin(mcp.MethodTaskResult, about(task.TaskID)))
						}
					}
					synctest.Wait()
					kill(mcpserver.TaskActor(s, task.TaskID))
					kill(mcpserver.TaskActor(s, asks.TaskID))
					<-g.ended
					synctest.Wait() // until the other has ended, too
					for _, id := range waiting {
						if m := p.answer(id); m.Error == nil || m.Error.Code != mcp.CodeInternal {
							t.Errorf("tasks/result: got %s, %v, want -32603", m.Result, m.Error)
						}
					}
					for _, one := range []string{task.TaskID, asks.TaskID} {
						for range 2 {
							if got := p.state(one); got.Status != mcp.TaskFailed {
								t.Errorf("got %+v, want failed", got)
							}
							time.Sleep(time.Minute)
						}
					}
					for i := range 20 { // killed when it ends
						one := p.create("slow", `{"seconds":1}`)
						time.Sleep(time.Second)
						if i%2 == 0 {
							synctest.Wait()
						}
						kill(mcpserver.TaskActor(s, one.TaskID))
						synctest.Wait()
						before := p.state(one.TaskID).Status
						time.Sleep(time.Second)
						if got := p.state(one.TaskID).Status; got != before || got == mcp.TaskWorking {
							t.Errorf("was %s, is %s", before, got)
						}
					}
				})
			})
		}
	}
}

// TASK-12: a task that is cancelled before its actor has started is cancelled, and the
// request of its handler, which never runs, is over.
func TestTaskCancelledBeforeItBegins(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			var s *mcpserver.Server
			var armed atomic.Bool
			sys, err := actors.NewSystem(&actors.Options{Trace: func(ev actors.TraceEvent) {
				if ev.Actor.Kind() == actors.KindTask && armed.Load() {
					mcpserver.CancelTasks(s)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			if s, err = mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{System: sys}); err != nil {
				t.Fatal(err)
			}
			defer empty(t, s, sys)
			g := &gate{ended: make(chan error, 100)}
			addTaskTools(t, s, g)
			p := newTaskPeer(t, s, v)
			armed.Store(true)
			task := p.create("slow", `{"seconds":50}`)
			synctest.Wait()
			armed.Store(false)
			if got := p.state(task.TaskID); got.Status != mcp.TaskCancelled {
				t.Errorf("%s: got %+v, want cancelled", v, got)
			}
			if len(g.ended) != 0 {
				t.Error("its handler has run")
			}
			wait(time.Minute) // the actors of requests that are over are gone
			if n := sys.Census().Live(actors.KindInbound); n != 0 {
				t.Errorf("%s: %d requests are in flight", v, n)
			}
		})
	}
}

// hook is a log handler that calls f for one message.
type hook struct {
	slog.Handler
	message string
	f       func()
}

func (h hook) Enabled(context.Context, slog.Level) bool { return true }

func (h hook) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		h.f()
	}
	return nil
}

// XTASK-05, CANC-03: a call that is cancelled while it becomes a task ends without an
// answer, and with it the task.
func TestCancelledWhileItBecomesATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := fragile(t)
		becomes, ended := make(chan struct{}), make(chan struct{})
		s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{
			System: sys, Tasks: &mcpserver.TaskOptions{Tools: lateOptions},
			Logger: slog.New(hook{slog.DiscardHandler, "a tool call has become a task", func() { close(becomes); <-ended }}),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer empty(t, s, sys)
		began := make(chan error, 1)
		err = mcpserver.AddTool(s, taskTool("late", mcp.TaskRequired), func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			go func() {
				<-ctx.Done()
				close(ended)
			}()
			err := req.BeginTask(ctx)
			began <- err
			return "done", err
		})
		if err != nil {
			t.Fatal(err)
		}
		p := newTaskPeer(t, s, mcp.Latest)
		id := p.begin(mcp.MethodCallTool, `{"name":"late","arguments":{}}`)
		<-becomes
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		if err := <-began; !errors.Is(err, context.Canceled) {
			t.Errorf("BeginTask: got %v, want the cancel", err)
		}
		wait(time.Minute)
		if n := sys.Census().Live(actors.KindInbound); n != 0 {
			t.Errorf("%d requests are in flight", n)
		}
		p.silent()
	})
}
