package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// asker is a server that asks. It serves one process at a time.
type asker struct {
	t       *testing.T
	version mcp.Version
	// on answers a request, by method; it runs on its own goroutine, and may ask. ""
	// is no answer.
	on map[string]func(s *asker, m *mcp.Message) string

	mu       sync.Mutex
	proc     *fakeProcess
	heard    []mcp.Message // all that the client has said
	answers  map[string]chan mcp.Message
	declared mcp.ClientCapabilities
}

func newAsker(t *testing.T, v mcp.Version) *asker {
	return &asker{t: t, version: v, on: map[string]func(*asker, *mcp.Message) string{}, answers: map[string]chan mcp.Message{}}
}

// dial connects a client to the server. It is closed at the end of the test.
func (s *asker) dial(opts *Options) *Client {
	s.t.Helper()
	if opts.System == nil {
		opts.System = newSystem(s.t)
	}
	opts.start = func(*Server) (pipe.Process, error) { return start(s.serve), nil }
	server := Command("asker")
	server.Name, server.Protocol, server.Instances = "files", string(s.version), 1
	c, err := Dial(s.t.Context(), server, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := c.Close(); err != nil && !strings.Contains(err.Error(), "deadline") {
			s.t.Errorf("Close: %v", err)
		}
	})
	return c
}

func (s *asker) serve(p *fakeProcess) string {
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	for {
		line, ok := p.read()
		if !ok {
			return "exit status 0"
		}
		m := new(mcp.Message)
		if err := mcp.Scan([]byte(line), m); err != nil {
			return err.Error()
		}
		s.mu.Lock()
		s.heard = append(s.heard, *m)
		waits := s.answers[m.ID.String()]
		s.mu.Unlock()
		switch m.Kind {
		case mcp.KindResult, mcp.KindError:
			if waits != nil {
				waits <- *m
			}
		case mcp.KindRequest:
			go s.request(p, m)
		}
	}
}

func (s *asker) request(p *fakeProcess, m *mcp.Message) {
	say := ""
	s.mu.Lock()
	on := s.on[m.Method]
	s.mu.Unlock()
	switch {
	case on != nil:
		say = on(s, m)
	case m.Method == mcp.MethodInitialize:
		var params mcp.InitializeParams
		if err := m.DecodeParams(&params); err != nil {
			s.t.Error(err)
		}
		s.mu.Lock()
		s.declared = params.Capabilities
		s.mu.Unlock()
		say = resultOf(m, `{"protocolVersion":"`+string(s.version)+`","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"liar","version":"1"}}`)
	case m.Method == mcp.MethodDiscover:
		say = resultOf(m, `{"resultType":"complete","supportedVersions":["`+string(s.version)+`"],"capabilities":{"tools":{},"resources":{},"prompts":{}}}`)
	case m.Method == mcp.MethodCallTool:
		say = resultOf(m, `{"content":[]}`)
	default:
		say = unknownMethod(m.ID.String())
	}
	if say != "" {
		p.say(say)
	}
}

// change changes the server while it runs.
func (s *asker) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *asker) say(line string) {
	s.mu.Lock()
	p := s.proc
	s.mu.Unlock()
	p.say(line)
}

// send asks without waiting for the answer.
func (s *asker) send(id, method, params string) <-chan mcp.Message {
	ch := make(chan mcp.Message, 2)
	s.mu.Lock()
	s.answers[`"`+id+`"`] = ch
	s.mu.Unlock()
	if params == "" {
		params = "{}"
	}
	s.say(`{"jsonrpc":"2.0","id":"` + id + `","method":"` + method + `","params":` + params + `}`)
	return ch
}

// ask asks, and waits for the answer: the result, or "code message" of an error.
func (s *asker) ask(id, method, params string) string {
	select {
	case m := <-s.send(id, method, params):
		return answerOf(&m)
	case <-time.After(2 * time.Hour):
		return "no answer"
	}
}

func answerOf(m *mcp.Message) string {
	if m.Kind == mcp.KindError {
		return fmt.Sprint(m.Error.Code, " ", m.Error.Message)
	}
	return string(m.Result)
}

// requests returns the params of what the client has sent of a method.
func (s *asker) requests(method string) []mcp.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []mcp.Message
	for _, m := range s.heard {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// decider is a Human that decides by a function, and remembers what it was asked.
type decider struct {
	decide func(ctx context.Context, a *Ask) (*Decision, error)

	mu   sync.Mutex
	asks []*Ask
}

func (d *decider) Decide(ctx context.Context, a *Ask) (*Decision, error) {
	d.mu.Lock()
	d.asks = append(d.asks, a)
	decide := d.decide
	d.mu.Unlock()
	return decide(ctx, a)
}

// becomes changes how the Human decides, while it is in use.
func (d *decider) becomes(other *decider) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decide = other.decide
}

func (d *decider) seen() []*Ask {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*Ask(nil), d.asks...)
}

// says is a Human that always decides the same.
func says(action string, content ...string) *decider {
	return &decider{decide: func(context.Context, *Ask) (*Decision, error) {
		d := &Decision{Action: action}
		for i := 0; i+1 < len(content); i += 2 {
			if d.Content == nil {
				d.Content = map[string]json.RawMessage{}
			}
			d.Content[content[i]] = json.RawMessage(content[i+1])
		}
		return d, nil
	}}
}

// silent is a Human that never decides.
func silent() *decider {
	return &decider{decide: func(ctx context.Context, _ *Ask) (*Decision, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
}

// model is a Sampler that says the same each time.
func model(text string) Sampler {
	return SamplerFunc(func(context.Context, *SampleRequest) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", Content: mcp.Contents{&mcp.TextContent{Text: text}}, StopReason: mcp.StopEndTurn}, nil
	})
}

// browser opens nothing and remembers what it was to open.
type browserLog struct {
	mu   sync.Mutex
	urls []string
	err  error
}

func (b *browserLog) open(_ context.Context, url string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.urls = append(b.urls, url)
	return b.err
}

func (b *browserLog) opened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.urls...)
}

// inBubble runs a test on a virtual clock.
func inBubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func wantJSON(t *testing.T, what, got, want string) {
	t.Helper()
	if !sameJSON(got, want) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func elicitForm(message string) string {
	return `{"message":"` + message + `","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","default":7}},"required":["name"]}}`
}

const sampleHello = `{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":100}`

// traced is a system whose messages are recorded.
func traced(t *testing.T, tracer *actors.Tracer) *actors.System {
	t.Helper()
	t.Cleanup(func() { time.Sleep(time.Second) })
	sys, err := actors.NewSystem(&actors.Options{Trace: tracer.Record})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := sys.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return sys
}

// underWay is how many requests of the server are under way, or about to be.
func underWay(c *Client) int {
	all, beginning := c.questions.asks.UnderWay()
	return all + beginning
}
