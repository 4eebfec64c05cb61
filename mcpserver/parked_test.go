package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// first sends the first request of a tool that asks, and returns the questions.
func (a *asked) first(tool, arguments string) said {
	a.t.Helper()
	m := readMessage(a.t, a.peer.ask(a.tool(tool, arguments, "")))
	if m.Result == nil || m.Result.ResultType != mcp.ResultInputRequired {
		a.t.Fatalf("%s: got %q, want input_required", tool, m.text())
	}
	return m
}

// again sends a retry and returns what comes of it.
func (a *asked) again(tool, arguments, extra string) said {
	a.t.Helper()
	return readMessage(a.t, a.peer.ask(a.tool(tool, arguments, extra)))
}

// wantRefused fails unless m is the error -32602.
func (a *asked) wantRefused(what string, m said) {
	a.t.Helper()
	if m.Error == nil || m.Error.Code != mcp.CodeInvalidParams {
		a.t.Errorf("%s: got %q, want -32602", what, m.text())
	}
}

var ticketKeys = [][]byte{bytes.Repeat([]byte{7}, 32)}

// SECA-12, MRTR-06: a ticket is worth nothing but to whom it was given, for what, as it
// is, for a while, and with one set of answers.
func TestForgedTickets(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		t.Run(fmt.Sprint("run again ", noParking), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts := &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking, TicketKeys: ticketKeys}, Principal: &mcpserver.Principal{ID: "ada"}}
				s, c := newAsking(t, opts)
				a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
				m := a.first("greet", `{"s":"1"}`)
				state, good := m.Result.RequestState, retryWith(m, `{"name":`+accept("Ada")+`}`)
				with := func(state string) string {
					raw, _ := json.Marshal(state)
					return `,"inputResponses":{"name":` + accept("Ada") + `},"requestState":` + string(raw)
				}
				flipped := []byte(state)
				flipped[len(flipped)/2] ^= 1

				a.wantRefused("a flipped bit", a.again("greet", `{"s":"1"}`, with(string(flipped))))
				a.wantRefused("something behind it", a.again("greet", `{"s":"1"}`, with(state+"-TAMPERED")))
				a.wantRefused("cut off", a.again("greet", `{"s":"1"}`, with(state[:40])))
				a.wantRefused("too large", a.again("greet", `{"s":"1"}`, with(strings.Repeat("A", 40<<10))))
				a.wantRefused("empty", a.again("greet", `{"s":"1"}`, with("")))
				a.wantRefused("no string", a.again("greet", `{"s":"1"}`, `,"inputResponses":{},"requestState":{"a":1}`))
				a.wantRefused("null", a.again("greet", `{"s":"1"}`, `,"inputResponses":{},"requestState":null`))
				a.wantRefused("other arguments", a.again("greet", `{"s":"2"}`, good))
				a.wantRefused("more arguments", a.again("greet", `{"s":"1","n":1}`, good))
				a.wantRefused("another tool", a.again("order", `{"s":"1"}`, good))

				other := *opts
				other.Principal = &mcpserver.Principal{ID: "bob"}
				s2, c2 := newAsking(t, &other)
				b := openAsked(t, s2, mcp.V2026_07_28, allCapabilities)
				b.wantRefused("another principal", b.again("greet", `{"s":"1"}`, good))
				other.Principal = nil
				s3, c3 := newAsking(t, &other)
				n := openAsked(t, s3, mcp.V2026_07_28, allCapabilities)
				n.wantRefused("nobody", n.again("greet", `{"s":"1"}`, good))
				if got := c.greeted.Load() + c2.ran.Load() + c3.ran.Load(); got != 0 {
					t.Errorf("handlers went on %d times, want never", got)
				}

				// The arguments may be written in another way.
				if got := a.again("greet", `{ "s" : "\u0031" }`, good).text(); got != "Hello, Ada!" {
					t.Errorf("the true ticket: got %q", got)
				}
				a.wantRefused("other answers", a.again("greet", `{"s":"1"}`, retryWith(m, `{"name":`+accept("Bob")+`}`)))
				a.wantRefused("fewer answers", a.again("greet", `{"s":"1"}`, retryWith(m, `{}`)))
				if got := c.greeted.Load(); got != 1 {
					t.Errorf("greeted %d times, want once", got)
				}

				late := a.first("greet", `{}`)
				wait(time.Hour)
				a.wantRefused("expired", a.again("greet", `{}`, retryWith(late, `{"name":`+accept("Ada")+`}`)))
			})
		})
	}
}

// SECA-12: large numbers are told apart, which decoders of floats take for one.
func TestOtherLargeArguments(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "raw"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ json.RawMessage) (string, error) {
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			return "ok", err
		})
		if err != nil {
			t.Fatal(err)
		}
		m := a.first("raw", `{"a":{"b":[9007199254740993]}}`)
		good := retryWith(m, `{"name":`+accept("Ada")+`}`)
		a.wantRefused("another number", a.again("raw", `{"a":{"b":[9007199254740992]}}`, good))
		if got := a.again("raw", `{"a":{"b":[9007199254740993]}}`, good).text(); got != "ok" {
			t.Errorf("the same number: got %q", got)
		}
	})
}

// SHM-08, SECA-12: the same retry again is not another one.
func TestTheSameRetryAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, c *counts) {
		one := a.first("order", `{}`)
		extra := a.retry(one, respondAda)
		two := a.again("order", `{}`, extra)
		if again := a.again("order", `{}`, extra); again.Result.RequestState != two.Result.RequestState {
			t.Error("the same retry has started another round")
		}
		extra2 := a.retry(two, respondAda)
		for range 3 {
			if got := a.again("order", `{}`, extra2).text(); got != "3 for Ada, number 1" {
				t.Errorf("the last round: got %q", got)
			}
		}
		// The first round's retry still is what it was.
		if again := a.again("order", `{}`, extra); again.Result.RequestState != two.Result.RequestState {
			t.Error("the first retry has another outcome than before")
		}
		if c.paid.Load() != 1 {
			t.Errorf("paid %d times, want once", c.paid.Load())
		}
	})
}

// slowTool asks, and then works until it is let go.
func slowTool(t *testing.T, s *mcpserver.Server) (begun chan *mcpserver.ToolRequest, letGo chan struct{}, ended chan error) {
	t.Helper()
	begun, letGo, ended = make(chan *mcpserver.ToolRequest, 10), make(chan struct{}), make(chan error, 10)
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		req.Progress(1, 10, "")
		req.Log(mcp.LogInfo, "", "before")
		if _, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?"); err != nil {
			return "", err
		}
		begun <- req
		select {
		case <-letGo:
			req.Progress(5, 10, "")
			req.Log(mcp.LogInfo, "", "after")
			return "done", nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
			return "", context.Cause(ctx)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return begun, letGo, ended
}

// SHM-08: the same retry joins the attempt that runs. CANC-09: who of them leaves gets
// no answer; the attempt ends with the last of them, and then runs again.
func TestJoiningAnAttempt(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		begun, letGo, ended := slowTool(t, s)
		extra := a.retry(a.first("slow", `{}`), respondAda)
		cancel := func(id int) {
			a.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
			synctest.Wait()
		}
		a.send(a.tool("slow", `{}`, extra))
		<-begun
		one := a.next
		a.send(a.tool("slow", `{}`, extra))
		synctest.Wait()
		a.send(a.tool("slow", `{}`, extra))
		synctest.Wait()
		three := a.next
		if n := len(begun); n != 0 {
			t.Fatalf("the same retries have started %d more handlers", n)
		}
		cancel(one)
		if len(ended) != 0 {
			t.Fatal("the attempt has ended with one of those that wait")
		}
		cancel(three)
		cancel(three - 1)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the attempt has ended with %v, want the cancel", err)
		}
		a.silent() // CANC-03

		a.send(a.tool("slow", `{}`, extra))
		<-begun
		a.send(a.tool("slow", `{}`, extra))
		synctest.Wait()
		close(letGo)
		got := map[string]string{}
		for range 2 {
			m := readMessage(t, a.receive())
			got[string(m.ID)] = m.text()
		}
		if len(got) != 2 || got[fmt.Sprint(a.next)] != "done" || got[fmt.Sprint(a.next-1)] != "done" {
			t.Errorf("got %v, want both done", got)
		}
		if len(begun) != 0 {
			t.Error("the handler ran once more")
		}
	})
}

// MRTR-16, LOG-05: after a resume the handler uses the retry's progress token, log level
// and id.
func TestResumeTakesOverFromRetry(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		begun, letGo, _ := slowTool(t, s)
		with := func(line, meta string) string { return strings.Replace(line, `"_meta":{`, `"_meta":{`+meta+`,`, 1) }
		a.send(with(a.tool("slow", `{}`, ""), `"progressToken":"one"`))
		if got := a.receive(); !strings.Contains(got, `"progressToken":"one"`) {
			t.Errorf("got %s, want progress of the first round", got)
		}
		m := readMessage(t, a.receive())
		a.send(with(a.tool("slow", `{}`, a.retry(m, respondAda)), `"progressToken":"two","io.modelcontextprotocol/logLevel":"info"`))
		req := <-begun
		if got := req.ID().String(); got != fmt.Sprint(a.next) {
			t.Errorf("the request's id: got %s, want %d", got, a.next)
		}
		close(letGo)
		got := map[string]bool{}
		for {
			line := a.receive()
			m := readMessage(t, line)
			if m.Method == "" {
				break
			}
			if strings.Contains(line, `"one"`) {
				t.Errorf("got %s, of the first round", line)
			}
			got[m.Method] = true
		}
		if !got[mcp.NotificationMessage] || !got[mcp.NotificationProgress] {
			t.Errorf("got %v, want progress and a log message", got)
		}
	})
}

// MRTR-05: missing answers are asked for again, unknown ones ignored; MRTR-07: malformed
// ones are refused.
func TestMissingAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *mcpserver.Server, a *asked, _ *counts) {
		m := a.first("all", `{}`)
		keys := func(m said) string {
			var all []string
			for _, key := range []string{"form", "model", "roots"} {
				if m.Result != nil && m.Result.InputRequests[key].Method != "" {
					all = append(all, key)
				}
			}
			return strings.Join(all, " ")
		}
		for _, tt := range []struct{ answers, want string }{
			{`{}`, "form model roots"},
			{`{"other":{"action":"accept"}}`, "form model roots"},
		} {
			if got := keys(a.again("all", `{}`, retryWith(m, tt.answers))); got != tt.want {
				t.Errorf("asked again for %q, want %q", got, tt.want)
			}
		}
		state, _ := json.Marshal(m.Result.RequestState)
		if got := keys(a.again("all", `{}`, `,"requestState":`+string(state))); got != "form model roots" {
			t.Errorf("without answers: asked again for %q", got)
		}
		for _, bad := range []string{`null`, `[]`, `{"form":12345}`, `{"form":{"action":"accept","content":{"name":1}},"model":` + respondAda(mcp.MethodCreateMessage, nil) + `,"roots":` + respondAda(mcp.MethodListRoots, nil) + `}`,
			`{"roots":{"roots":[{"uri":"https://example.com"}]}}`, `{"model":{"role":"assistant"}}`} {
			a.wantRefused(bad, a.again("all", `{}`, retryWith(m, bad)))
		}
		two := a.again("all", `{}`, retryWith(m, `{"roots":`+respondAda(mcp.MethodListRoots, nil)+`,"x":1}`))
		if got := keys(two); got != "form model" {
			t.Errorf("with one answer: asked again for %q", got)
		}
		if got := a.again("all", `{}`, a.retry(two, respondAda)).text(); got != `"Ada" Paris file:///home/ada` {
			t.Errorf("with all answers: got %q", got)
		}
	})
}

// MRTR-09: a retry may come to another server, which knows the key.
func TestAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &mcpserver.Options{Rounds: mcpserver.RoundOptions{TicketKeys: ticketKeys}}
		s1, c1 := newAsking(t, opts)
		s2, c2 := newAsking(t, opts)
		a, b := openAsked(t, s1, mcp.V2026_07_28, allCapabilities), openAsked(t, s2, mcp.V2026_07_28, allCapabilities)
		one := a.first("order", `{}`)
		two := b.again("order", `{}`, b.retry(one, respondAda))
		if got := a.again("order", `{}`, a.retry(two, respondAda)).text(); got != "3 for Ada, number 1" {
			t.Errorf("got %q", got)
		}
		if c1.paid.Load() != 0 || c2.paid.Load() != 1 {
			t.Errorf("paid %d and %d times, want once, at the second", c1.paid.Load(), c2.paid.Load())
		}
		foreign := mustServer(t, nil)
		f := openAsked(t, foreign, mcp.V2026_07_28, allCapabilities)
		f.wantRefused("a server with another key", f.again("order", `{}`, f.retry(one, respondAda)))
	})
}

func mustServer(t *testing.T, opts *mcpserver.Options) *mcpserver.Server {
	t.Helper()
	s, _ := newAsking(t, opts)
	return s
}

// A handler that asks something else when it runs again is told so.
func TestOtherQuestions(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		asks := 0
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "moody"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			asks++
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", fmt.Sprintf("Question %d?", asks))
			return "ok", err
		})
		if err != nil {
			t.Fatal(err)
		}
		m := a.first("moody", `{}`)
		wait(11 * time.Minute) // it is not kept any more
		got := a.again("moody", `{}`, a.retry(m, respondAda))
		if got.Error == nil || !strings.Contains(got.Error.Message, `the handler asks "name" where it had asked "name"`) {
			t.Errorf("got %q", got.text())
		}
	})
}

// MRTR-05, MRTR-17: between rounds nothing is in flight. A client that never comes back
// leaves nothing; one that comes late is served all the same.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := a.first("greet", `{}`)
		a.peer.in.Close() // a disconnect cancels nothing
		wait(10*time.Minute - time.Second)
		if len(c.ended) != 0 {
			t.Fatalf("the handler has ended with %v", <-c.ended)
		}
		wait(time.Second)
		if err := <-c.ended; !errors.Is(err, mcpserver.ErrAbandoned) {
			t.Errorf("the handler has ended with %v, want %v", err, mcpserver.ErrAbandoned)
		}
		b := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		if got := b.again("greet", `{}`, b.retry(m, respondAda)).text(); got != "Hello, Ada!" {
			t.Errorf("the late retry: got %q", got)
		}
		if c.ran.Load() != 2 {
			t.Errorf("the handler ran %d times, want twice", c.ran.Load())
		}
	})
}

// A disconnect between rounds cancels nothing: the handler that waits goes on for a
// retry that comes by another way.
func TestDisconnectBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := a.first("greet", `{}`)
		a.peer.in.Close()
		wait(time.Minute)
		b := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		if got := b.again("greet", `{}`, b.retry(m, respondAda)).text(); got != "Hello, Ada!" || c.ran.Load() != 1 {
			t.Errorf("got %q from %d runs, want one", got, c.ran.Load())
		}
	})
}

// A principal has so many handlers kept; more run again.
func TestMaxParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{MaxParked: 2}})
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		var all []said
		for range 3 {
			all = append(all, a.first("greet", `{}`))
		}
		synctest.Wait()
		if err := <-c.ended; !errors.Is(err, mcpserver.ErrAbandoned) {
			t.Errorf("the oldest has ended with %v, want %v", err, mcpserver.ErrAbandoned)
		}
		for _, m := range all {
			if got := a.again("greet", `{}`, a.retry(m, respondAda)).text(); got != "Hello, Ada!" {
				t.Errorf("got %q", got)
			}
		}
		if c.ran.Load() != 4 {
			t.Errorf("the handler ran %d times, want 4", c.ran.Load())
		}
	})
}

// A server that closes ends what is parked, and leaves nothing: see newServer.
func TestCloseWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		a.first("greet", `{}`)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-c.ended; !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("the handler has ended with %v, want %v", err, mcpserver.ErrClosed)
		}
	})
}

// 1,000 handlers parked and abandoned leave no actor and no goroutine.
func TestManyAbandoned(t *testing.T) {
	n := fewer(1000)
	synctest.Test(t, func(t *testing.T) {
		sys, err := actors.NewSystem(nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := mcpserver.New(mcp.Implementation{Name: "test", Version: "1"}, &mcpserver.Options{System: sys, Rounds: mcpserver.RoundOptions{MaxParked: n}})
		if err != nil {
			t.Fatal(err)
		}
		err = mcpserver.AddTool(s, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
			return "", err
		})
		if err != nil {
			t.Fatal(err)
		}
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		a.peer.check = nil
		for range 5 { // the actors that are kept for the next calls are there
			a.first("greet", `{}`)
		}
		wait(11 * time.Minute)
		before := sys.Census()
		for range n {
			a.first("greet", `{}`)
		}
		synctest.Wait()
		if got := sys.Census().Live(actors.KindInvocation); got != n {
			t.Errorf("parked: got %d actors, want %d", got, n)
		}
		wait(11 * time.Minute)
		after := sys.Census()
		if got, want := after.Live(), before.Live(); got != want {
			t.Errorf("abandoned: %d actors are left, want %d", got, want)
		}
		if tasks := mcpserver.Calls(s); tasks != 0 {
			t.Errorf("abandoned: %d calls are remembered", tasks)
		}
		if len(after.Tasks) > len(before.Tasks) {
			t.Errorf("abandoned: tasks are left: %v", after.Tasks)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := sys.Shutdown(t.Context()); err != nil { // waits for every goroutine
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

// What was remembered of calls that are over is forgotten with their tickets.
func TestForgotten(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		for range 10 {
			a.call("order", `{}`, respondAda)
		}
		if got := mcpserver.Calls(s); got != 10 {
			t.Errorf("got %d calls remembered, want 10", got)
		}
		wait(time.Hour + time.Minute)
		if got := mcpserver.Calls(s); got != 0 {
			t.Errorf("got %d calls remembered, want none", got)
		}
	})
}

// Tickets stay under 32 KiB: larger answers are kept for the principal.
func TestLargeAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "large"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			n := 0
			for i := range 3 {
				r, err := req.Sample(ctx, fmt.Sprint("q", i), sampleParams("More?"))
				if err != nil {
					return "", err
				}
				n += len(r.Content.Text())
			}
			return fmt.Sprint(n), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		long := strings.Repeat("x", 50_000)
		got := a.call("large", `{}`, respondWith(`{"role":"assistant","content":{"type":"text","text":"`+long+`"},"model":"m"}`))
		if got != "150000" {
			t.Errorf("got %q, want 150000", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, nil)
		a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
		m := a.first("order", `{}`)
		two := a.again("order", `{}`, retryWith(m, `{"who":`+accept(strings.Repeat("x", 60_000))+`}`))
		if n := len(two.Result.RequestState); n > 32<<10 {
			t.Errorf("the state has %d bytes, want at most 32 KiB", n)
		}
	})
}

// A panic after the first round is the retry's, and leaves nothing.
func TestPanicAfterARound(t *testing.T) {
	eachWay(t, func(t *testing.T, s *mcpserver.Server, a *asked, _ *counts) {
		err := mcpserver.AddTool(s, &mcp.Tool{Name: "bad"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			if _, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?"); err != nil {
				return "", err
			}
			panic("the password is hunter2")
		})
		if err != nil {
			t.Fatal(err)
		}
		m := a.again("bad", `{}`, a.retry(a.first("bad", `{}`), respondAda))
		if m.Error == nil || m.Error.Code != mcp.CodeInternal || strings.Contains(m.text(), "hunter2") {
			t.Errorf("got %q", m.text())
		}
		if got := a.call("greet", `{}`, respondAda); got != "Hello, Ada!" {
			t.Errorf("the next call: got %q", got)
		}
	})
}

// A middleware sees each round, with what the client gets.
func TestMiddlewareOfRounds(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var types []string
			type key struct{}
			watch := func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
				result, err := next(context.WithValue(ctx, key{}, "value"))
				if in.Method == mcp.MethodCallTool {
					var r struct{ ResultType string }
					_ = json.Unmarshal(result, &r)
					types = append(types, fmt.Sprint(r.ResultType, err))
				}
				return result, err
			}
			s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking}, Middleware: []mcpserver.Middleware{watch}})
			err := mcpserver.AddTool(s, &mcp.Tool{Name: "value"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				_, err := mcpserver.Elicit[nameForm](ctx, req, "name", "Who?")
				return fmt.Sprint(ctx.Value(key{})), err
			})
			if err != nil {
				t.Fatal(err)
			}
			a := openAsked(t, s, mcp.V2026_07_28, allCapabilities)
			if got := a.call("order", `{}`, respondAda); got != "3 for Ada, number 1" || c.paid.Load() != 1 {
				t.Errorf("got %q, paid %d times", got, c.paid.Load())
			}
			if got := strings.Join(types, " "); got != "input_required<nil> input_required<nil> complete<nil>" {
				t.Errorf("the middleware saw %q", got)
			}
			if got := a.call("value", `{}`, respondAda); got != "value" {
				t.Errorf("the handler's context: got %q", got)
			}
			a.first("greet", `{}`) // abandoned
		})
	}
}

// SECA-12: the same retry from many sides at once is one execution, with one outcome.
func TestTheSameRetryAtOnce(t *testing.T) {
	for _, noParking := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, c := newAsking(t, &mcpserver.Options{Rounds: mcpserver.RoundOptions{NoParking: noParking}})
			var all []*asked
			for range 8 {
				all = append(all, openAsked(t, s, mcp.V2026_07_28, allCapabilities))
			}
			for range 20 {
				before := c.greeted.Load()
				m := all[0].first("greet", `{}`)
				answers := make(chan string, len(all))
				for _, a := range all {
					line := a.tool("greet", `{}`, a.retry(m, respondAda))
					go func() {
						a.send(line)
						answers <- <-a.lines
					}()
				}
				for range all {
					if got := readMessage(t, <-answers).text(); got != "Hello, Ada!" {
						t.Fatalf("got %q", got)
					}
				}
				if got := c.greeted.Load() - before; got != 1 {
					t.Fatalf("greeted %d times, want once", got)
				}
			}
		})
	}
}
