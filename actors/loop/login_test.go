package loop_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// never is a login that does not come.
func never(left *int) loop.Login {
	return loop.Login{Server: "club", Payload: []byte(`{}`), Hash: "h", Wait: func(func(error)) func() { return func() { *left++ } }}
}

// A call that leaves, or returns without a word, withdraws the question for its login; another that
// waits keeps it.
func TestLoginWithdrawn(t *testing.T) {
	for name, leaves := range map[string]bool{"leaves": true, "returns": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				left := 0
				login := tool("login", func(_ context.Context, call *loop.Call) (string, error) {
					leave := call.AwaitLogin(never(&left), func(error) { t.Error("it is told") })
					time.Sleep(time.Minute)
					if leaves {
						leave()
						time.Sleep(time.Minute)
					}
					return "gone", nil
				})
				model := llmtest.Script(llmtest.Calls(llmtest.Call("login", `{"a":1}`), llmtest.Call("login", `{"a":2}`)), llmtest.Say("ok"))
				run := b.start(b.allowed(model, login))
				if row := <-b.sink.asked; row.Kind != runlog.AskLogin || row.Server != "club" {
					t.Errorf("asked: %+v", row)
				}
				if out := b.finish(run); out.Err != nil || out.Text != "ok" || left != 1 {
					t.Errorf("got %+v; %d waits were given up", out, left)
				}
				asks, err := b.store.Asks(t.Context(), store.AskQuery{})
				if err != nil || len(asks) != 1 || asks[0].Status != store.AskCancelled {
					t.Errorf("asks: %+v, %v", asks, err)
				}
			})
		})
	}
}

// failing is a list of tools that lacks a server, whose login fails in one way or another.
type failing struct {
	tools
	login loop.Login
	lists *int
}

func (f failing) Offer(context.Context) (*loop.Offer, []runlog.Absent) {
	*f.lists++
	return loop.NewOffer(f.tools), []runlog.Absent{{Server: "club", Reason: "no login"}}
}

func (f failing) Logins(context.Context) []loop.Login { return []loop.Login{f.login} }

// A server that wants a login again and again is asked for three times; one whose login
// is given up is not asked for again.
func TestLoginIsBounded(t *testing.T) {
	for name, tt := range map[string]struct {
		end  error
		asks int
	}{"it wants another": {nil, 3}, "it is given up": {errors.New("the account is closed"), 1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				lists := 0
				cfg := b.allowed(llmtest.Script(llmtest.Call("t", `{}`), llmtest.Say("ok")), tool("t", echo))
				cfg.Tools = failing{tools{tool("t", echo)}, loop.Login{Server: "club", Payload: []byte(`{}`), Hash: "h", Wait: func(resume func(error)) func() {
					resume(tt.end)
					return func() {}
				}}, &lists}
				run := b.start(cfg)
				if out := b.finish(run); out.Err != nil || out.Text != "ok" {
					t.Fatalf("got %+v", out)
				}
				asks, err := b.store.Asks(t.Context(), store.AskQuery{})
				if err != nil || len(asks) != tt.asks || lists != tt.asks+2 {
					t.Errorf("%d asks, %d lists, %v", len(asks), lists, err)
				}
				if tt.end != nil && !slices.ContainsFunc(asks, func(a store.Ask) bool { return strings.Contains(string(a.Answer), "the account is closed") }) {
					t.Errorf("asks: %+v", asks)
				}
			})
		})
	}
}
