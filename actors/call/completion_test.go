package call_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// told is what done was told.
type told struct {
	result call.Result
	err    error
}

// begin starts a call that nobody waits for. The channel has room for more outcomes than
// there may be.
func (b *bench) begin(ctx context.Context, req *call.Request) <-chan told {
	out := make(chan told, 2)
	b.Go(ctx, req, func(r call.Result, err error) { out <- told{r, err} })
	return out
}

// Calls that nobody waits for hold no goroutine while they are out, and each has its
// answer in the end.
func TestGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls = 200
		b := newTable(t, nil)
		var mu sync.Mutex // requests may be written by several tasks at once
		var ids []mcp.ID
		b.connect(1, func(_ *wire, s sent) {
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, s.ID)
		})
		before := runtime.NumGoroutine()
		var outs []<-chan told
		for range calls {
			outs = append(outs, b.begin(t.Context(), &call.Request{Method: "tools/call", OnProgress: func(call.Progress) {}}))
		}
		time.Sleep(10 * time.Second) // idle workers have gone
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 2 || len(ids) != calls { // an actor may be about to sleep
			t.Errorf("%d calls are out, %d goroutines more than before: want %d and none", len(ids), n, calls)
		}
		for _, id := range ids {
			b.result(1, id, `{"ok":true}`)
		}
		for i, out := range outs {
			if got := <-out; got.err != nil || string(got.result.Raw) != `{"ok":true}` {
				t.Fatalf("call %d: got %s, %v", i, got.result.Raw, got.err)
			}
		}
	})
}

// Progress comes in order, one report at a time, and before the outcome, however slow its
// receiver is (PROG-01).
func TestGoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		b.connect(1, func(_ *wire, s sent) {
			go func() {
				for i := range 20 {
					b.progress(1, s.Params.Meta.ProgressToken(), float64(i))
					time.Sleep(time.Second)
				}
				b.result(1, s.ID, `{}`)
			}()
		})
		var got []float64
		busy := false
		out := b.begin(t.Context(), &call.Request{Method: "tools/call", OnProgress: func(p call.Progress) {
			if busy {
				t.Error("two reports at a time")
			}
			busy = true
			time.Sleep(3 * time.Second)
			busy = false
			got = append(got, p.Progress)
		}})
		if o := <-out; o.err != nil {
			t.Fatal(o.err)
		}
		if len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("progress before the outcome: got %v, want 0 to 19", got)
		}
		synctest.Wait()
		if len(out) > 0 {
			t.Error("there was a second outcome")
		}
	})
}

// A receiver of progress that panics, or ends its goroutine, ends its call alone, which is
// taken back from the peer (ROB-3).
func TestGoProgressFails(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("no") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newTable(t, nil)
				w := b.connect(1, func(_ *wire, s sent) {
					if s.Method == "tools/call" {
						b.progress(1, s.Params.Meta.ProgressToken(), 1)
						return
					}
					b.result(1, s.ID, `{}`)
				})
				o := <-b.begin(t.Context(), &call.Request{Method: "tools/call", OnProgress: func(call.Progress) { fail() }})
				if _, panicked := errors.AsType[*actors.PanicError](o.err); o.err == nil || panicked != (name == "panic") {
					t.Errorf("outcome: got %v", o.err)
				}
				if o := <-b.begin(t.Context(), &call.Request{Method: "other"}); o.err != nil {
					t.Errorf("the next call: got %v", o.err)
				}
				synctest.Wait()
				if got := w.methods(); !slices.Contains(got, mcp.NotificationCancelled) {
					t.Errorf("sent %q, want it to be cancelled", got)
				}
			})
		})
	}
}

// A call that nobody waits for may be given up at any moment, also before its actor knows
// of it: it ends once, at once, with the cause (ROB-3).
func TestGoGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, nil)
		w := b.connect(1, nil) // never answers
		why := errors.New("why")
		for i := range 100 {
			ctx, cancel := context.WithCancelCause(t.Context())
			switch i % 3 {
			case 0:
				cancel(why)
			case 1:
				go cancel(why)
			}
			begun := time.Now()
			out := b.begin(ctx, &call.Request{Method: "tools/call"})
			cancel(why)
			if o := <-out; !errors.Is(o.err, why) || time.Since(begun) > 0 {
				t.Fatalf("outcome: got %v after %v, want %v at once", o.err, time.Since(begun), why)
			}
			synctest.Wait()
			if len(out) > 0 {
				t.Fatal("there was a second outcome")
			}
		}
		if s := b.Stats(); s.Pending != 0 {
			t.Errorf("calls left: got %d, want 0; sent %q", s.Pending, w.methods())
		}
	})
}

// A call that is refused, and one whose connection's actor stops, have their outcome, too.
func TestGoWithoutAnActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newTable(t, &call.Options{Limit: 1})
		b.connect(1, nil)
		first := b.begin(t.Context(), &call.Request{Method: "tools/call"})
		if o := <-b.begin(t.Context(), &call.Request{Method: "tools/call"}); !errors.Is(o.err, call.ErrBusy) {
			t.Errorf("one too many: got %v, want %v", o.err, call.ErrBusy)
		}
		b.ref.Stop()
		if o := <-first; !errors.Is(o.err, call.ErrClosed) && !errors.Is(o.err, actors.ErrStopped) {
			t.Errorf("of a connection that stops: got %v", o.err)
		}
		if o := <-b.begin(t.Context(), &call.Request{Method: "tools/call"}); !errors.Is(o.err, call.ErrClosed) {
			t.Errorf("after that: got %v, want %v", o.err, call.ErrClosed)
		}
	})
}
