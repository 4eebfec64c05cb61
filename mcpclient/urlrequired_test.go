package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/elicit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

func urlElicit(id, url string) string {
	return `{"mode":"url","message":"Sign in","url":"` + url + `","elicitationId":"` + id + `"}`
}

// urlError is the answer -32042 with pages of these ids.
func urlError(m *mcp.Message, ids ...string) string {
	pages := make([]string, len(ids))
	for i, id := range ids {
		pages[i] = urlElicit(id, "https://x.example/"+id)
	}
	return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":{"code":-32042,"message":"sign in first","data":{"elicitations":[` + strings.Join(pages, ",") + `]}}}`
}

func (s *asker) complete(id string) {
	s.say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"` + id + `"}}`)
}

// signIn is a server that wants pages opened, and answers after n refusals.
func signIn(s *asker, n int32, ids ...string) {
	var calls atomic.Int32
	s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
		if calls.Add(1) <= n {
			return urlError(m, ids...)
		}
		return resultOf(m, `{"content":[]}`)
	}
}

// URL-10, URL-11, URL-12, URL-13, URL-16, URL-03, SECA-29, SECA-15: a page is opened
// after consent, once, as exactly the URL that was shown, and by nobody else: nothing
// of us ever asks for it. The program that opens it gets it as it is.
func TestURLNeverPrefetched(t *testing.T) {
	var hits atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer web.Close()
	for _, action := range []string{"decline", "cancel", "accept"} {
		t.Run(action, func(t *testing.T) {
			var b browserLog
			human := says(action)
			s := newAsker(t, mcp.V2025_11_25)
			sys := realSystem(t)
			c := s.dial(&Options{System: sys, AskOptions: AskOptions{Human: human, OpenURL: b.open}})
			wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, urlElicit("1", web.URL+"/p?q=$(id)&x='y'")), `{"action":"`+action+`"}`)
			ask := human.seen()[0]
			if ask.Kind != AskURL || ask.URL.Host != "127.0.0.1" || ask.URL.ElicitationID != "1" || len(ask.URL.Warnings) == 0 {
				t.Errorf("ask: got %+v", ask.URL)
			}
			var want []string
			if action == "accept" {
				want = []string{ask.URL.URL}
			}
			if got := b.opened(); !slices.Equal(got, want) || hits.Load() != 0 {
				t.Errorf("opened %v, want %v; the page was asked for %d times", got, want, hits.Load())
			}
			c.Close() // also nothing when it ends
		})
	}
	if hits.Load() != 0 {
		t.Error("the page was asked for")
	}
}

// URL-03, URL-17, URL-30, URL-31, ELIC-05: what was accepted is pending until the
// server says that it is completed, or a person ends it; other ids do nothing.
func TestPendingPages(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var b browserLog
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: b.open}})
		for _, id := range []string{"a", "b", "c", "d"} {
			s.ask(id, mcp.MethodElicit, urlElicit(id, "https://x.example/"+id))
		}
		pending := func() string {
			synctest.Wait()
			var urls []string
			for _, e := range c.Elicitations() {
				urls = append(urls, strings.TrimPrefix(e.URL.URL, "https://x.example/"))
			}
			return strings.Join(urls, "")
		}
		check := func(what, want string) {
			t.Helper()
			if got := pending(); got != want {
				t.Errorf("%s: pending %q, want %q", what, got, want)
			}
		}
		check("all", "abcd")
		s.complete("other") // SECA-35
		s.say(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{}}`)
		check("unknown id", "abcd")
		s.complete("b")
		s.complete("b")
		check("completed", "acd")
		c.Elicitations()[0].Retry()
		check("retried", "cd")
		c.Elicitations()[0].Cancel()
		check("cancelled", "d")
		time.Sleep(time.Hour)
		check("expired", "")
		b.err = errors.New("no browser") // ELIC-05
		wantJSON(t, "answer", s.ask("e", mcp.MethodElicit, urlElicit("e", "https://x.example/e")), `{"action":"cancel"}`)
		check("no browser", "")
	})
}

// URL-32: a completion that comes before the answer has been sent counts.
func TestCompletionBeforeAccept(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: func(context.Context, string) error {
			s.complete("1")
			time.Sleep(time.Second)
			return nil
		}}})
		wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, urlElicit("1", "https://x.example")), `{"action":"accept"}`)
		synctest.Wait()
		if n := len(c.Elicitations()); n != 0 {
			t.Errorf("%d are pending", n)
		}
	})
}

// URL-40, URL-41: the call is tried again with another id after all pages are
// completed, early ones too (URL-32), or when a person says so (URL-17). It is an
// ordinary message, in order: see the trace.
func TestURLRequired(t *testing.T) {
	for name, finish := range map[string]func(s *asker, c *Client){
		"completed": func(s *asker, _ *Client) { s.complete("b"); s.complete("a") },
		"by hand": func(_ *asker, c *Client) {
			for _, e := range c.Elicitations() {
				e.Retry()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				tracer := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool {
					k := ev.Actor.Kind()
					return k == actors.KindCall || k == actors.KindElicitation
				}}
				var b browserLog
				human := says("accept")
				s := newAsker(t, mcp.V2025_11_25)
				signIn(s, 1, "a", "b")
				c := s.dial(&Options{System: traced(t, tracer), AskOptions: AskOptions{Human: human, OpenURL: b.open}})
				synctest.Wait()
				handshake := len(tracer.Lines())
				time.AfterFunc(30*time.Minute, func() { // longer than any limit of the call
					synctest.Wait()
					if n := len(s.requests(mcp.MethodCallTool)); n != 1 {
						t.Errorf("%d attempts before the pages are completed", n)
					}
					finish(s, c)
				})
				if _, err := c.CallTool(t.Context(), "t", []byte(`{"x":1}`), nil); err != nil {
					t.Fatal(err)
				}
				calls := s.requests(mcp.MethodCallTool)
				if len(calls) != 2 || calls[0].ID == calls[1].ID || string(calls[0].Params) != string(calls[1].Params) {
					t.Errorf("attempts: got %d", len(calls))
				}
				if len(human.seen()) != 2 || len(b.opened()) != 2 || human.seen()[0].Calls[0].Name != "t" {
					t.Errorf("asked %d times, opened %v", len(human.seen()), b.opened())
				}
				synctest.Wait()
				var order []string
				for _, line := range tracer.Lines()[handshake:] {
					switch line {
					case "call begin", "call response", "call resumed", "call followed", "elicitation open", "elicitation completed", "elicitation retried":
						order = append(order, line)
					}
				}
				end := "elicitation completed"
				if name == "by hand" {
					end = "elicitation retried"
				}
				want := []string{"call begin", "call response", "elicitation open", "elicitation open", end, end, "call resumed", "call followed", "call response"}
				if !slices.Equal(order, want) {
					t.Errorf("trace: got %v\nwant %v\nall %v", order, want, tracer.Lines()[handshake:])
				}
			})
		})
	}
}

// URL-41: a page that is declined, or cancelled later, ends the call with the
// server's own error, as do those beyond the bound, or beyond what may be shown.
// URL-42, URL-43: who has not declared URLs, or speaks another revision, gets it as is.
func TestURLRequiredFails(t *testing.T) {
	tests := []struct {
		name    string
		version mcp.Version
		human   *decider
		ids     []string
		after   func(c *Client)
		calls   int
		asked   int
		want    error
	}{
		{"URL-41 declined", mcp.V2025_11_25, says("decline"), []string{"a"}, nil, 1, 1, mcp.ErrURLElicitationRequired},
		{"URL-41 dismissed", mcp.V2025_11_25, says("cancel"), []string{"a", "b"}, nil, 1, 2, mcp.ErrURLElicitationRequired},
		{"URL-17 cancelled by hand", mcp.V2025_11_25, says("accept"), []string{"a"}, func(c *Client) { c.Elicitations()[0].Cancel() }, 1, 1, elicit.ErrCancelled},
		{"expired", mcp.V2025_11_25, says("accept"), []string{"a"}, func(*Client) {}, 1, 1, elicit.ErrExpired},
		{"URL-42 not declared", mcp.V2025_11_25, nil, []string{"a"}, nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"URL-43 older", mcp.V2025_06_18, says("accept"), []string{"a"}, nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"URL-43 modern", mcp.V2026_07_28, says("accept"), []string{"a"}, nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"URL-40 empty", mcp.V2025_11_25, says("accept"), nil, nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"URL-16 refused URL", mcp.V2025_11_25, says("accept"), []string{"a", "\u202eevil"}, nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"ROB-9 too many pages", mcp.V2025_11_25, says("accept"), strings.Split(strings.Repeat("a ", 20), " "), nil, 1, 0, mcp.ErrURLElicitationRequired},
		{"URL-41 bounded", mcp.V2025_11_25, says("accept"), []string{"a"}, func(c *Client) {
			for range asks.MaxURLRounds {
				c.Elicitations()[0].Retry()
				synctest.Wait()
			}
		}, 1 + asks.MaxURLRounds, asks.MaxURLRounds, mcp.ErrURLElicitationRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var b browserLog
				opts := AskOptions{OpenURL: b.open}
				if tt.human != nil {
					opts.Human = tt.human
				}
				s := newAsker(t, tt.version)
				signIn(s, 100, tt.ids...)
				c := s.dial(&Options{AskOptions: opts})
				if tt.after != nil {
					time.AfterFunc(time.Minute, func() { tt.after(c) })
				}
				_, err := c.CallTool(t.Context(), "t", nil, nil)
				e, ok := errors.AsType[*mcp.Error](err)
				if !errors.Is(err, tt.want) || !ok || e.Code != mcp.CodeURLElicitationRequired {
					t.Errorf("CallTool: got %v, want %v", err, tt.want)
				}
				if strings.Contains(err.Error(), "x.example") { // URL-18: it may be shown to a model
					t.Errorf("the error tells the URL: %v", err)
				}
				asked := 0
				if tt.human != nil {
					asked = len(tt.human.seen())
				}
				if n := len(s.requests(mcp.MethodCallTool)); n != tt.calls || asked > tt.asked || asked < min(tt.asked, 1) {
					t.Errorf("%d attempts, asked %d times; want %d and %d", n, asked, tt.calls, tt.asked)
				}
			})
		})
	}
}

// Exactly one outcome: whoever kills or breaks the actor of a page ends the calls
// that wait for it, all of them, and no other.
func TestPageIsKilled(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var refs []actors.Ref
		tracer := &actors.Tracer{Keep: func(ev actors.TraceEvent) bool {
			if _, started := ev.Message.(actors.Started); started && ev.Actor.Kind() == actors.KindElicitation {
				mu.Lock()
				defer mu.Unlock()
				refs = append(refs, ev.Actor)
			}
			return false
		}}
		s := newAsker(t, mcp.V2025_11_25)
		s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
			name, _ := m.NameString()
			if len(s.requests(mcp.MethodCallTool)) > 4 {
				return resultOf(m, `{"content":[]}`)
			}
			return urlError(m, name)
		}
		human, b := says("accept"), browserLog{}
		c := s.dial(&Options{System: traced(t, tracer), AskOptions: AskOptions{Human: human, OpenURL: b.open}})
		type outcome struct {
			name string
			err  error
		}
		outcomes := make(chan outcome, 8)
		call := func(name string) {
			go func() {
				_, err := c.CallTool(t.Context(), name, nil, nil)
				outcomes <- outcome{name, err}
			}()
			synctest.Wait()
		}
		call("a")
		call("a")
		call("b")
		call("b")
		if n := len(human.seen()); n != 2 {
			t.Errorf("asked %d times for two pages that four calls wait for, want 2", n)
		}
		mu.Lock()
		first := refs[0]
		mu.Unlock()
		first.Stop()
		synctest.Wait()
		for range 2 {
			if o := <-outcomes; o.name != "a" || !errors.Is(o.err, elicit.ErrFailed) {
				t.Errorf("outcome: got %+v", o)
			}
		}
		if len(outcomes) != 0 {
			t.Fatal("a call that waits for the other page has ended")
		}
		s.complete("b")
		synctest.Wait()
		for range 2 {
			if o := <-outcomes; o.name != "b" || o.err != nil {
				t.Errorf("outcome: got %+v", o)
			}
		}
		if len(outcomes) != 0 {
			t.Error("a call has two outcomes")
		}
	})
}

// CANC-13: a call that is cancelled while it waits for a page ends at once; the page
// stays, as another call may need it.
func TestCancelWhilePageIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		signIn(s, 1, "a")
		var b browserLog
		var waits []bool
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: b.open}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := c.CallTool(ctx, "t", nil, &CallOptions{OnWait: func(w bool) { waits = append(waits, w) }}); !errors.Is(err, context.Canceled) {
			t.Errorf("CallTool: got %v", err)
		}
		synctest.Wait()
		if fmt.Sprint(waits) != "[true false]" || len(c.Elicitations()) != 1 || len(s.requests(mcp.NotificationCancelled)) != 0 {
			t.Errorf("waits %v, %d pages, %d cancels on the wire", waits, len(c.Elicitations()), len(s.requests(mcp.NotificationCancelled)))
		}
	})
}

// MRTR-20, URL-17: a modern server that says "come back" after a page was opened is
// asked again by itself a few times, then when a person says so. Its notice of
// completion does not exist (URL-43).
func TestModernPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2026_07_28)
		wait := inputs("", `"s"`)
		s.on[mcp.MethodCallTool] = rounds(inputs(ask("k", mcp.MethodElicit, `{"mode":"url","message":"go","url":"https://x.example/p"}`), `"s"`), wait, wait, wait, wait, wait, done)
		var b browserLog
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: b.open}})
		time.AfterFunc(20*time.Minute, func() {
			s.complete("\x00" + "1")
			s.complete("1")
			synctest.Wait()
			if n := len(s.requests(mcp.MethodCallTool)); n != 2+asks.MaxStateOnly {
				t.Errorf("%d attempts by themselves, want %d", n, 2+asks.MaxStateOnly)
			}
			for _, e := range c.Elicitations() {
				e.Retry()
			}
		})
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(c.Elicitations()); n != 0 || len(b.opened()) != 1 {
			t.Errorf("%d pages pending, opened %v", n, b.opened())
		}
	})
}

// A call that waits for a page keeps nobody else's turn, and waits for its own before
// it is tried again; if it is cancelled meanwhile it leaves none behind.
func TestTurnWhilePageIsOpen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		var open atomic.Bool
		s.on[mcp.MethodCallTool] = func(_ *asker, m *mcp.Message) string {
			switch name, _ := m.NameString(); {
			case name == "alice" && !open.Load():
				return urlError(m, "a")
			case name == "bob":
				time.Sleep(10 * time.Second)
			}
			return resultOf(m, `{"content":[]}`)
		}
		var b browserLog
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: b.open, Serial: true}})
		ended := make(chan string, 3)
		do := func(ctx context.Context, name string) {
			go func() {
				_, err := c.CallTool(ctx, name, nil, nil)
				ended <- fmt.Sprint(name, " ", err)
			}()
			synctest.Wait()
		}
		do(t.Context(), "alice")
		if len(c.Elicitations()) != 1 {
			t.Fatal("the page is not open")
		}
		do(t.Context(), "bob") // goes though Alice's call is not over
		open.Store(true)
		s.complete("a")
		synctest.Wait()
		if n := len(s.requests(mcp.MethodCallTool)); n != 2 {
			t.Errorf("%d requests while it is Bob's turn, want 2", n)
		}
		both := []string{<-ended, <-ended} // Alice's turn takes no time after Bob's
		if slices.Sort(both); !slices.Equal(both, []string{"alice <nil>", "bob <nil>"}) {
			t.Errorf("ended: %q", both)
		}
		// Cancelled while it waits for its turn.
		open.Store(false)
		ctx, cancel := context.WithCancel(t.Context())
		s.change(func() {
			inner := s.on[mcp.MethodCallTool]
			s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
				if name, _ := m.NameString(); name == "alice" {
					return urlError(m, "b")
				}
				return inner(s, m)
			}
		})
		do(ctx, "alice")
		do(t.Context(), "bob")
		s.complete("b")
		synctest.Wait()
		cancel()
		if first := <-ended; first != "alice server files: tools/call: context canceled" {
			t.Errorf("cancelled: got %s", first)
		}
		if second := <-ended; second != "bob <nil>" {
			t.Errorf("then: got %s", second)
		}
		do(t.Context(), "carol")
		if third := <-ended; third != "carol <nil>" {
			t.Errorf("last: got %s", third)
		}
	})
}

// SECA-34: a call that asks no person, and waits for the page of another call, is tried again as
// the call of its own Sampler: no call of another one is out with it, and the server's request for
// an answer of a model goes to that Sampler.
func TestSamplerAfterPage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		var open atomic.Bool
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			name, _ := m.NameString()
			switch {
			case name != "bob" && !open.Load():
				return urlError(m, "a")
			case name == "alice":
				time.Sleep(time.Second) // bob's call is made meanwhile
				answer := s.ask("of alice", mcp.MethodCreateMessage, sampleHello)
				return resultOf(m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, answer))
			}
			time.Sleep(10 * time.Second)
			return resultOf(m, `{"content":[]}`)
		}
		var b browserLog
		c := s.dial(&Options{AskOptions: AskOptions{Human: says("accept"), OpenURL: b.open, Sampler: model("the owner's"), SampleFreely: true}})
		var wg sync.WaitGroup
		texts := make(map[string]string)
		var mu sync.Mutex
		do := func(name string, o *CallOptions) {
			wg.Go(func() {
				res, err := c.CallTool(t.Context(), name, nil, o)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				texts[name] = res.Content.Text()
			})
			synctest.Wait()
		}
		do("carol", nil) // her Human opens the page
		do("alice", &CallOptions{NoAsk: true, Sampler: model("alice's")})
		if n := len(b.urls); n != 1 {
			t.Fatalf("%d pages are open, want 1", n)
		}
		open.Store(true)
		s.complete("a")
		time.Sleep(10 * time.Second) // carol's call ends, so that it is alice's turn
		synctest.Wait()
		do("bob", &CallOptions{NoAsk: true})
		wg.Wait()
		if !strings.Contains(texts["alice"], "alice's") {
			t.Errorf("the server's request got %s, want an answer of alice's Sampler", texts["alice"])
		}
	})
}
