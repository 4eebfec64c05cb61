package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	actorcall "github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// club is a server that wants a login: it refuses its handshake, its list of tools, or the calls
// of these.
type club struct {
	handshake, list, calls bool

	mu      sync.Mutex
	member  bool
	waits   map[int]func(error)
	last    int
	dials   int
	refused int // calls
	called  int
}

// noMember is the refusal. It stands for that of package auth, with a login by another process.
type noMember struct{ *club }

func (noMember) Error() string { return "a person has to log in at the club" }

func (noMember) Elsewhere() (string, []string, bool) { return "https://club.example/mcp", nil, true }

func (e noMember) Wait(resume func(error)) func() { return e.Await(resume) }

func (e noMember) Await(resume func(error)) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.member {
		resume(nil)
		return func() {}
	}
	e.last++
	n := e.last
	if e.waits == nil {
		e.waits = make(map[int]func(error))
	}
	e.waits[n] = resume
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waits, n)
	}
}

// login is a login by another process.
func (c *club) login() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = true
	for n := range c.last + 1 {
		if resume := c.waits[n]; resume != nil {
			resume(nil)
		}
	}
	c.waits = nil
}

// waiting is how many wait for it.
func (c *club) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waits)
}

// Connect implements [mcpclient.Connector].
func (c *club) Connect(sink mcp.Sink) (mcp.Link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials++
	if c.handshake && !c.member {
		return nil, conn.Permanent(noMember{c})
	}
	return &clubLink{c, sink.(mcp.CallSink)}, nil
}

type clubLink struct {
	*club
	sink mcp.CallSink
}

func (l *clubLink) Close() error { return nil }

func (l *clubLink) Send(o mcp.Outgoing) error {
	var msg mcp.Message
	if err := mcp.Scan(append([]byte(nil), o.Frame...), &msg); err != nil || msg.Kind != mcp.KindRequest {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.member && (l.list && msg.Method == mcp.MethodListTools || l.calls && msg.Method == mcp.MethodCallTool) {
		if msg.Method == mcp.MethodCallTool {
			l.refused++
		}
		go l.sink.Failed(msg.ID, &actorcall.TransportError{Method: msg.Method, Status: 401, Err: &mcpclient.AuthRequiredError{Status: 401, Err: noMember{l.club}}})
		return nil
	}
	say := mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"club","version":"1"}}`))
	switch msg.Method {
	case mcp.MethodDiscover:
		say = mcp.AppendError(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "unknown"))
	case mcp.MethodListTools:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"drink","inputSchema":{"type":"object"}}]}`))
	case mcp.MethodCallTool:
		l.called++
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"content":[{"type":"text","text":"cheers"}]}`))
	}
	go l.sink.Frame(say)
	return nil
}

// openClub opens a runtime with an agent that may wait for so long.
func openClub(t *testing.T, server *club, s store.Store, expiry time.Duration, turns ...llmtest.Turn) (*llmtest.Model, *agent.Agent) {
	t.Helper()
	model := llmtest.Script(turns...)
	rt := open(t, &agent.Options{Model: model, Store: s,
		Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{
			LoginCommand: func(server string, scopes []string) (string, string) {
				return fmt.Sprint("troupe mcp login ", server), "here"
			},
		}}},
		Servers: []mcpclient.Server{mcpclient.InProcess("club", server)}})
	a, err := rt.Agent("guest", &agent.Config{Approve: agent.NeverAsk, AskExpiry: expiry, Limits: agent.Limits{Wall: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return model, a
}

// two are calls of the club's tool, at once.
func two() llmtest.Turn { return llmtest.Calls(call("club__drink", nil), call("club__drink", nil)) }

// asksOf are the questions of a run in a store.
func asksOf(t *testing.T, s store.Store) []store.Ask {
	t.Helper()
	all, err := s.Asks(t.Context(), store.AskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A run waits for a server that lets it in after a login only, as for a question, however long that
// is: at its handshake, at the list of its tools, and at its calls, which have one question together.
// A login by another process settles it, and the run goes on within a second (AUTH-15, section 14).
func TestRunWaitsForLogin(t *testing.T) {
	for name, server := range map[string]*club{"handshake": {handshake: true}, "list": {list: true}, "calls": {calls: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := memory()
				model, a := openClub(t, server, s, 24*time.Hour, two(), llmtest.Say("done"))
				run, err := a.Start(t.Context(), "go", &agent.RunOptions{ID: "r"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Hour)
				asks := asksOf(t, s)
				if len(asks) != 1 {
					t.Fatalf("%d questions: %+v", len(asks), asks)
				}
				row := asks[0]
				if row.Kind != agent.KindLogin || row.Server != "club" || row.Status != store.AskPending || row.Run != "r" ||
					!strings.Contains(string(row.Payload), `"command":"troupe mcp login club"`) || !strings.Contains(string(row.Payload), `"resource":"https://club.example/mcp"`) {
					t.Errorf("the question: %+v\n%s", row, row.Payload)
				}
				if dials, refused := server.dials, server.refused; dials != 1 || refused != map[bool]int{true: 2}[name == "calls"] {
					t.Errorf("%d connections, %d refused calls", dials, refused)
				}
				server.login()
				there := time.Now()
				res, err := run.Wait(t.Context())
				if err != nil || res.Text != "done" || time.Since(there) > time.Second {
					t.Fatalf("Wait: got %+v, %v after %v", res, err, time.Since(there))
				}
				if got := resultsOf(model.Requests()[1]); !slices.Equal(got, []string{"cheers", "cheers"}) {
					t.Errorf("results: %q", got)
				}
				if asks := asksOf(t, s); len(asks) != 1 || asks[0].Status != store.AskAccepted || asks[0].By != "login" {
					t.Errorf("afterwards: %+v", asks)
				}
				if n := server.waiting(); n != 0 {
					t.Errorf("%d still wait", n)
				}
				var kinds []string
				for ev, err := range run.Events(t.Context()) {
					if ask, ok := ev.(agent.Ask); ok && err == nil {
						kinds = append(kinds, ask.Kind+" "+ask.Question.Login.Command)
					}
				}
				if !slices.Equal(kinds, []string{"login troupe mcp login club"}) {
					t.Errorf("events: %q", kinds)
				}
			})
		})
	}
}

// Without the login the run goes on: without the tools of the server, or with the refusal as the
// result of the call, which surely had no effect. It is asked neither again before each turn, nor
// left behind by a run that ends.
func TestRunWithoutLogin(t *testing.T) {
	answers := map[string]func(t *testing.T, run *agent.Run, ask agent.Ask){
		"declined": func(t *testing.T, _ *agent.Run, ask agent.Ask) {
			if err := ask.Answer(t.Context(), agent.Decline("not now")); err != nil {
				t.Error(err)
			}
		},
		"expired":   func(*testing.T, *agent.Run, agent.Ask) {},
		"cancelled": func(_ *testing.T, run *agent.Run, _ agent.Ask) { run.Cancel(errTest) },
	}
	for _, where := range []string{"handshake", "list", "calls"} {
		for how, answer := range answers {
			t.Run(where+" "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					server, s := &club{handshake: where == "handshake", list: where == "list", calls: where == "calls"}, memory()
					turns := []llmtest.Turn{llmtest.Say("done")}
					if where == "calls" {
						turns = []llmtest.Turn{two(), llmtest.Say("done")}
					}
					model, a := openClub(t, server, s, time.Hour, turns...)
					run, err := a.Start(t.Context(), "go", nil)
					if err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					for ev := range run.Events(t.Context()) {
						if ask, ok := ev.(agent.Ask); ok {
							answer(t, run, ask)
						}
					}
					_, err = run.Wait(t.Context())
					if how == "cancelled" {
						if !errors.Is(err, errTest) {
							t.Errorf("Wait: got %v", err)
						}
					} else if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); how == "expired" && took != time.Hour || how != "expired" && took > time.Second {
						t.Errorf("it has taken %v", took)
					}
					asks := asksOf(t, s)
					if len(asks) != 1 || string(asks[0].Status) != how {
						t.Errorf("the questions: %+v", asks)
					}
					synctest.Wait()
					if n := server.waiting(); n != map[bool]int{true: 1}[where == "handshake"] { // the connection
						t.Errorf("%d still wait", n)
					}
					if requests := model.Requests(); where == "calls" && how != "cancelled" {
						for _, got := range resultsOf(requests[1]) {
							if !strings.Contains(got, "a person has to log in at the club") || strings.Contains(got, "unknown") {
								t.Errorf("a result: %s", got)
							}
						}
					}
				})
			})
		}
	}
}
