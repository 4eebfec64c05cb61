package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// asks about each call of a tool, as a server that says nothing of which call it is
// for. It answers when the question is answered.
func askingTool(s *asker) {
	s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
		name, _ := m.NameString()
		answer := s.ask("for "+name, mcp.MethodElicit, elicitForm("for "+name))
		return resultOf(m, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, answer))
	}
}

// naming is a Human that fills in a form with a name.
func naming(name string) *decider { return says("accept", "name", `"`+name+`"`) }

func messages(d *decider) string {
	var out []string
	for _, a := range d.seen() {
		calls := make([]string, len(a.Calls))
		for i, c := range a.Calls {
			calls[i] = c.Name
		}
		out = append(out, a.Message+" of "+strings.Join(calls, "+"))
	}
	return strings.Join(out, ", ")
}

// bothOut makes two calls at the same time, each with its options, and returns their
// answers. If together is set they do not take turns, as over HTTP.
func bothOut(t *testing.T, c *Client, together bool, alice, bob *CallOptions) (texts [2]string) {
	var wg sync.WaitGroup
	for i, o := range []*CallOptions{alice, bob} {
		name := []string{"alice", "bob"}[i]
		wg.Go(func() {
			do := func() (*mcp.CallToolResult, error) { return c.CallTool(t.Context(), name, nil, o) }
			if together {
				do = func() (*mcp.CallToolResult, error) { return callAtOnce(t.Context(), c, name, o) }
			}
			res, err := do()
			if err != nil {
				t.Error(err)
				return
			}
			texts[i] = res.Content.Text()
		})
	}
	wg.Wait()
	return texts
}

// callAtOnce is CallTool without waiting for a turn.
func callAtOnce(ctx context.Context, c *Client, name string, o *CallOptions) (*mcp.CallToolResult, error) {
	req := &call.Request{
		Method: mcp.MethodCallTool, Name: name, Params: []byte(`{"name":"` + name + `"}`), Tag: c.requests.newTag(mcp.MethodCallTool, name, o),
	}
	res, err := c.conn.Do(ctx, req)
	if err != nil {
		return nil, err
	}
	return mcp.DecodeCallToolResult(res.Raw)
}

// Two runs on one server that asks without saying because of which call. On stdio the
// calls of different people take turns, and each question goes to its own; those of
// one person go together. Where calls are out together it is never shown to one of
// two people: only to the owner of the connection, as "one of these". SECA-6, SECA-34.
func TestTwoRunsOnOneServer(t *testing.T) {
	const accepted = `{"action":"accept","content":{"age":7,"name":"%s"}}`
	declined := `{"action":"decline"}`
	of := func(name string) string { return fmt.Sprintf(accepted, name) }
	tests := []struct {
		name     string
		together bool // the calls are out together
		serial   bool
		onePer   bool // both calls have the same Human
		owner    *decider
		want     [2]string
		sees     string // what Alice sees
		owners   int    // questions that the owner sees
	}{
		{"in turns", false, false, false, says("decline"), [2]string{of("Alice"), of("Bob")}, "for alice of alice", 0},
		{"serial", false, true, false, says("decline"), [2]string{of("Alice"), of("Bob")}, "for alice of alice", 0},
		{"ambiguous", true, false, false, says("decline"), [2]string{declined, declined}, "", 2},
		{"ambiguous, the owner knows", true, false, false, naming("owner"), [2]string{of("owner"), of("owner")}, "", 2},
		{"the same person", true, false, true, says("decline"), [2]string{of("Alice"), of("Alice")}, "", 0},
	}
	for _, v := range []mcp.Version{mcp.V2025_06_18, mcp.V2025_11_25} {
		for _, tt := range tests {
			t.Run(string(v)+" "+tt.name, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := newAsker(t, v)
					askingTool(s)
					ask := s.on[mcp.MethodCallTool]
					var here atomic.Int32
					s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
						here.Add(1)
						for tt.together && here.Load() < 2 {
							time.Sleep(time.Millisecond)
						}
						return ask(s, m)
					}
					alice, bob := naming("Alice"), naming("Bob")
					if tt.onePer {
						bob = alice
					}
					// A pause, so that both are asked while both calls are out.
					decide := tt.owner.decide
					owner := &decider{decide: func(ctx context.Context, a *Ask) (*Decision, error) {
						time.Sleep(time.Second)
						return decide(ctx, a)
					}}
					c := s.dial(&Options{AskOptions: AskOptions{Human: owner, Serial: tt.serial}})
					got := bothOut(t, c, tt.together, &CallOptions{Human: alice}, &CallOptions{Human: bob})
					for i := range got {
						wantJSON(t, "answer", got[i], tt.want[i])
					}
					if tt.onePer {
						if n := len(alice.seen()); n != 2 {
							t.Errorf("the one person was asked %d times, want 2", n)
						}
					} else if messages(alice) != tt.sees || messages(bob) != strings.ReplaceAll(tt.sees, "alice", "bob") {
						t.Errorf("Alice has seen %q, Bob %q", messages(alice), messages(bob))
					}
					if n := len(owner.seen()); n != tt.owners {
						t.Errorf("the owner was asked %d times, want %d", n, tt.owners)
					}
					for _, a := range owner.seen() {
						if len(a.Calls) != 2 {
							t.Errorf("the owner sees the calls %v, want both", a.Calls)
						}
					}
				})
			})
		}
	}
}

// HumanFunc cannot be compared: it is never taken for another, and does no harm.
func TestSame(t *testing.T) {
	a, b := says("accept"), says("accept")
	f := HumanFunc(func(context.Context, *Ask) (*Decision, error) { return nil, nil })
	for _, tt := range []struct {
		a, b Human
		want bool
	}{{a, a, true}, {a, b, false}, {f, f, false}, {a, f, false}, {nil, nil, true}, {nil, a, false}} {
		if got := asks.Same(tt.a, tt.b); got != tt.want {
			t.Errorf("same(%v, %v): got %v", tt.a, tt.b, got)
		}
	}
}

// A call that may not ask is not asked for; a question that comes without any call is
// the owner's.
func TestNoAskAndNoCall(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, v)
				askingTool(s)
				if v.Era() == mcp.EraModern {
					s.on[mcp.MethodCallTool] = rounds(inputs(ask("k", mcp.MethodElicit, elicitForm("?"))), done)
				}
				owner := naming("owner")
				c := s.dial(&Options{AskOptions: AskOptions{Human: owner}})
				if _, err := c.CallTool(t.Context(), "x", nil, &CallOptions{NoAsk: true}); err != nil {
					t.Fatal(err)
				}
				if n := len(owner.seen()); n != 0 {
					t.Errorf("NoAsk: asked %d times", n)
				}
				if v.Era() == mcp.EraModern {
					wantJSON(t, "answer", string(members(t, &s.requests(mcp.MethodCallTool)[1])["inputResponses"]), `{"k":{"action":"decline"}}`)
					return
				}
				s.ask("q", mcp.MethodElicit, elicitForm("unprompted"))
				if asks := owner.seen(); len(asks) != 1 || len(asks[0].Calls) != 0 {
					t.Errorf("unprompted: got %+v", asks)
				}
			})
		})
	}
}

// A call that was given up may still be worked on, and ask, when another is out: the
// question is not shown to the other's person.
func TestQuestionOfACallGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		asking := make(chan string)
		s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
			if name, _ := m.NameString(); name == "alice" {
				time.Sleep(2 * time.Second) // deaf to the cancel
				asking <- s.ask("q", mcp.MethodElicit, elicitForm("Alice's secret"))
				return ""
			}
			time.Sleep(10 * time.Second)
			return resultOf(m, `{"content":[]}`)
		}
		owner, alice, bob := says("decline"), naming("Alice"), naming("Bob")
		c := s.dial(&Options{AskOptions: AskOptions{Human: owner}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.CallTool(ctx, "alice", nil, &CallOptions{Human: alice}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		go c.CallTool(t.Context(), "bob", nil, &CallOptions{Human: bob})
		wantJSON(t, "answer", <-asking, `{"action":"decline"}`)
		if messages(alice)+messages(bob) != "" || messages(owner) != "Alice's secret of bob+alice" {
			t.Errorf("seen: alice %q, bob %q, owner %q", messages(alice), messages(bob), messages(owner))
		}
		time.Sleep(asks.AbandonedLife)
		s.change(func() { askingTool(s) })
		if _, err := c.CallTool(t.Context(), "later", nil, &CallOptions{Human: bob}); err != nil || messages(bob) != "for later of later" {
			t.Errorf("later: got %v, bob has seen %q", err, messages(bob))
		}
	})
}

// recording is a Human that keeps a record of what was declined unasked.
type recording struct {
	*decider
	mu       sync.Mutex
	declined []string
}

func (r *recording) Declined(kind AskKind, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.declined = append(r.declined, kind.String()+": "+why.Error())
}

// After a cancelled call a question goes to the human of the one call under way, with the
// doubt shown, if one person answers for both. Else it is declined, and the log and the
// records of both say why (SECA-6, SECA-34).
func TestQuestionAfterACancelledCall(t *testing.T) {
	for _, onePerson := range []bool{true, false} {
		t.Run(fmt.Sprintf("one person: %v", onePerson), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var log bytes.Buffer
				s := newAsker(t, mcp.V2025_11_25)
				askingTool(s)
				serve := s.on[mcp.MethodCallTool]
				s.on[mcp.MethodCallTool] = func(s *asker, m *mcp.Message) string {
					if name, _ := m.NameString(); name == "alice" {
						return "" // never answered
					}
					return serve(s, m)
				}
				alice, bob := &recording{decider: naming("Alice")}, &recording{decider: naming("Bob")}
				c := s.dial(&Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), AskOptions: AskOptions{Human: DeclineAll, OnePerson: onePerson}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := c.CallTool(ctx, "alice", nil, &CallOptions{Human: alice}); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				res, err := c.CallTool(t.Context(), "bob", nil, &CallOptions{Human: bob, Path: []string{"main"}})
				if err != nil {
					t.Fatal(err)
				}
				if n := len(alice.seen()); n != 0 {
					t.Errorf("the human of the cancelled call was asked %d times", n)
				}
				if !onePerson {
					wantJSON(t, "answer", res.Content.Text(), `{"action":"decline"}`)
					want := "form: no person is there to be asked: " + asks.ErrAbandonedOwner.Error()
					if len(bob.seen()) != 0 || !slices.Equal(bob.declined, []string{want}) || !slices.Equal(alice.declined, []string{want}) {
						t.Errorf("Bob was asked %d times; told %q and %q, want %q", len(bob.seen()), alice.declined, bob.declined, want)
					}
					if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, asks.ErrAbandonedOwner.Error()) || strings.Contains(text, "for bob") {
						t.Errorf("the log says %q, want a warning with the reason and without the question", text)
					}
					return
				}
				wantJSON(t, "answer", res.Content.Text(), `{"action":"accept","content":{"age":7,"name":"Bob"}}`)
				a := bob.seen()[0]
				if want := "The server may ask this for a call that was cancelled 20s ago: alice"; !slices.Equal(a.Notes, []string{want}) || !slices.Equal(a.Path, []string{"main"}) {
					t.Errorf("Bob was asked with the notes %q and the path %v, want %q", a.Notes, a.Path, want)
				}
				if hash, err := a.ContentHash(); err != nil || hash != a.Hash { // SECA-41
					t.Errorf("the hash is %s, want %s (%v)", a.Hash, hash, err)
				}
				time.Sleep(asks.AbandonedLife)
				if _, err := c.CallTool(t.Context(), "carol", nil, &CallOptions{Human: bob}); err != nil || len(bob.seen()[1].Notes) != 0 {
					t.Errorf("later: got %v and the notes %q", err, bob.seen()[1].Notes)
				}
			})
		})
	}
}

// ROB-9: a server that asks in vain again and again fills neither the log nor the record.
func TestDeclinedAgainAndAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), AskOptions: AskOptions{Human: DeclineAll}})
		for range 500 {
			wantJSON(t, "answer", s.ask("q", mcp.MethodElicit, elicitForm("?")), `{"action":"decline"}`)
		}
		if n := strings.Count(log.String(), "level=WARN"); n == 0 || n > asks.DeclineWarnings+1 {
			t.Errorf("%d warnings, want 1 to %d", n, asks.DeclineWarnings+1)
		}
		human := &recording{decider: says("decline")}
		tag := c.requests.newTag(mcp.MethodCallTool, "x", &CallOptions{Human: human})
		for range 500 {
			c.questions.declinedUnasked(&asks.Origin{Calls: []*asks.Call{tag}}, &Ask{Kind: AskForm}, asks.ErrTooMany)
		}
		if n := len(human.declined); n != asks.MaxNotices {
			t.Errorf("%d notices, want %d", n, asks.MaxNotices)
		}
	})
}

// streams is a transport that knows on whose stream a message comes (SHL-13).
type streams struct {
	mu    sync.Mutex
	sink  mcp.CallSink
	heard map[string]mcp.ID // ids of the calls, by tool
	said  map[string]mcp.Message
}

func (s *streams) Connect(sink mcp.Sink) (mcp.Link, error) {
	s.sink = sink.(mcp.CallSink)
	s.heard, s.said = map[string]mcp.ID{}, map[string]mcp.Message{}
	return s, nil
}

func (s *streams) Close() error { return nil }

func (s *streams) Send(o mcp.Outgoing) error {
	m := new(mcp.Message)
	if err := mcp.Scan(append([]byte(nil), o.Frame...), m); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m.Method == mcp.MethodInitialize:
		go s.sink.Frame([]byte(handshakeOf(m.ID)))
	case m.Method == mcp.MethodCallTool:
		s.heard[o.Name] = m.ID
	case m.Kind == mcp.KindResult:
		s.said[m.ID.String()] = *m
	}
	return nil
}

// A question on the stream of a call is that call's, however many are out.
func TestRelatedQuestion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := new(streams)
		owner := says("decline")
		server := InProcess("x", s)
		server.Protocol = string(mcp.V2025_11_25)
		c, err := Dial(t.Context(), server, &Options{System: newSystem(t), AskOptions: AskOptions{Human: owner}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		alice, bob := naming("Alice"), naming("Bob")
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = callAtOnce(t.Context(), c, "alice", &CallOptions{Human: alice}) })
		wg.Go(func() { _, _ = callAtOnce(t.Context(), c, "bob", &CallOptions{Human: bob}) })
		synctest.Wait()
		question := func(id string) []byte {
			return []byte(`{"jsonrpc":"2.0","id":"` + id + `","method":"elicitation/create","params":` + elicitForm(id) + `}`)
		}
		s.sink.FrameOf(s.heard["bob"], question("b"))
		s.sink.FrameOf(s.heard["alice"], question("a"))
		s.sink.FrameOf(mcp.IntID(999), question("gone"))
		synctest.Wait()
		if messages(alice) != "a of alice" || messages(bob) != "b of bob" || messages(owner) != "gone of " {
			t.Errorf("seen: alice %q, bob %q, owner %q", messages(alice), messages(bob), messages(owner))
		}
		for _, name := range []string{"alice", "bob"} {
			s.sink.Frame(mcp.AppendResult(nil, s.heard[name], []byte(`{"content":[]}`)))
		}
		wg.Wait()
	})
}

// A sampling request that may belong to several calls counts for each of them.
func TestSamplingCountsForAll(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := &questions{opts: new(Options), asks: new(asks.Asks)}
		q.opts.AskOptions = AskOptions{}.withDefaults()
		q.asks.Limits = asks.NewLimits(asks.LimitOptions{Open: q.opts.AskLimit, Tokens: q.opts.SampleTokens}, new(asks.HostLimit))
		a, b := new(asks.Call), new(asks.Call)
		for range asks.MaxSamples - 1 {
			a.Sample()
		}
		if !q.maySample(&asks.Origin{Calls: []*asks.Call{a, b}}, 1) || a.Sample() {
			t.Error("the last turn of the first call was refused, or not counted")
		}
		left := 0
		for b.Sample() {
			left++
		}
		if left != asks.MaxSamples-1 {
			t.Errorf("the second call has %d turns left, want %d", left, asks.MaxSamples-1)
		}
		if q.maySample(&asks.Origin{Calls: []*asks.Call{a, new(asks.Call)}}, 1) {
			t.Error("one more, though the first call has had all of its turns")
		}
	})
}
