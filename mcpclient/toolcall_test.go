package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// startToolAndWait waits for a call that nobody need wait for.
func startToolAndWait(ctx context.Context, c *Client, name string, args json.RawMessage, opts *CallOptions) (*mcp.CallToolResult, error) {
	type outcome struct {
		res *mcp.CallToolResult
		err error
	}
	out := make(chan outcome, 1)
	c.StartTool(ctx, name, args, opts).OnDone(func(res *mcp.CallToolResult, err error) { out <- outcome{res, err} })
	o := <-out
	return o.res, o.err
}

// StartTool has the outcome of CallTool, whatever that is.
func TestStartTool(t *testing.T) {
	const object = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	cancelled := func() (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx, cancel
	}
	tests := []struct {
		name, tool, result, args string
		ctx                      func() (context.Context, context.CancelFunc)
	}{
		{name: "structured", tool: "t", result: `{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1}}`, args: `{"k":1}`},
		{name: "failed", tool: "t", result: `{"content":[],"isError":true}`},
		{name: "not what its schema says", tool: "t", result: `{"content":[],"structuredContent":{"n":"1"}}`},
		{name: "no result of a tool", tool: "t", result: `{"content":7}`},
		{name: "bad arguments", tool: "t", result: `{"content":[]}`, args: `[1]`},
		{name: "given up before", tool: "t", result: `{"content":[],"structuredContent":{"n":1}}`, ctx: cancelled},
		{name: "never answered", tool: "t", ctx: func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(context.Background(), time.Second, errors.New("too long"))
		}},
	}
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		for _, tt := range tests {
			t.Run(fmt.Sprint(v, " ", tt.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					outcome := func(call func(context.Context, *Client, string, json.RawMessage, *CallOptions) (*mcp.CallToolResult, error)) string {
						c := outputWire(v, object, tt.result).dial(t, nil)
						if _, err := c.ListTools(t.Context()); err != nil {
							t.Fatal(err)
						}
						ctx, cancel := context.WithCancel(t.Context())
						if tt.ctx != nil {
							ctx, cancel = tt.ctx()
						}
						defer cancel()
						res, err := call(ctx, c, tt.tool, json.RawMessage(tt.args), nil)
						shown, _ := json.Marshal(res)
						return fmt.Sprintf("%s, %v", shown, err)
					}
					want := outcome(func(ctx context.Context, c *Client, name string, args json.RawMessage, o *CallOptions) (*mcp.CallToolResult, error) {
						return c.CallTool(ctx, name, args, o)
					})
					if got := outcome(startToolAndWait); got != want {
						t.Errorf("StartTool: got %s, want %s", got, want)
					}
				})
			})
		}
	}
}

// The questions of a call that nobody waits for reach the call's own human (MRTR-03).
func TestStartToolAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		s.on[mcp.MethodCallTool] = rounds(inputs(ask("a", mcp.MethodElicit, elicitForm("?"))), done)
		human := says(mcp.ActionAccept, `{"name":"Ada"}`)
		c := s.dial(&Options{AskOptions: AskOptions{Human: silent()}})
		if _, err := startToolAndWait(t.Context(), c, "t", nil, &CallOptions{Human: human}); err != nil || len(human.seen()) != 1 {
			t.Errorf("StartTool: got %v, asked %d times, want once", err, len(human.seen()))
		}
	})
}

// Whatever the caller's functions do, there is one outcome, and the trace's pairs are
// complete.
func TestStartToolPanics(t *testing.T) {
	for name, begin := range map[string]func(){"none": func() {}, "panic": func() { panic("no") }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodCallTool: `{"content":[],"isError":true}`})
				begun, ended := 0, 0
				c := w.dial(t, &Options{Trace: func(ctx context.Context, op *Operation) (context.Context, func(bool, error)) {
					if op.Method == mcp.MethodCallTool {
						begin()
						begun++
					}
					return ctx, func(failed bool, err error) {
						if op.Method == mcp.MethodCallTool {
							if ended++; !failed || err != nil {
								t.Errorf("the end of the call: got %t, %v, want a tool that failed", failed, err)
							}
						}
					}
				}})
				_, err := startToolAndWait(t.Context(), c, "t", nil, nil)
				if _, panicked := errors.AsType[*actors.PanicError](err); panicked != (name == "panic") || begun != ended {
					t.Errorf("StartTool: got %v; %d begun and %d ended", err, begun, ended)
				}
			})
		})
	}
}

// Calls that nobody waits for hold no goroutine in the client.
func TestStartToolHoldsNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodCallTool: ""}).dial(t, nil) // does not answer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 100)
		before := runtime.NumGoroutine()
		for range 100 {
			c.StartTool(ctx, "t", nil, &CallOptions{Progress: func(Progress) {}}).OnDone(func(_ *mcp.CallToolResult, err error) { ended <- err })
		}
		time.Sleep(10 * time.Second) // idle workers have gone
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 2 {
			t.Errorf("100 calls hold %d goroutines, want none", n)
		}
		cancel()
		for range 100 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatalf("StartTool: got %v, want %v", err, context.Canceled)
			}
		}
	})
}
