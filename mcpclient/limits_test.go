package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// SECA-33, ROB-9, ELIC-12: of a flood of questions a few are open, a few more wait
// for their turn, and all others are declined at once. Each has one answer.
func TestFlood(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 500
		var open, most atomic.Int32
		gate := make(chan struct{})
		human := HumanFunc(func(ctx context.Context, _ *Ask) (*Decision, error) {
			if now := open.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer open.Add(-1)
			select {
			case <-gate:
				return &Decision{Action: mcp.ActionCancel}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
		s := newAsker(t, mcp.V2025_11_25)
		c := s.dial(&Options{AskOptions: AskOptions{Human: human, AskLimit: 5}})
		answers := make([]<-chan mcp.Message, n)
		for i := range n {
			answers[i] = s.send(fmt.Sprint(i), mcp.MethodElicit, elicitForm("?"))
		}
		synctest.Wait()
		if open.Load() != 5 || c.questions.asks.Limits.Count() != 25 {
			t.Errorf("%d open and %d waiting, want 5 and 20", open.Load(), c.questions.asks.Limits.Count()-int(open.Load()))
		}
		close(gate)
		counts := map[string]int{}
		for _, ch := range answers {
			m := <-ch
			counts[answerOf(&m)]++
		}
		synctest.Wait()
		if counts[`{"action":"cancel"}`] != 25 || counts[`{"action":"decline"}`] != n-25 || most.Load() != 5 {
			t.Errorf("answers: got %v, %d open at most", counts, most.Load())
		}
		for i, ch := range answers {
			if len(ch) != 0 {
				t.Errorf("question %d was answered twice", i)
			}
		}
		if c.questions.asks.Limits.Count() != 0 || c.pool.Count() != 0 || underWay(c) != 0 {
			t.Errorf("left: %d open, %d in the pool, %d under way", c.questions.asks.Limits.Count(), c.pool.Count(), underWay(c))
		}
	})
}

// ROB-9 for the other methods: what is beyond the requests under way has the code of
// its kind.
func TestFloodOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{
			Human: silent(), Sampler: model("x"), Roots: []mcp.Root{{URI: "file:///slow"}},
			RootAvailable: func(string) bool { time.Sleep(time.Hour); return true },
		}})
		for i := range asked.Limit {
			s.send(fmt.Sprint(i), mcp.MethodListRoots, "")
		}
		synctest.Wait()
		for method, want := range map[string]string{
			mcp.MethodListRoots: "-32603 ", mcp.MethodCreateMessage: "-1 ", mcp.MethodElicit: `{"action":"decline"}`, mcp.MethodPing: "{}",
		} {
			params := map[string]string{mcp.MethodCreateMessage: sampleHello, mcp.MethodElicit: elicitForm("?")}[method]
			if got := s.ask("x"+method, method, params); !strings.HasPrefix(got, want) {
				t.Errorf("%s: got %s, want %s", method, got, want)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

// The queue and its end: a question that waits for its turn expires as one that is
// open does, and is declined by itself. A Human that does not heed its context keeps
// nobody waiting but those who come after.
func TestExpiry(t *testing.T) {
	for name, human := range map[string]*decider{
		"silent": silent(),
		"deaf": {decide: func(context.Context, *Ask) (*Decision, error) {
			time.Sleep(20 * time.Minute)
			return &Decision{Action: mcp.ActionAccept}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2025_11_25)
				c := s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: model("x"), AskLimit: 1}})
				began := time.Now()
				form, other := s.send("a", mcp.MethodElicit, elicitForm("?")), s.send("b", mcp.MethodElicit, elicitForm("?"))
				sampling := s.send("c", mcp.MethodCreateMessage, sampleHello)
				for _, ch := range []<-chan mcp.Message{form, other} {
					m := <-ch
					wantJSON(t, "answer", answerOf(&m), `{"action":"decline"}`)
				}
				m := <-sampling
				if got := answerOf(&m); !strings.HasPrefix(got, "-1 ") {
					t.Errorf("sampling: got %s", got)
				}
				if took := time.Since(began); took != 10*time.Minute {
					t.Errorf("expired after %v, want 10 min", took)
				}
				synctest.Wait()
				if name == "deaf" && c.questions.asks.Limits.Count() != 1 {
					t.Errorf("a deaf Human keeps %d places, want 1", c.questions.asks.Limits.Count())
				}
				time.Sleep(time.Hour)
				if c.questions.asks.Limits.Count() != 0 {
					t.Errorf("%d places are kept", c.questions.asks.Limits.Count())
				}
			})
		})
	}
}

// SECA-33: decline-all closes what is open and lets nothing in, until it is off.
func TestDeclineAsks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newAsker(t, mcp.V2025_11_25)
		human := silent()
		c := s.dial(&Options{AskOptions: AskOptions{Human: human, Sampler: model("x"), AskLimit: 1}})
		open, waiting := s.send("a", mcp.MethodElicit, elicitForm("?")), s.send("b", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		c.DeclineAsks(true)
		for _, ch := range []<-chan mcp.Message{open, waiting} {
			m := <-ch
			wantJSON(t, "answer", answerOf(&m), `{"action":"decline"}`)
		}
		wantJSON(t, "answer", s.ask("c", mcp.MethodElicit, urlElicit("1", "https://x.example")), `{"action":"decline"}`)
		if got := s.ask("d", mcp.MethodCreateMessage, sampleHello); !strings.HasPrefix(got, "-1 ") {
			t.Errorf("sampling: got %s", got)
		}
		if n := len(human.seen()); n != 1 {
			t.Errorf("asked %d times, want 1", n)
		}
		c.DeclineAsks(false)
		s.send("e", mcp.MethodElicit, elicitForm("?"))
		synctest.Wait()
		if n := len(human.seen()); n != 2 {
			t.Errorf("off again: asked %d times, want 2", n)
		}
	})
}

// SECA-33: one URL at a time and five a minute.
func TestURLLimits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var open, most atomic.Int32
		human := &decider{decide: func(context.Context, *Ask) (*Decision, error) {
			if now := open.Add(1); now > most.Load() {
				most.Store(now)
			}
			defer open.Add(-1)
			time.Sleep(time.Second)
			return &Decision{Action: mcp.ActionCancel}, nil
		}}
		s := newAsker(t, mcp.V2025_11_25)
		s.dial(&Options{AskOptions: AskOptions{Human: human}})
		var answers []<-chan mcp.Message
		for i := range 8 {
			answers = append(answers, s.send(fmt.Sprint(i), mcp.MethodElicit, urlElicit(fmt.Sprint(i), "https://x.example")))
		}
		for _, ch := range answers {
			<-ch
		}
		if most.Load() != 1 || len(human.seen()) != asks.URLsBurst {
			t.Errorf("%d at a time and %d at all, want 1 and %d", most.Load(), len(human.seen()), asks.URLsBurst)
		}
		time.Sleep(time.Minute)
		for i := range 8 {
			s.ask(fmt.Sprint("r", i), mcp.MethodElicit, urlElicit(fmt.Sprint(i), "https://x.example"))
		}
		if n := len(human.seen()); n < 2*asks.URLsBurst || n > 2*asks.URLsBurst+1 {
			t.Errorf("%d a minute later, want %d", n, 2*asks.URLsBurst)
		}
	})
}

// A Human that fails, or answers nonsense, has dismissed the question.
func TestBadHumans(t *testing.T) {
	for name, decide := range map[string]HumanFunc{
		"error":          func(context.Context, *Ask) (*Decision, error) { return nil, errors.New("no terminal") },
		"nothing":        func(context.Context, *Ask) (*Decision, error) { return nil, nil },
		"empty":          func(context.Context, *Ask) (*Decision, error) { return &Decision{}, nil },
		"panic":          func(context.Context, *Ask) (*Decision, error) { panic("boo") },
		"unknown action": func(context.Context, *Ask) (*Decision, error) { return &Decision{Action: "yes"}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := newAsker(t, mcp.V2025_11_25)
				s.dial(&Options{AskOptions: AskOptions{Human: decide}})
				wantJSON(t, "form", s.ask("q", mcp.MethodElicit, elicitForm("?")), `{"action":"cancel"}`)
				wantJSON(t, "url", s.ask("r", mcp.MethodElicit, urlElicit("1", "https://x.example")), `{"action":"cancel"}`)
			})
		})
	}
}

// flooder is a server in this process that asks n times as soon as it is connected.
type flooder struct {
	n        int
	answered *atomic.Int32
	sink     mcp.Sink
}

func (f *flooder) Connect(sink mcp.Sink) (mcp.Link, error) {
	return &flooder{n: f.n, answered: f.answered, sink: sink}, nil
}
func (f *flooder) Close() error { return nil }

func (f *flooder) Send(o mcp.Outgoing) error {
	switch {
	case o.Method == mcp.MethodInitialize:
		id := o.ID
		go f.sink.Frame([]byte(handshakeOf(id)))
	case o.Method == mcp.NotificationInitialized:
		go func() {
			for i := range f.n {
				f.sink.Frame([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":%s}`, i, elicitForm("?"))))
			}
		}()
	case o.Kind == mcp.KindResult || o.Kind == mcp.KindError:
		f.answered.Add(1)
	}
	return nil
}

// SECA-33, SECA-9, ROB-3: a thousand servers that ask fifty times each are held
// to one bound for all of them; nobody's process fills up, and all get an answer.
func TestThousandServersAsk(t *testing.T) {
	n := 1000
	if raceEnabled {
		n = 100
	}
	const each = 50
	inBubble(t, func(t *testing.T) {
		var open, answered atomic.Int32
		human := HumanFunc(func(ctx context.Context, _ *Ask) (*Decision, error) {
			open.Add(1)
			defer open.Add(-1)
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		servers := make([]Server, n)
		for i := range servers {
			servers[i] = InProcess(fmt.Sprint("s", i), &flooder{n: each, answered: &answered})
			servers[i].Protocol = string(mcp.V2025_11_25)
		}
		h, err := NewHost(newSystem(t), servers, &HostOptions{Options: Options{AskOptions: AskOptions{Human: human}}})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		synctest.Wait()
		if in := int32(h.pool.Count()); in > asks.MaxAsks || open.Load() > in || n > 500 && in != asks.MaxAsks {
			t.Errorf("%d questions are open or wait, %d open; want at most %d", in, open.Load(), asks.MaxAsks)
		}
		if left := int(int32(h.pool.Count())); int(answered.Load()) != n*each-left {
			t.Errorf("%d of %d were answered at once, want all but %d", answered.Load(), n*each, left)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if int(answered.Load()) != n*each || int32(h.pool.Count()) != 0 || open.Load() != 0 {
			t.Errorf("%d of %d answered, %d left", answered.Load(), n*each, int32(h.pool.Count()))
		}
	})
}
