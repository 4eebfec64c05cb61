package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

var (
	errAsked = errors.New("a person is asked")
	errLeft  = errors.New("the caller left")
)

// asking is a Wait that is resumed and watched by a test.
type asking struct {
	resume  func(call.Step)
	aborted []error
}

func (w *asking) step(clocks bool) call.Step {
	return call.Step{Clocks: clocks, Wait: func(resume func(call.Step)) func(error) {
		w.resume = resume
		return func(cause error) { w.aborted = append(w.aborted, cause) }
	}}
}

func (w *asking) wantAborted(t *testing.T, want ...error) {
	t.Helper()
	if !slices.EqualFunc(w.aborted, want, errors.Is) {
		t.Errorf("aborted with %v, want %v", w.aborted, want)
	}
}

// follower gives the steps one after the other, then makes the answer the outcome.
func follower(steps ...call.Step) func(call.Answer) call.Step {
	return func(a call.Answer) call.Step {
		if a.Attempt > len(steps) {
			return call.Step{}
		}
		return steps[a.Attempt-1]
	}
}

var again = call.Step{Retry: &call.Retry{}}

// MRTR-11, MRTR-16, URL-41: another attempt has a new id, a fresh progress token,
// and the request's own parts where the retry has none.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, b.echo(1))
		var answers []call.Answer
		req := &call.Request{
			Method: "tools/call", Name: "n", Params: json.RawMessage(`{"a":1}`), Meta: mcp.Meta{"m": json.RawMessage("1")},
			Headers: []mcp.Header{{Name: "H", Value: "1"}}, OnProgress: func(call.Progress) {},
		}
		req.Follow = func(a call.Answer) call.Step {
			answers = append(answers, a)
			switch a.Attempt {
			case 1:
				return call.Step{Retry: &call.Retry{Params: json.RawMessage(`{"a":2}`), Meta: mcp.Meta{"m": json.RawMessage("2")}, Headers: []mcp.Header{}}}
			case 2:
				return call.Step{Retry: &call.Retry{Method: "tasks/get", Name: "t", After: time.Second}}
			}
			return call.Step{Outcome: &call.Outcome{Result: call.Result{Type: "mine"}}}
		}
		start := time.Now()
		res, err := b.Do(t.Context(), req)
		if err != nil || res.Type != "mine" || time.Since(start) != time.Second {
			t.Errorf("Do: got %+v, %v after %v, want the outcome of Follow after 1s", res, err, time.Since(start))
		}
		sent := w.all()
		want := []struct {
			text, method, name string
			headers            int
		}{{`"m":1},"a":1`, "tools/call", "n", 1}, {`"m":2},"a":2`, "tools/call", "n", 0}, {`"m":1},"a":1`, "tasks/get", "t", 1}}
		if len(sent) != len(want) || len(answers) != 3 {
			t.Fatalf("got %d messages and %d answers, want 3", len(sent), len(answers))
		}
		for i, want := range want {
			s := sent[i]
			if s.Method != want.method || s.Out.Method != want.method || s.Out.Name != want.name || len(s.Out.Headers) != want.headers || !strings.Contains(s.Text, want.text) {
				t.Errorf("attempt %d: got %s with %+v, want %+v", i+1, s.Text, s.Out, want)
			}
			if i > 0 && (s.ID == sent[i-1].ID || s.Params.Meta.ProgressToken() == sent[i-1].Params.Meta.ProgressToken()) {
				t.Errorf("attempt %d has the id or the token of the one before: %s", i+1, s.Text)
			}
			if answers[i].Attempt != i+1 {
				t.Errorf("answer %d is of attempt %d", i+1, answers[i].Attempt)
			}
		}
		if s := b.Stats(); s.Resent != 2 || s.Pending != 0 {
			t.Errorf("got %+v, want 2 resent", s)
		}
	})
}

// While a call waits nothing is on the wire, so its end sends nothing (CANC-13,
// MRTR-17); the wait is told once, and what it does later has no effect.
func TestEndOfAWait(t *testing.T) {
	tests := []struct {
		name string
		end  func(b *bench, c *call.Call)
		want error
	}{
		{"cancel", func(_ *bench, c *call.Call) { c.Cancel(errLeft) }, errLeft},
		{"close", func(b *bench, _ *call.Call) { b.Close(call.ErrClosed) }, call.ErrClosed},
		{"the connection's actor stops", func(b *bench, _ *call.Call) { b.ref.Stop() }, call.ErrClosed},
		{"the connection's actor fails", func(b *bench, _ *call.Call) { b.ref.Send(blow{}); time.Sleep(time.Second) }, call.ErrClosed},
		{"maximum", func(*bench, *call.Call) { time.Sleep(time.Minute) }, call.ErrTimeout},
	}
	for _, tt := range tests {
		for _, pause := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pause=%v", tt.name, pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newTable(t, nil)
					w := b.connect(1, b.echo(1))
					asked := &asking{}
					step := asked.step(true)
					if pause {
						step = call.Step{Retry: &call.Retry{After: time.Hour}}
					}
					c := b.Start(&call.Request{Method: "tools/call", Max: time.Minute, Follow: follower(step)}, nil)
					synctest.Wait()
					if c.Completed() {
						t.Fatal("the call has not waited")
					}
					tt.end(b, c)
					synctest.Wait()
					if _, err := c.Result(); !errors.Is(err, tt.want) {
						t.Errorf("outcome: got %v, want %v", err, tt.want)
					}
					if !pause {
						asked.wantAborted(t, tt.want)
						asked.resume(again)
						synctest.Wait()
						asked.wantAborted(t, tt.want)
					}
					if got := w.methods(); len(got) != 1 {
						t.Errorf("sent %v, want the first attempt alone", got)
					}
					if n := b.Stats().Pending; n != 0 {
						t.Errorf("pending: got %d, want 0", n)
					}
				})
			})
		}
	}
}

// A Wait may be resumed at once, again and again, and once for each.
func TestResume(t *testing.T) {
	atOnce := func(s call.Step) call.Step {
		return call.Step{Wait: func(resume func(call.Step)) func(error) {
			resume(s)
			resume(call.Step{Outcome: &call.Outcome{Err: errAsked}}) // does not count
			return nil
		}}
	}
	tests := []struct {
		name  string
		step  call.Step
		sent  int
		err   error
		wants string
	}{
		{"the answer", atOnce(call.Step{}), 1, nil, `{"echo":"tools/call"}`},
		{"an outcome", atOnce(call.Step{Outcome: &call.Outcome{Result: call.Result{Raw: json.RawMessage(`{"x":1}`)}}}), 1, nil, `{"x":1}`},
		{"a failure", atOnce(call.Step{Outcome: &call.Outcome{Err: errLeft}}), 1, errLeft, ""},
		{"a retry", atOnce(again), 2, nil, `{"echo":"tools/call"}`},
		{"a pause and a retry", atOnce(call.Step{Retry: &call.Retry{After: time.Second}}), 2, nil, `{"echo":"tools/call"}`},
		{"another wait", atOnce(atOnce(atOnce(call.Step{}))), 1, nil, `{"echo":"tools/call"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, b.echo(1))
				res, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Follow: follower(tt.step)})
				if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || string(res.Raw) != tt.wants {
					t.Errorf("Do: got %s, %v, want %s, %v", res.Raw, err, tt.wants, tt.err)
				}
				if n := len(w.all()); n != tt.sent {
					t.Errorf("sent %d times, want %d", n, tt.sent)
				}
			})
		})
	}
}

// A Follow that never has enough is stopped, by attempts and by waits.
func TestTooManyAttempts(t *testing.T) { // MRTR-15
	var endless call.Step
	endless = call.Step{Wait: func(resume func(call.Step)) func(error) {
		resume(endless)
		return nil
	}}
	for name, step := range map[string]call.Step{"attempts": again, "waits": endless} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, b.echo(1))
				_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Follow: func(call.Answer) call.Step { return step }})
				if !errors.Is(err, call.ErrTooManyAttempts) {
					t.Errorf("Do: got %v, want %v", err, call.ErrTooManyAttempts)
				}
				if n := len(w.all()); n > 64 {
					t.Errorf("sent %d times, want at most 64", n)
				}
			})
		})
	}
}

// A panic of the caller's code ends its call, and nothing else.
func TestPanicInFollow(t *testing.T) {
	boom := func(func(call.Step)) func(error) { panic("boom") }
	tests := map[string]func(call.Answer) call.Step{
		"follow": func(call.Answer) call.Step { panic("boom") },
		"wait":   follower(call.Step{Wait: boom}),
		"second wait": follower(call.Step{Wait: func(resume func(call.Step)) func(error) {
			resume(call.Step{Wait: boom})
			return nil
		}}),
	}
	for name, follow := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				b.connect(1, b.echo(1))
				_, err := b.Do(t.Context(), &call.Request{Method: "tools/call", Follow: follow})
				if _, ok := errors.AsType[*actors.Failure](err); !ok {
					t.Errorf("Do: got %v, want a failure", err)
				}
				if _, err := b.Do(t.Context(), &call.Request{Method: "tools/call"}); err != nil {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
	t.Run("abort", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newTable(t, nil)
			b.connect(1, b.echo(1))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := b.Do(ctx, &call.Request{Method: "tools/call", Follow: follower(call.Step{
				Wait: func(func(call.Step)) func(error) { return func(error) { panic("boom") } },
			})})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do: got %v, want %v", err, context.DeadlineExceeded)
			}
		})
	})
}

// Killing the actor of a call that waits ends the wait too.
func TestKilledWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ref actors.Ref
		sys := newSystem(t, &actors.Options{Trace: func(ev actors.TraceEvent) {
			if ev.Actor.Kind() == actors.KindCall {
				ref = ev.Actor
			}
		}})
		b := newTableOn(t, sys, nil)
		b.connect(1, b.echo(1))
		asked := &asking{}
		reply := b.Start(&call.Request{Method: "tools/call", Follow: follower(asked.step(false))}, nil)
		synctest.Wait()
		ref.Stop()
		synctest.Wait()
		if _, err := reply.Result(); !errors.Is(err, actors.ErrStopped) {
			t.Errorf("outcome: got %v, want %v", err, actors.ErrStopped)
		}
		asked.wantAborted(t, actors.ErrStopped)
		asked.resume(again)
	})
}

// A Wait outlives the connection, and what follows goes out on the next.
func TestWaitSurvivesReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wanted atomic.Int32
		b := newTable(t, &call.Options{Wanted: func() { wanted.Add(1) }})
		b.connect(1, b.echo(1))
		asked := &asking{}
		reply := b.Start(&call.Request{Method: "tools/call", Follow: follower(asked.step(false))}, nil)
		synctest.Wait()
		b.Lost(1, errGone)
		b.Unavailable(errGone)
		synctest.Wait()
		asked.wantAborted(t)
		asked.resume(again)
		synctest.Wait()
		if s, n := b.Stats(), wanted.Load(); s.Waiting != 1 || n != 1 {
			t.Errorf("got %+v and %d times wanted, want one call that waits", s, n)
		}
		w := b.connect(2, b.echo(2))
		synctest.Wait()
		if res, err := reply.Result(); err != nil || len(res.Raw) == 0 || len(w.all()) != 1 {
			t.Errorf("outcome: got %s, %v after %v", res.Raw, err, w.methods())
		}
	})
}
