package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// seen is what a middleware was called with.
type seen struct {
	sync.Mutex
	all []string
}

func (n *seen) add(format string, args ...any) {
	n.Lock()
	defer n.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *seen) take() []string {
	n.Lock()
	defer n.Unlock()
	all := n.all
	n.all = nil
	return all
}

type ctxKey struct{}

// A middleware sees each request, its outcome, and gives the handler its context.
func TestMiddleware(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n seen
				outer := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
					result, err := next(context.WithValue(ctx, ctxKey{}, "from outside"))
					n.add("%s %s %s %s %v %d %v", in.Method, in.Name, in.Arguments, in.Client.Info.Name, in.Version == v, len(result), err)
					return result, err
				}
				inner := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
					n.add("inner %v", ctx.Value(ctxKey{}))
					return next(ctx)
				}
				s, _ := newServer(t, &mcpserver.Options{Middleware: []mcpserver.Middleware{outer, inner}})
				err := errors.Join(addPrompts(s), addResources(s),
					mcpserver.AddFunc(s, &mcp.Tool{Name: "ctx"}, func(ctx context.Context, _ struct{}) (string, error) {
						return fmt.Sprint(ctx.Value(ctxKey{}), " ", ctx.Err()), nil
					}))
				if err != nil {
					t.Fatal(err)
				}
				p := serve(t, s)
				p.open(v)
				n.take()
				if got := p.ask(call(v, 1, "ctx", `{}`)); !strings.Contains(got, "from outside \\u003cnil") && !strings.Contains(got, "from outside <nil>") {
					t.Errorf("the handler's context: got %s", got)
				}
				p.ask(get(v, 2, "greet", `{"name":"Ada"}`))
				p.ask(read(v, 3, "test://text"))
				p.expectError(call(v, 4, "refuse", `{}`), 1234, "4")
				p.ask(request(v, 5, mcp.MethodListTools, "{}"))
				p.expectError(call(v, 6, "unknown", `{}`), mcp.CodeInvalidParams, "6") // never gets there
				got := slices.DeleteFunc(n.take(), func(s string) bool { return s == "inner from outside" })
				want := []string{
					"tools/call ctx {} peer true", `prompts/get greet {"name":"Ada"} peer true`, "resources/read test://text  peer true",
					"tools/call refuse {} peer true 0 not for you (1234)", "tools/list   peer true",
				}
				if len(got) != len(want) {
					t.Fatalf("got %q, want %q", got, want)
				}
				for i := range want {
					if !strings.HasPrefix(got[i], want[i]) {
						t.Errorf("request %d: got %q, want %q", i+1, got[i], want[i])
					}
				}
			})
		})
	}
}

// A middleware may refuse, and put another result in place of the handler's.
func TestMiddlewareDecides(t *testing.T) {
	rule := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		switch in.Name {
		case "fail":
			return nil, mcp.Errorf(4711, "closed today")
		case "who":
			return nil, errors.New("hunter2")
		case "refuse":
			_, _ = next(ctx)
			return json.RawMessage(`{"content":[{"type":"text","text":"instead"}]}`), nil
		case "hang":
			return json.RawMessage(`{"content":`), nil
		case "log":
			return nil, nil
		}
		result, err := next(ctx)
		switch {
		case in.Name == "echo":
			return json.RawMessage(strings.ReplaceAll(string(result), "secret", "******")), err
		case in.Method == mcp.MethodListTools:
			return json.RawMessage(`{"tools":[]}`), err
		}
		return result, err
	}
	inBubble(t, &mcpserver.Options{Middleware: []mcpserver.Middleware{rule}}, func(t *testing.T, s *mcpserver.Server, p *peer, g *gate) {
		const v = mcp.V2025_11_25
		p.initialize(v)
		p.expectError(call(v, 1, "fail", "{}"), 4711, "1")
		if e := p.expectError(call(v, 2, "who", "{}"), mcp.CodeInternal, "2"); e.Message != "internal error" {
			t.Errorf("got %q", e.Message)
		}
		p.expect(call(v, 3, "refuse", "{}"), `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"instead"}]}}`)
		p.expectError(call(v, 4, "hang", "{}"), mcp.CodeInternal, "4") // the result is not JSON
		p.expectError(call(v, 5, "log", "{}"), mcp.CodeInternal, "5")  // there is none
		p.expect(call(v, 6, "echo", `{"text":"a secret"}`), `{"jsonrpc":"2.0","id":6,"result":{"content":[{"type":"text","text":"{\"text\":\"a ******\"}"}],"structuredContent":{"text":"a ******"}}}`)
		p.expect(request(v, 7, mcp.MethodListTools, "{}"), `{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`)
		p.expectError(call(v, 8, "panic", "{}"), mcp.CodeInternal, "8")
		p.send(call(v, 9, "block", "{}")) // CANC-03: a cancelled call is not answered by a middleware either
		<-g.begun
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`)
		<-g.ended
		p.silent()
	})
}

// ROB-2: a middleware that returns nonsense, or panics, where the pipe is read does not
// break or end it.
func TestMiddlewareOdd(t *testing.T) {
	odd := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		switch in.Method {
		case mcp.MethodListTools:
			return json.RawMessage{}, nil
		case mcp.MethodPing:
			return json.RawMessage(`{"a":`), nil
		case mcp.MethodSetLevel, mcp.MethodListen:
			panic("odd")
		}
		return next(ctx)
	}
	inBubble(t, &mcpserver.Options{Middleware: []mcpserver.Middleware{odd}}, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		const v = mcp.V2025_11_25
		p.initialize(v)
		for i, frame := range []string{
			request(v, 0, mcp.MethodListTools, "{}"), request(v, 1, mcp.MethodPing, "{}"), request(v, 2, mcp.MethodSetLevel, `{"level":"info"}`), listen(3, "{}"),
		} {
			p.expectError(frame, mcp.CodeInternal, fmt.Sprint(i))
		}
		if got := p.ask(call(v, 4, "echo", `{"text":"x"}`)); !strings.Contains(got, `"result"`) {
			t.Errorf("after that: got %s", got)
		}
	})
}

// LIFE-05, P13: a client whose initialize a middleware refuses has no session, even if it
// was there for a moment.
func TestMiddlewareRefusesInitialize(t *testing.T) {
	refuse := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		result, err := next(ctx)
		if in.Method == mcp.MethodInitialize {
			return nil, mcp.Errorf(4711, "not you")
		}
		return result, err
	}
	opts := &mcpserver.Options{Middleware: []mcpserver.Middleware{refuse}}
	webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		w := newWeb(t, client, mcp.V2025_11_25)
		if got := w.post(initialize(w.version)); got.code() != 4711 || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("got %v, want the error and no session", got)
		}
		synctest.Wait()
		if n := mcpserver.Sessions(s); n != 0 {
			t.Errorf("got %d sessions, want none", n)
		}
	})
	inBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, p *peer, _ *gate) {
		p.check = nil
		p.expectError(initialize(mcp.V2025_11_25), 4711, `"init"`)
		p.expectError(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, mcp.CodeInvalidRequest, "2")
	})
}

// A middleware that waits does not hold up the others of a pipe.
func TestMiddlewareWaits(t *testing.T) {
	open := make(chan struct{})
	wait := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		if in.Name == "fail" {
			<-open
		}
		return next(ctx)
	}
	inBubble(t, &mcpserver.Options{Middleware: []mcpserver.Middleware{wait}}, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		p.modern()
		for i := range 20 { // quick enough for the place where the pipe is read
			p.ask(call(p.version, i, "echo", `{"text":"x"}`))
		}
		p.send(call(p.version, "slow", "fail", "{}"))
		p.ask(call(p.version, "quick", "echo", `{"text":"x"}`))
		close(open)
		if got := p.receive(); !strings.Contains(got, `"slow"`) {
			t.Errorf("got %s", got)
		}
	})
}
