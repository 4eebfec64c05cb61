package loop_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// remote is a tool of a server: it waits until it is let on, and then is sent as soon as
// the run lets it.
type remote struct {
	on   chan struct{} // closed when there is an instance
	sent atomic.Bool
}

func (r *remote) tool() loop.Tool {
	return loop.Tool{Tool: llm.Tool{Name: "remote"}, Server: "s", Dispatches: true,
		Go: func(ctx context.Context, call *loop.Call, done func(*mcp.CallToolResult, error)) {
			call.WaitsFor("an instance")
			go func() {
				select {
				case <-r.on:
				case <-ctx.Done():
					done(nil, context.Cause(ctx))
					return
				}
				call.WaitsFor("")
				call.Dispatch(func(err error) {
					if err == nil {
						r.sent.Store(true)
						done(&mcp.CallToolResult{Content: mcp.Contents{mcp.Text("ok")}}, nil)
						return
					}
					done(nil, err)
				})
			}()
		}}
}

// A call that waits is not recorded as dispatched, and the wall time stands still; it is
// sent once its dispatch is durable.
func TestDispatchWhenSent(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		tool := &remote{on: make(chan struct{})}
		cfg := b.config(llmtest.Script(llmtest.Call("remote", nil), llmtest.Say("done")), tool.tool())
		cfg.Limits.Wall = time.Minute
		cfg.Journal = &slowJournal{Journal: b.store, slow: store.ToolDispatched, wait: 2 * time.Second}
		run := b.start(cfg)
		time.Sleep(time.Hour) // TIME-05
		synctest.Wait()
		b.wantTypes("run.started tools.listed model.intent model.result i tool.waiting")
		close(tool.on)
		time.Sleep(time.Second)
		synctest.Wait()
		if tool.sent.Load() {
			t.Error("sent before the dispatch was durable")
		}
		out := b.finish(run)
		if !tool.sent.Load() || out.ToolCalls != 1 || out.Err != nil {
			t.Errorf("sent: %v, counted: %d, error: %v", tool.sent.Load(), out.ToolCalls, out.Err)
		}
		b.wantTypes("run.started tools.listed model.intent model.result i tool.waiting d r model.intent model.result run.finished")
	})
}

// A run that ends while its call waits, or while the dispatch is written, has not made it.
func TestEndBeforeDispatch(t *testing.T) {
	for name, goes := range map[string]bool{"waits": false, "is being recorded": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				tool := &remote{on: make(chan struct{})}
				cfg := b.config(llmtest.Script(llmtest.Call("remote", nil)), tool.tool())
				cfg.Journal = &slowJournal{Journal: b.store, slow: store.ToolDispatched, wait: 2 * time.Second}
				run := b.start(cfg)
				synctest.Wait()
				if goes {
					close(tool.on)
					synctest.Wait()
				}
				run.Cancel(errUser)
				out := b.finish(run)
				if tool.sent.Load() || out.ToolCalls != 0 {
					t.Errorf("sent: %v, counted: %d", tool.sent.Load(), out.ToolCalls)
				}
				types := strings.Join(b.types(), " ")
				if strings.Contains(types, runlog.TaintedType) {
					t.Errorf("a call that was not made has tainted the run: %s", types)
				}
				if strings.Contains(types, store.ToolUnknown) || strings.Contains(types, store.ToolDispatched) != goes {
					t.Errorf("journal: %s", types)
				}
				for _, e := range b.events() {
					if r, ok := e.Body.(*runlog.ToolResult); ok && r.Made {
						t.Error("the journal says that the call was made")
					}
				}
			})
		})
	}
}

// A run whose call waits for an instance can be left, as it was not sent: it is made once the run goes on.
// A call that was sent keeps the run.
func TestLeftWhileItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		first := &remote{on: make(chan struct{})}
		model := llmtest.ByHistory(llmtest.Call("remote", nil), llmtest.Say("done"))
		run := b.start(b.config(model, first.tool()))
		synctest.Wait()
		if err := run.SuspendIdle(t.Context()); err != nil {
			t.Fatalf("SuspendIdle: %v", err)
		}
		<-run.Stopped()
		b.wantTypes("run.started tools.listed model.intent model.result i tool.waiting run.parked")
		second := &remote{on: make(chan struct{})}
		close(second.on)
		again, run := b.resume(b.config(model, second.tool()))
		if out := again.finish(run); out.Text != "done" || first.sent.Load() || !second.sent.Load() || out.ToolCalls != 1 {
			t.Errorf("got %+v, sent %v and then %v", out, first.sent.Load(), second.sent.Load())
		}
	})
	inBubble(t, func(t *testing.T, b *bench) {
		slow := tool("slow", func(ctx context.Context, _ *loop.Call) (string, error) { <-ctx.Done(); return "", ctx.Err() })
		run := b.start(b.config(llmtest.Script(llmtest.Call("slow", nil)), slow))
		synctest.Wait()
		if err := run.SuspendIdle(t.Context()); !errors.Is(err, loop.ErrNotWaiting) {
			t.Errorf("SuspendIdle of a run whose call was sent: got %v, want %v", err, loop.ErrNotWaiting)
		}
		run.Cancel(errUser)
		b.finish(run)
	})
}
