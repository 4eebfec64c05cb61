package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// wire is a server in this process that speaks one revision, says what its table of
// methods says, and keeps what it was asked. It implements [Connector] and [mcp.Link].
type wire struct {
	version mcp.Version
	caps    string // what it declares
	// methods answer with a result, or with "!" and an error object; "" is silence.
	methods map[string]func(m *mcp.Message) string

	mu    sync.Mutex
	sink  mcp.Sink
	asked []mcp.Outgoing // but for the handshake and for what is listened to
	down  bool           // it cannot be connected to
	ear   mcp.ID         // of the newest subscriptions/listen
}

const allCaps = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

// newWire returns a server of everything. methods are its answers, constant ones.
func newWire(v mcp.Version, methods map[string]string) *wire {
	w := &wire{version: v, caps: allCaps, methods: map[string]func(*mcp.Message) string{}}
	if !v.Has(mcp.FeatureCompletions) {
		w.caps = strings.Replace(allCaps, `"completions":{},`, "", 1)
	}
	for method, answer := range methods {
		w.methods[method] = func(*mcp.Message) string { return answer }
	}
	return w
}

func (w *wire) Connect(sink mcp.Sink) (mcp.Link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down {
		return nil, errors.New("the server is down")
	}
	w.sink = sink
	return w, nil
}

func (w *wire) Close() error { return nil }

func (w *wire) Send(o mcp.Outgoing) error {
	o.Frame = slices.Clone(o.Frame)
	go w.take(o)
	return nil
}

// take answers one message.
func (w *wire) take(o mcp.Outgoing) {
	m := new(mcp.Message)
	if err := mcp.Scan(o.Frame, m); err != nil {
		panic(err)
	}
	answer := ""
	switch m.Method {
	case mcp.MethodDiscover:
		answer = `!{"code":-32601,"message":"no"}`
		if w.version.Era() == mcp.EraModern {
			answer = fmt.Sprintf(`{"resultType":"complete","supportedVersions":[%q],"capabilities":%s,"ttlMs":0,"cacheScope":"public"}`, w.version, w.caps)
		}
	case mcp.MethodInitialize:
		answer = fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"wire","version":"1"}}`, w.version, w.caps)
	case mcp.NotificationInitialized, mcp.NotificationCancelled:
		return
	case mcp.MethodListen:
		w.listen(m)
		return
	default:
		w.mu.Lock()
		w.asked = append(w.asked, o)
		w.mu.Unlock()
		if f := w.methods[m.Method]; f != nil {
			answer = f(m)
		} else if m.Kind == mcp.KindRequest {
			answer = `!{"code":-32601,"message":"Method not found"}`
		}
	}
	if e, ok := strings.CutPrefix(answer, "!"); ok {
		w.say(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"error":` + e + `}`)
	} else if answer != "" {
		w.say(`{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":` + answer + `}`)
	}
}

// listen agrees to all that the client wishes to hear.
func (w *wire) listen(m *mcp.Message) {
	var p struct {
		Notifications json.RawMessage `json:"notifications"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.ear = m.ID
	w.mu.Unlock()
	w.notify(mcp.NotificationListenAcknowledged, `{"notifications":`+string(p.Notifications)+`}`)
}

// say sends a frame.
func (w *wire) say(frame string) {
	w.mu.Lock()
	sink := w.sink
	w.mu.Unlock()
	sink.Frame([]byte(frame))
}

// notify sends a notification; one of a modern server that is not of a request
// belongs to what is listened to.
func (w *wire) notify(method, params string) {
	if w.version.Era() == mcp.EraModern && method != mcp.NotificationMessage {
		w.mu.Lock()
		ear := w.ear
		w.mu.Unlock()
		if ear.IsZero() {
			panic("nobody listens")
		}
		meta := `{"_meta":{"io.modelcontextprotocol/subscriptionId":` + ear.String() + `}`
		if params != "{}" {
			meta += ","
		}
		params = meta + params[1:]
	}
	w.say(`{"jsonrpc":"2.0","method":"` + method + `","params":` + params + `}`)
}

// cut ends the connection, and keeps it from being made anew while down.
func (w *wire) cut(down bool) {
	w.mu.Lock()
	w.down = down
	sink := w.sink
	w.mu.Unlock()
	sink.Lost(errors.New("cut"))
}

// heard returns how often a method was asked since the last time, and forgets it.
func (w *wire) heard() (methods []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.asked {
		methods = append(methods, o.Method)
	}
	w.asked = nil
	return methods
}

// last returns the newest request, with its parameters.
func (w *wire) last(t *testing.T) (mcp.Outgoing, map[string]json.RawMessage) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.asked[len(w.asked)-1]
	var frame struct {
		Params map[string]json.RawMessage `json:"params"`
	}
	if err := json.Unmarshal(o.Frame, &frame); err != nil {
		t.Fatal(err)
	}
	return o, frame.Params
}

// dial connects to w within a bubble, and closes at the end of the test.
func (w *wire) dial(t *testing.T, opts *Options) *Client {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	o.System = newSystem(t)
	c, err := Dial(t.Context(), InProcess("wire", w), &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// host makes a host of wires by name, closed at the end of the test.
func hostOf(t *testing.T, wires map[string]*wire, opts *HostOptions) *Host {
	t.Helper()
	var servers []Server
	for name, w := range wires {
		servers = append(servers, InProcess(name, w))
	}
	h, err := NewHost(newSystem(t), servers, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeHost(t, h) })
	return h
}

// logTo returns a logger whose text can be looked at.
func logTo(b *syncBuilder) *slog.Logger {
	return slog.New(slog.NewTextHandler(io.Writer(b), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// cursorOf returns the cursor of a list request, "-" without one.
func cursorOf(m *mcp.Message) string {
	var p mcp.ListParams
	if err := m.DecodeParams(&p); err != nil {
		return err.Error()
	}
	if p.Cursor == nil {
		return "-"
	}
	return *p.Cursor
}

func within1s(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	t.Cleanup(cancel)
	return ctx
}
