package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// MRTR-05, MRTR-30: a handler in retry style may ask round after round, and the same
// retry again gets the same round (SHM-08).
func TestRetryStyleRounds(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25, mcp.V2026_07_28} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			sys, err := actors.NewSystem(&actors.Options{Logger: logger})
			if err != nil {
				t.Fatal(err)
			}
			s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{Logger: logger, System: sys})
			if err != nil {
				t.Fatal(err)
			}
			defer time.Sleep(time.Second)
			defer sys.Shutdown(t.Context())
			defer s.Close()
			err = mcpserver.AddTool(s, &mcp.Tool{Name: "rounds"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				if len(req.State()) == 3 {
					return req.State(), nil
				}
				return "", &mcpserver.InputRequired{State: req.State() + "x", Requests: mcp.InputRequests{
					"name": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"mode":"form","message":"Who?","requestedSchema":` + nameSchema + `}`)},
				}}
			})
			if err != nil {
				t.Fatal(err)
			}
			a := openAsked(t, s, v, allCapabilities)
			if got := a.call("rounds", `{}`, respondAda); got != "xxx" {
				t.Errorf("%s: got %q, want three rounds", v, got)
			}
			if v.Era() == mcp.EraModern {
				extra := a.retry(a.first("rounds", `{}`), respondAda)
				one, two := a.again("rounds", `{}`, extra), a.again("rounds", `{}`, extra)
				if one.Result == nil || two.Result == nil || one.Result.RequestState != two.Result.RequestState {
					t.Errorf("the same retry: got %q and %q, want one round", one.text(), two.text())
				}
			}
			synctest.Wait()
			if log.Len() > 0 {
				t.Errorf("%s: the server has logged %s", v, clip(log.String()))
			}
		})
	}
}

// SHM-08: an effect that still goes on when its attempt is cancelled is not repeated by
// the next attempt, which waits for it.
func TestOnceOfACancelledAttempt(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		begun, paid := make(chan struct{}, 10), 0
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "pay"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			if _, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?"); err != nil {
				return "", err
			}
			n, err := mcpserver.Once(ctx, req, "pay", func(context.Context) (int, error) {
				begun <- struct{}{}
				time.Sleep(10 * time.Second) // it can not be stopped
				paid++
				return paid, nil
			})
			return fmt.Sprint("paid ", n), err
		})
		if err != nil {
			t.Fatal(err)
		}
		extra := a.retry(a.first("pay", `{}`), respondAda)
		cancel := func() {
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, a.next))
			synctest.Wait()
		}
		a.send(a.tool("pay", `{}`, extra))
		<-begun
		cancel()
		a.send(a.tool("pay", `{}`, extra)) // waits, and leaves
		synctest.Wait()
		cancel()
		if len(begun) != 0 {
			t.Error("two handlers work for one ticket at the same time")
		}
		if got := a.again("pay", `{}`, extra).text(); got != "paid 1" || paid != 1 {
			t.Errorf("got %q, paid %d times, want once", got, paid)
		}
		a.silent()
	})
}

// CAP-05, MRTR-04: a retry that lacks answers, and the capability for what is asked
// again, is told what is missing.
func TestMissingAnswerAndCapability(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("all", `{}`)
		a.caps = `{"elicitation":{"form":{}}}`
		got := a.again("all", `{}`, retryWith(m, `{"form":`+accept("Ada")+`}`))
		if got.Error == nil || got.Error.Code != mcp.CodeMissingClientCapability {
			t.Errorf("got %q, want -32021", got.text())
		}
		a.caps = allCapabilities // the call is not lost
		if got := a.again("all", `{}`, a.retry(m, respondAda)).text(); !strings.Contains(got, "Paris") {
			t.Errorf("with all of them: got %q", got)
		}
	})
}

// A bound that makes no sense is the usual one.
func TestMaxParkedNegative(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{MaxParked: -1}})
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		if got := a.call("greet", `{}`, respondAda); got != "Hello, Ada!" {
			t.Errorf("got %q", got)
		}
	})
}

// The handler's own limit may be over just when the answers come: then they count.
func TestLimitAndAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "limited"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := mcpserver.Elicit[nameForm](short, req, "name", "Who?")
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
				_, err = mcpserver.Elicit[nameForm](ctx, req, "again", "Who?")
			}
			return "ok", err
		})
		if err != nil {
			t.Fatal(err)
		}
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		for range 50 {
			m := a.first("limited", `{}`)
			time.Sleep(time.Minute)
			if got := a.again("limited", `{}`, a.retry(m, respondAda)); got.Error != nil {
				t.Fatalf("got %q", got.text())
			}
		}
	})
}

// SECA-12, SHM-08: however many other calls there are, the same retry again does not run
// a handler a second time that still works.
func TestBusyAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, nil)
		begun, letGo, _ := slowTool(t, s)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		a.peer.check = nil
		extra := a.retry(a.first("slow", `{}`), respondAda)
		a.send(a.tool("slow", `{}`, extra))
		<-begun
		other := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		other.peer.check = nil
		for range 1100 {
			other.call("greet", `{}`, respondAda)
		}
		if n := mcpserver.Calls(s); n > 1001 || c.greeted.Load() != 1100 {
			t.Errorf("%d calls are remembered of %d, want 1000", n, c.greeted.Load())
		}
		a.send(a.tool("slow", `{}`, extra))
		synctest.Wait()
		if len(begun) != 0 {
			t.Error("two handlers work for one ticket at the same time")
		}
		close(letGo)
		for range 2 {
			if got := readMessage(t, a.receive()).text(); got != "done" {
				t.Errorf("got %q", got)
			}
		}
	})
}

// MRTR-06: a state of a handler's own that is too large to travel is kept here, and so
// are forms.
func TestLargeState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		own := strings.Repeat("s", 40<<10)
		schema := strings.Replace(nameSchema, `"string"`, `"string","description":"`+strings.Repeat("d", 40<<10)+`"`, 1)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "large"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			if req.State() == "" {
				return "", &mcpserver.InputRequired{State: own, Requests: mcp.InputRequests{
					"name": {Method: mcp.MethodElicit, Params: json.RawMessage(`{"mode":"form","message":"Who?","requestedSchema":` + schema + `}`)},
				}}
			}
			return fmt.Sprint(req.State() == own), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := a.first("large", `{}`)
		if n := len(m.Result.RequestState); n > 1<<10 {
			t.Errorf("the state has %d bytes", n)
		}
		a.wantRefused("no answer to the form", a.again("large", `{}`, retryWith(m, `{"name":{"action":"accept","content":{"age":1}}}`)))
		if got := a.again("large", `{}`, a.retry(m, respondAda)).text(); got != "true" {
			t.Errorf("got %q", got)
		}
	})
}

// A client of 2026-07-28 has the questions before a handler that is not kept has returned. The
// next run does not wait for it: a handler that returns late holds up no answer.
func TestNextRunOverlaps(t *testing.T) {
	synctestOnce(t, func(t *testing.T) {
		s, _ := newServer(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: true}})
		late := make(chan struct{})
		returned := make(chan error, 2)
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "late"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			form, err := mcpserver.Elicit[nameForm](ctx, req, "name", "What is your name?")
			if err != nil {
				<-late
			}
			returned <- err
			return form.Name, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := openAsked(t, s, mcp.V2026_07_28, allCapabilities).call("late", `{}`, respondAda); got != "Ada" {
			t.Errorf("got %q", got)
		}
		close(late)
		if err := <-returned; err != nil {
			t.Errorf("the second run has returned %v", err)
		}
		if err := <-returned; !errors.Is(err, mcpserver.ErrSuspended) {
			t.Errorf("the first run has returned %v, want that it was suspended", err)
		}
	})
}
