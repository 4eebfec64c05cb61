package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
)

// asking is a task of the extension that wants to know things.
type asking struct {
	mu      sync.Mutex
	open    map[string]bool
	updates []string // the keys of each tasks/update
	fails   int      // updates that are lost
	done    bool
}

func (a *asking) answer(_ context.Context, req *call.Request) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch req.Method {
	case mcp.MethodUpdateTask:
		var p mcp.UpdateTaskParams
		if err := json.Unmarshal(req.Params, &p); err != nil || p.Validate() != nil || p.TaskID != "t1" {
			return "", mcp.ErrInvalidParams
		}
		if a.fails > 0 {
			a.fails--
			return "", &call.LostError{Err: errCut}
		}
		var keys []string
		for key := range p.InputResponses {
			keys = append(keys, key)
			delete(a.open, key)
		}
		slices.Sort(keys)
		a.updates = append(a.updates, strings.Join(keys, " "))
		return `{"resultType":"complete"}`, nil
	case mcp.MethodCancelTask:
		return `{"resultType":"complete"}`, nil
	}
	if a.done {
		return extension("completed", `,"result":{"content":[]}`), nil
	}
	if len(a.open) == 0 {
		return extension("working", ""), nil
	}
	q := map[string]json.RawMessage{}
	for key := range a.open {
		q[key] = json.RawMessage(`{"method":"roots/list"}`)
	}
	raw, _ := json.Marshal(q)
	return extension("input_required", `,"inputRequests":`+string(raw)), nil
}

func (a *asking) ask(keys ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = map[string]bool{}
	for _, key := range keys {
		a.open[key] = true
	}
}

func (a *asking) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = true
}

// people answers questions after a while, and remembers which.
type people struct {
	takes time.Duration
	err   error

	mu     sync.Mutex
	asked  []string
	causes []error // with which contexts ended
}

func (h *people) answer(ctx context.Context, _ *watch.Task, q mcp.InputRequests) (mcp.InputResponses, error) {
	h.mu.Lock()
	out := mcp.InputResponses{}
	for key := range q {
		h.asked = append(h.asked, key)
		out[key] = json.RawMessage(`{"roots":[]}`)
	}
	h.mu.Unlock()
	select {
	case <-time.After(h.takes):
		return out, h.err
	case <-ctx.Done():
		h.mu.Lock()
		defer h.mu.Unlock()
		h.causes = append(h.causes, context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
}

func (h *people) heard() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.asked)
	return strings.Join(h.asked, " ")
}

func questioned(t *testing.T, a *asking, h *people) (*peer, *watch.Tasks) {
	p := newPeer(t, a.answer)
	return p, p.tasks(func(o *watch.Options) { o.Answer = h.answer })
}

// XTASK-09, XTASK-10, XTASK-11, XTASK-12: each question is put once, however often it
// is read, and its answer is sent; asking goes on meanwhile and after; the time of
// those who wait stands still while somebody is asked (TIME-05).
func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, h := new(asking), &people{takes: 10 * time.Minute}
		p, ts := questioned(t, a, h)
		a.ask("one", "two")
		w := newWaiter()
		w.Limit, w.Timeout = 12*time.Minute, errCut
		if _, _, err := ts.Watch(watch.Extension, "t1", seed(t, watch.Extension, "input_required"), nil, &w.Waiter); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		a.ask("one", "two", "three") // a later one, while people still think
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if n := len(p.times(mcp.MethodGetTask)); n < 20*60*9/10 {
			t.Errorf("asked %d times in 25 min, want it to go on", n)
		}
		if got := h.heard(); got != "one three two" {
			t.Errorf("people were asked %q, want each once", got)
		}
		if got := fmt.Sprint(a.updates); got != "[one two three]" {
			t.Errorf("updates: got %s", got)
		}
		a.ask("one") // is not a new question (XTASK-11)
		time.Sleep(10 * time.Second)
		if got := h.heard(); got != "one three two" {
			t.Errorf("people were asked %q, want none twice", got)
		}
		a.finish()
		if out := w.outcome(t); out.Err != nil {
			t.Errorf("got %v", out.Err)
		}
	})
}

// Answers whose way was lost are sent again when the question is still open, and
// nobody is asked again; if they are never taken the task is given up.
func TestLostUpdates(t *testing.T) {
	for _, fails := range []int{1, 2, 100} {
		t.Run(fmt.Sprint(fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, h := &asking{fails: fails}, new(people)
				p, ts := questioned(t, a, h)
				a.ask("one")
				w, _, _ := watched(t, ts, watch.Extension, seed(t, watch.Extension, "input_required"))
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := h.heard(); got != "one" {
					t.Errorf("people were asked %q, want one once", got)
				}
				if fails < 100 {
					if got := fmt.Sprint(a.updates); got != "[one]" {
						t.Errorf("updates: got %s, want [one]", got)
					}
					return
				}
				if out := w.outcome(t); out.Err == nil || !strings.Contains(p.methods(), "cancel") {
					t.Errorf("got %v after %s, want it given up", out.Err, p.methods())
				}
			})
		})
	}
}

// MRTR-12, MRTR-13 for tasks: what can not be answered ends the call here, and the
// server is told to cancel.
func TestUnanswerable(t *testing.T) {
	tests := map[string]func(o *watch.Options){
		"refused":    func(o *watch.Options) { o.Answer = (&people{err: errCut}).answer },
		"not spoken": func(o *watch.Options) { o.Answer = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := new(asking)
				a.ask("one")
				p := newPeer(t, a.answer)
				w, _, _ := watched(t, p.tasks(change), watch.Extension, seed(t, watch.Extension, "input_required"))
				if out := w.outcome(t); out.Err == nil || name == "refused" && !errors.Is(out.Err, errCut) {
					t.Errorf("got %v", out.Err)
				}
				synctest.Wait()
				if got := p.methods(); got != "get cancel" {
					t.Errorf("asked for %q, want get cancel", got)
				}
			})
		})
	}
}

// A server that asks without end is given up.
func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, h := new(asking), new(people)
		_, ts := questioned(t, a, h)
		var keys []string
		for i := range 300 {
			keys = append(keys, fmt.Sprint(i))
		}
		a.ask(keys...)
		w, _, _ := watched(t, ts, watch.Extension, seed(t, watch.Extension, "input_required"))
		if out := w.outcome(t); out.Err == nil || h.heard() != "" {
			t.Errorf("got %v after asking %q, want an error and nobody asked", out.Err, h.heard())
		}
	})
}

// A question that is taken back, or that nobody waits for, is closed; the latter is
// put again to whoever waits next.
func TestWithdrawnQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, h := new(asking), &people{takes: time.Hour}
		_, ts := questioned(t, a, h)
		a.ask("one")
		_, leave, _ := watched(t, ts, watch.Extension, seed(t, watch.Extension, "input_required"))
		time.Sleep(time.Minute)
		a.ask()
		time.Sleep(time.Minute)
		a.ask("two")
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(h.causes); n != 1 {
			t.Errorf("%d questions were closed, want the one that was taken back", n)
		}
		leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(h.causes); n != 2 {
			t.Errorf("%d questions were closed, want both", n)
		}
		_, leave, _ = watched(t, ts, watch.Extension, nil)
		defer leave()
		time.Sleep(time.Minute)
		if got := h.heard(); got != "one two two" {
			t.Errorf("people were asked %q, want two again", got)
		}
		if len(a.updates) != 0 {
			t.Errorf("updates: got %v, want none", a.updates)
		}
	})
}
