package mcpserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// earn has a tool earn its place where the pipe is read, by quick calls.
func (a *asked) earn(s *mcpserver.Server, tool, arguments string) {
	a.t.Helper()
	for range 3 {
		a.call(tool, arguments, respondAda)
	}
	q := a.begin(tool, arguments)
	if synctest.Wait(); !mcpserver.Hosts(s) {
		a.t.Fatalf("after three quick calls %s does not run where the pipe is read", tool)
	}
	a.answer(q)
	for q := readMessage(a.t, a.receive()); q.Method != ""; q = readMessage(a.t, a.receive()) {
		a.answer(q)
	}
	if synctest.Wait(); mcpserver.Hosts(s) {
		a.t.Fatalf("the call of %s is over, and its place is taken", tool)
	}
}

// begin calls a tool and returns its question.
func (a *asked) begin(tool, arguments string) said {
	a.t.Helper()
	q := readMessage(a.t, a.peer.ask(a.tool(tool, arguments, "")))
	if q.Method == "" {
		a.t.Fatalf("got %+v, want a question", q)
	}
	return q
}

// answer answers a question.
func (a *asked) answer(q said) {
	a.t.Helper()
	a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, respondAda(q.Method, q.Params)))
}

// hosted runs f in a bubble with a client whose next call of the tool, and of any tool that has earned it too, runs where
// the pipe is read.
func hosted(t *testing.T, tool string, add func(s *mcpserver.Server) error, f func(s *mcpserver.Server, a *asked, c *counts)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, &mcpserver.Options{Limits: mcpserver.Limits{CallTimeout: time.Hour}})
		if add != nil {
			if err := add(s); err != nil {
				t.Fatal(err)
			}
		}
		a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
		a.earn(s, tool, `{}`)
		f(s, a, c)
	})
}

// While a handler that reads waits for its answer, other requests are served, and its answer still reaches it.
func TestHostedServesOthers(t *testing.T) {
	hosted(t, "order", nil, func(s *mcpserver.Server, a *asked, _ *counts) {
		first := a.begin("order", `{}`)
		if got := readMessage(t, a.peer.ask(a.tool("echo", `{"text":"hi"}`, ""))); !strings.Contains(got.text(), "hi") {
			t.Errorf("a call beside the question: got %+v", got)
		}
		second := a.begin("order", `{}`)
		a.send("[]") // not valid, and not a response
		if m := readMessage(t, a.receive()); m.Error == nil {
			t.Errorf("got %+v, want an error", m)
		}
		for _, q := range []said{first, second} {
			a.answer(q)
			a.answer(readMessage(t, a.receive()))
			if got := readMessage(t, a.receive()).text(); !strings.HasPrefix(got, "3 for Ada") {
				t.Errorf("got %q", got)
			}
		}
		a.earn(s, "order", `{}`)
	})
}

// MRTR-15: a handler in retry style waits between two runs.
func TestHostedRetryStyle(t *testing.T) {
	hosted(t, "retry", nil, func(s *mcpserver.Server, a *asked, _ *counts) {
		q := a.begin("retry", `{}`)
		if synctest.Wait(); !mcpserver.Hosts(s) {
			t.Error("the handler does not read")
		}
		a.answer(q)
		if got := readMessage(t, a.receive()).text(); !strings.HasPrefix(got, "first ") {
			t.Errorf("got %q", got)
		}
	})
}

// Several questions at once, in any order of their answers, one of which is an error.
func TestHostedAsksSeveral(t *testing.T) {
	hosted(t, "all", nil, func(s *mcpserver.Server, a *asked, _ *counts) {
		for _, order := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
			a.send(a.tool("all", `{}`, ""))
			qs := []said{readMessage(t, a.receive()), readMessage(t, a.receive()), readMessage(t, a.receive())}
			for _, i := range order {
				a.answer(qs[i])
			}
			if got := readMessage(t, a.receive()).text(); got != `"Ada" Paris file:///home/ada` {
				t.Errorf("in the order %v: got %q", order, got)
			}
		}
		a.send(a.tool("all", `{}`, ""))
		for range 3 {
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no"}}`, readMessage(t, a.receive()).ID))
		}
		if got := readMessage(t, a.receive()).text(); !strings.HasPrefix(got, "isError") {
			t.Errorf("after errors: got %q", got)
		}
		a.earn(s, "all", `{}`)
	})
}

// What ends a question other than its answer ends the read that its handler is in: the time of the question, that of the
// handler's own choice, the server, and the client. TIME-01, CANC-13.
func TestHostedEnds(t *testing.T) {
	patient := func(t *testing.T, f func(s *mcpserver.Server, a *asked, q said)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s, _ := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketTTL: 20 * time.Minute}, Limits: mcpserver.Limits{CallTimeout: time.Hour}})
			addPatient(t, s)
			a := openAsked(t, s, mcp.V2025_11_25, allCapabilities)
			a.earn(s, "patient", `{"text":"form","n":90}`)
			q := a.begin("patient", `{"text":"form","n":90}`)
			if synctest.Wait(); !mcpserver.Hosts(s) {
				t.Fatal("the handler does not read")
			}
			f(s, a, q)
		})
	}
	withdrawn := func(t *testing.T, a *asked, q said) {
		t.Helper()
		both := a.receive() + a.receive() // in any order
		if !strings.Contains(both, `"method":"notifications/cancelled"`) || !strings.Contains(both, `"requestId":`+string(q.ID)) || !strings.Contains(both, "it took too long") {
			t.Errorf("got %s, want question %s withdrawn and the call's result", both, q.ID)
		}
	}
	t.Run("the handler's own time", func(t *testing.T) {
		patient(t, func(s *mcpserver.Server, a *asked, q said) {
			wait(91 * time.Second)
			withdrawn(t, a, q)
			a.answer(q) // too late
			a.earn(s, "patient", `{"text":"form","n":90}`)
		})
	})
	t.Run("the time of a question", func(t *testing.T) {
		patient(t, func(s *mcpserver.Server, a *asked, q said) {
			a.answer(q)
			a.receive()
			q = a.begin("patient", `{"text":"form"}`)
			wait(21 * time.Minute)
			withdrawn(t, a, q)
			a.earn(s, "patient", `{"text":"form"}`)
		})
	})
	t.Run("the server closes", func(t *testing.T) {
		patient(t, func(s *mcpserver.Server, a *asked, _ said) {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if synctest.Wait(); mcpserver.Hosts(s) || len(a.ended) != 1 {
				t.Error("the handler or its session has not ended")
			}
		})
	})
	t.Run("the client hangs up", func(t *testing.T) {
		patient(t, func(s *mcpserver.Server, a *asked, _ said) {
			a.in.Close()
			wait(3 * time.Second) // Limits.Grace
			if mcpserver.Hosts(s) || len(a.ended) != 1 {
				t.Error("the handler or its session has not ended")
			}
		})
	})
}

// A handler that ends its goroutine, panics or is slow after an answer takes nothing with it: others are served.
func TestHostedFails(t *testing.T) {
	for _, how := range []string{"goexit", "panic", "slow"} {
		t.Run(how, func(t *testing.T) {
			var mode string
			add := func(s *mcpserver.Server) error {
				return mcpserver.AddTool(s, &mcp.Tool{Name: "fragile"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
					_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
					switch mode {
					case "goexit":
						runtime.Goexit()
					case "panic":
						panic("as the test wants")
					case "slow":
						time.Sleep(time.Minute)
					}
					return "well", err
				})
			}
			hosted(t, "fragile", add, func(_ *mcpserver.Server, a *asked, _ *counts) {
				mode = how
				a.answer(a.begin("fragile", `{}`))
				a.send(a.tool("echo", `{"text":"hi"}`, ""))
				both := a.receive()
				if how != "slow" {
					both += a.receive()
				}
				if !strings.Contains(both, `hi`) {
					t.Errorf("got %s, want the echo", both)
				}
				if how == "slow" {
					if got := readMessage(t, a.receive()).text(); got != "well" {
						t.Errorf("the slow call: got %q", got)
					}
				}
				mode = ""
				if got := a.call("fragile", `{}`, respondAda); got != "well" {
					t.Errorf("the next call: got %q", got)
				}
			})
		})
	}
}

// Another goroutine of the handler may ask while the handler waits for that.
func TestHostedAsksElsewhere(t *testing.T) {
	add := func(s *mcpserver.Server) error {
		return mcpserver.AddTool(s, &mcp.Tool{Name: "spread"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			var errs [2]error
			var both sync.WaitGroup
			for i := range errs {
				both.Go(func() { _, errs[i] = mcpserver.Elicit[nameForm](ctx, req, fmt.Sprint(i), "Who?") })
			}
			both.Wait()
			return "well", errors.Join(errs[:]...)
		})
	}
	hosted(t, "spread", add, func(s *mcpserver.Server, a *asked, _ *counts) {
		for range 20 {
			if got := a.call("spread", `{}`, respondAda); got != "well" {
				t.Fatalf("got %q", got)
			}
		}
		q := a.begin("spread", `{}`)
		a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, a.next))
		if got := a.receive(); !strings.Contains(got, mcp.NotificationCancelled) || !strings.Contains(got, `"requestId":`+string(q.ID)) {
			t.Errorf("after a cancel: got %s", got)
		}
		a.silent()
	})
}

// On a pipe of the system: each question has an answer or is given up by its handler, whatever the reader is doing then.
func TestHostedOnFile(t *testing.T) {
	s, _ := newServer(t, nil)
	giveUp := make(chan struct{})
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "hasty"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-giveUp:
				cancel()
			case <-over:
			}
		}()
		if _, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?"); err != nil {
			return "given up", nil
		}
		return "answered", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inR.Close()
	outR, outW := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context(), inR, outW) }()
	lines := bufio.NewScanner(outR)
	send := func(line string) {
		t.Helper()
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	receive := func(want string) said {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return readMessage(t, lines.Text())
			}
		}
		t.Fatalf("got the end of the output, want %s", want)
		return said{}
	}
	send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"peer","version":"1"}}}`, mcp.V2025_11_25, allCapabilities))
	receive(`"id":0`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range fewer(300) {
		send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"hasty","arguments":{}}}`, i+1000))
		q, want := receive(mcp.MethodElicit), "answered"
		if i%3 == 2 {
			want = "given up"
			giveUp <- struct{}{}
		} else {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, accept("Ada")))
		}
		if got := receive(fmt.Sprintf(`"id":%d,"result"`, i+1000)).text(); got != want {
			t.Fatalf("call %d: got %q, want %q", i, got, want)
		}
	}
	inW.Close()
	for lines.Scan() { // until the server has closed its end
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
}
