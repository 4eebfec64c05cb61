package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/sampling"
)

// Once from several goroutines: with one key it is done by one of them, and the others
// get what it has made; an error is not kept.
func TestOnceFromManyGoroutines(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		var done, tried atomic.Int64
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "many"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					n, err := mcpserver.Once(ctx, req, "same", func(context.Context) (int64, error) {
						if tried.Add(1) == 1 {
							return 0, errors.New("not yet")
						}
						return done.Add(1), nil
					})
					if err == nil && n != 1 {
						t.Errorf("got %d, want 1", n)
					}
					own, err := mcpserver.Once(ctx, req, fmt.Sprint("own ", i), func(context.Context) (int, error) { return i, nil })
					if own != i || err != nil {
						t.Errorf("got %d and %v, want %d", own, err, i)
					}
				})
			}
			wg.Wait()
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			return fmt.Sprint(done.Load()), err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.call("many", `{}`, respondAda); got != "1" {
			t.Errorf("got %q, want it done once", got)
		}
	})
}

// A goroutine that waits for another's Once hears that its own context has ended, and a
// panic in it lets the others go on.
func TestOnceWaits(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "waits"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			short, cancel := context.WithCancelCause(ctx)
			begun, open := make(chan struct{}), make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer func() { _ = recover() }()
				_, _ = mcpserver.Once(ctx, req, "k", func(context.Context) (int, error) { close(begun); <-open; panic("bang") })
			})
			<-begun
			wg.Go(func() {
				_, err := mcpserver.Once(short, req, "k", func(context.Context) (int, error) { return 1, nil })
				if !errors.Is(err, errLate) {
					t.Errorf("got %v, want the context's cause", err)
				}
			})
			wg.Go(func() {
				n, err := mcpserver.Once(ctx, req, "k", func(context.Context) (int, error) { return 2, nil })
				if n != 2 || err != nil {
					t.Errorf("got %d and %v after the panic, want 2", n, err)
				}
			})
			synctest.Wait()
			cancel(errLate)
			synctest.Wait()
			close(open)
			wg.Wait()
			return "ok", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := openAsked(t, s, mcp.V2025_11_25, `{}`).call("waits", `{}`, respondAda); got != "ok" {
			t.Errorf("got %q", got)
		}
	})
}

var errLate = errors.New("too late")

// Sample from goroutines beside the handler's own, whose handler may return before they
// have an answer: one outcome, and no race.
func TestSampleFromManyGoroutines(t *testing.T) {
	for _, waits := range []bool{true, false} {
		for _, caps := range []string{withTools, `{}`} {
			t.Run(fmt.Sprint("the handler waits ", waits, " client with ", caps), func(t *testing.T) {
				for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
					synctestOnce(t, func(t *testing.T) {
						s, _ := newServer(t, &mcpserver.Options{Model: sampling.NewModel(llmtest.Loop(llmtest.Say("Paris")), nil)})
						err := mcpserver.AddTool(s, &mcp.Tool{Name: "many"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
							var wg sync.WaitGroup
							for i := range 5 {
								wg.Go(func() {
									r, err := req.Sample(ctx, fmt.Sprint(i), sampleParams("Hi"))
									if waits && (err != nil || r.Content.Text() != "Paris") {
										t.Errorf("got %+v and %v", r, err)
									}
								})
							}
							if waits {
								wg.Wait()
							}
							return "ok", nil
						})
						if err != nil {
							t.Fatal(err)
						}
						a := openAsked(t, s, v, caps)
						for range 20 {
							got := a.call("many", `{}`, respondAda)
							// A handler that has left while it asks is called again with the answer, and may ask in another order.
							another := !waits && v == mcp.V2026_07_28 && strings.Contains(got, "must follow from its arguments")
							if got != "ok" && !another {
								t.Errorf("%s: got %q", v, got)
							}
						}
					})
				}
			})
		}
	}
}

// A handler that returns while another goroutine of it asks has one outcome: its own, or
// the question.
func TestHandlerReturnsWhileAnotherAsks(t *testing.T) {
	s, _ := newServer(t, nil)
	var spin atomic.Int64
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "leaves"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		begun := make(chan struct{})
		go func() {
			close(begun)
			_, _ = req.Sample(ctx, "q", sampleParams("Hi"))
		}()
		<-begun
		for range spin.Load() {
			runtime.Gosched()
		}
		return "left", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	a := openAsked(t, s, mcp.V2026_07_28, withTools)
	for i := range 400 {
		spin.Store(int64(i % 40))
		m := readMessage(t, a.ask(a.tool("leaves", `{}`, "")))
		if m.Result == nil || m.text() != "left" && m.Result.ResultType != mcp.ResultInputRequired {
			t.Fatalf("got %s", m.text())
		}
	}
}
