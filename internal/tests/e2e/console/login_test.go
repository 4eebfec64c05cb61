package console

import (
	"sync"
	"testing"

	actorcall "github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store/memstore"
)

// club is a server whose tool can be called by members only.
type club struct {
	mu     sync.Mutex // guards what follows, of calls and of the test
	member bool
	waits  []func(error)
}

// noMember is the refusal of a call. Of a login by another process it hears by itself.
type noMember struct{ *club }

func (noMember) Error() string { return "a person has to log in at the club" }

func (noMember) Elsewhere() (string, []string, bool) { return "https://club.example/mcp", nil, true }

func (e noMember) Wait(resume func(error)) func() { return e.Await(resume) }

func (e noMember) Await(resume func(error)) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.member {
		resume(nil)
	} else {
		e.waits = append(e.waits, resume)
	}
	return func() {}
}

func (c *club) login() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = true
	for _, resume := range c.waits {
		resume(nil)
	}
	c.waits = nil
}

// Connect implements [mcpclient.Connector].
func (c *club) Connect(sink mcp.Sink) (mcp.Link, error) {
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
	say := mcp.AppendResult(nil, msg.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"club","version":"1"}}`))
	switch msg.Method {
	case mcp.MethodDiscover:
		say = mcp.AppendError(nil, msg.ID, mcp.Errorf(mcp.CodeMethodNotFound, "unknown"))
	case mcp.MethodListTools:
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"tools":[{"name":"drink","inputSchema":{"type":"object"}}]}`))
	case mcp.MethodCallTool:
		if !l.member {
			go l.sink.Failed(msg.ID, &actorcall.TransportError{Method: msg.Method, Status: 401, Err: &mcpclient.AuthRequiredError{Status: 401, Err: noMember{l.club}}})
			return nil
		}
		say = mcp.AppendResult(nil, msg.ID, []byte(`{"content":[{"type":"text","text":"cheers"}]}`))
	}
	go l.sink.Frame(say)
	return nil
}

// TestLoginInABrowser: the inbox shows which login a run waits for and with which command, a yes before
// the login has the call tried again, and the run goes on by itself once a person has logged in.
func TestLoginInABrowser(t *testing.T) {
	chromium.Require(t)
	server, s := new(club), memstore.New(nil)
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(llmtest.Call("club__drink", `{}`), llmtest.Say("done")),
		Approve: agent.NeverAsk, Servers: []mcpclient.Server{mcpclient.InProcess("club", server)},
		Host: &mcpclient.HostOptions{Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{
			LoginCommand: func(server string, _ []string) (command, where string) {
				return "troupe mcp login " + server, "on this machine"
			}}}}})
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, s, rt, console.Options{Name: "ada"})
	ada := w.person()
	a, err := rt.Agent("main", &agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := a.Start(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.yes() // not yet: the call is refused again
	ada.want("troupe mcp login club")
	ada.shoot("kind-login")
	server.login()
	w.done(run)
	w.journal(run.ID(), "cheers")
}
