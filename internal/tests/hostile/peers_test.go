package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// turn is one message of the client, as a script sees it.
type turn struct {
	m       *mcp.Message
	session any // the same for all messages of one connection
	gone    <-chan struct{}
	write   func(raw string) // one message to the client, where it expects the answer
}

// say sends one message as it is, with %ID% for the id of the request.
func (c *turn) say(raw string) { c.write(strings.ReplaceAll(raw, "%ID%", c.m.ID.String())) }

// result answers the request.
func (c *turn) result(raw string) { c.say(`{"jsonrpc":"2.0","id":%ID%,"result":` + raw + `}`) }

// textResult answers tools/call.
func (c *turn) textResult(s string) {
	c.result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, s))
}

// name is params.name.
func (c *turn) name() string {
	name, _ := c.m.NameString()
	return name
}

// script is what a server does. It reports false for what the [polite] server is to
// do instead. It is called for several messages at once.
type script func(c *turn) bool

// scripts are all servers by name, so that a process can be one. Each is made anew for
// each server.
var scripts = struct {
	sync.Mutex
	named map[string]func() script
}{named: map[string]func() script{
	"polite": func() script { return func(*turn) bool { return false } },
}}

// register adds a script.
func register(name string, make func() script) {
	scripts.Lock()
	defer scripts.Unlock()
	scripts.named[name] = make
}

// polite is a server of one revision that does what its script leaves to it.
type polite struct {
	version mcp.Version
	script  script
}

func newPolite(name string, v mcp.Version) *polite {
	scripts.Lock()
	made, ok := scripts.named[name]
	scripts.Unlock()
	if !ok {
		panic("no script " + name)
	}
	return &polite{v, made()}
}

const everything = `{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

// play answers one message.
func (p *polite) play(c *turn) {
	if p.script(c) || c.m.Kind != mcp.KindRequest {
		return
	}
	modern := p.version.Era() == mcp.EraModern
	switch c.m.Method {
	case mcp.MethodInitialize:
		if modern {
			c.say(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32022,"message":"no","data":{"supported":["` + string(p.version) + `"],"requested":"x"}}}`)
			return
		}
		c.result(`{"protocolVersion":"` + string(p.version) + `","capabilities":` + everything + `,"serverInfo":{"name":"bank","version":"1"}}`)
	case mcp.MethodDiscover:
		if !modern {
			c.say(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32601,"message":"Method not found"}}`)
			return
		}
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["` + string(p.version) + `"],"capabilities":` + everything + `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bank","version":"1"}}}`)
	case mcp.MethodListTools:
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"echo","inputSchema":{"type":"object"}}]}`)
	case mcp.MethodCallTool:
		c.textResult(c.name())
	case mcp.MethodPing, mcp.MethodSetLevel, mcp.MethodSubscribe:
		c.result(`{}`)
	case mcp.MethodListen:
		c.say(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":%ID%}}}`)
		<-c.gone
	default:
		c.say(`{"jsonrpc":"2.0","id":%ID%,"error":{"code":-32601,"message":"Method not found"}}`)
	}
}

// way is one transport with an era.
type way struct {
	name    string
	version mcp.Version
	open    func(t testing.TB, script string, v mcp.Version) mcpclient.Server
	whole   bool // one message is all that there is for a request: its answer
}

// ways are all transports.
var ways = []way{
	{name: "stdio", version: mcp.V2025_11_25, open: openStdio},
	{name: "http legacy", version: mcp.V2025_11_25, open: openHTTP},
	{name: "http legacy json", version: mcp.V2025_11_25, open: openJSON, whole: true},
	{name: "http modern", version: mcp.Latest, open: openHTTP},
	{name: "http modern json", version: mcp.Latest, open: openJSON, whole: true},
	{name: "sse", version: mcp.V2024_11_05, open: openSSE},
	{name: "in process", version: mcp.Latest, open: openInProcess},
	{name: "unix stream", version: mcp.V2025_11_25, open: openStream},
}

// everyWay runs a test over each transport.
func everyWay(t *testing.T, script string, f func(t *testing.T, w way, s mcpclient.Server)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.open(t, script, w.version)
			f(t, w, s)
		})
	}
}

// everyStream is everyWay without those that have room for nothing but the answer.
func everyStream(t *testing.T, script string, f func(t *testing.T, w way, s mcpclient.Server)) {
	t.Helper()
	for _, w := range ways {
		if !w.whole {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				f(t, w, w.open(t, script, w.version))
			})
		}
	}
}

func openStdio(_ testing.TB, script string, v mcp.Version) mcpclient.Server {
	s := mcpclient.Command(os.Args[0])
	mode := script + " " + string(v)
	s.Name, s.Env, s.Protocol = "peer", map[string]*string{peerVariable: &mode}, pin(v)
	return s
}

// pin keeps the probe out of the tests of other things.
func pin(v mcp.Version) string {
	if v.Era() == mcp.EraLegacy {
		return mcpclient.ProtocolLegacy
	}
	return mcpclient.ProtocolModern
}

// serveLines serves one stream.
func serveLines(in io.Reader, out io.Writer, p *polite) {
	var mu sync.Mutex
	var running sync.WaitGroup
	gone := make(chan struct{})
	defer running.Wait()
	defer close(gone)
	buffered := bufio.NewWriterSize(out, 64<<10)
	write := func(raw string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = buffered.WriteString(raw)
		_ = buffered.WriteByte('\n')
		_ = buffered.Flush()
	}
	lines := frame.NewReader(in, 64<<20)
	session := new(int)
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m := new(mcp.Message)
		if mcp.Scan(append([]byte(nil), line...), m) != nil {
			continue
		}
		running.Go(func() { p.play(&turn{m: m, session: session, gone: gone, write: write}) })
	}
}

func openStream(t testing.TB, script string, v mcp.Version) mcpclient.Server {
	p := newPolite(script, v)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		mcptest.Lacks(t, "unix sockets", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				serveLines(c, c, p)
				c.Close()
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	s := mcpclient.Stream("peer", func(ctx context.Context) (io.ReadWriteCloser, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	})
	s.Protocol = pin(v)
	return s
}

// inProcess connects to a server in this process.
type inProcess struct{ p *polite }

type inProcessLink struct {
	p    *polite
	sink mcp.Sink
	once sync.Once
	gone chan struct{}
}

// Connect implements [mcpclient.Connector].
func (c inProcess) Connect(sink mcp.Sink) (mcp.Link, error) {
	return &inProcessLink{p: c.p, sink: sink, gone: make(chan struct{})}, nil
}

// Send implements [mcp.Link].
func (l *inProcessLink) Send(o mcp.Outgoing) error {
	m := new(mcp.Message)
	if mcp.Scan(append([]byte(nil), o.Frame...), m) == nil {
		go l.p.play(&turn{m: m, session: l, gone: l.gone, write: func(raw string) { l.sink.Frame([]byte(raw)) }})
	}
	return nil
}

// Close implements [mcp.Link].
func (l *inProcessLink) Close() error {
	l.once.Do(func() { close(l.gone); l.sink.Lost(nil) })
	return nil
}

func openInProcess(_ testing.TB, script string, v mcp.Version) mcpclient.Server {
	s := mcpclient.InProcess("peer", inProcess{newPolite(script, v)})
	s.Protocol = pin(v)
	return s
}

// web is a server over Streamable HTTP.
type web struct {
	p    *polite
	raw  func(w http.ResponseWriter, r *http.Request, m *mcp.Message) bool // HTTP of its own; may be nil
	json bool                                                              // answers are JSON bodies, of the first message that is said
}

// ServeHTTP implements http.Handler.
func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case http.MethodDelete:
		return
	}
	raw, err := io.ReadAll(r.Body)
	m := new(mcp.Message)
	if err != nil || mcp.Scan(raw, m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if s.raw != nil && s.raw(w, r, m) {
		return
	}
	c := &turn{m: m, session: r.Header.Get("X-Client"), gone: r.Context().Done()}
	if m.Kind != mcp.KindRequest {
		c.write = func(string) {}
		s.p.play(c)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == mcp.MethodInitialize {
		w.Header().Set("Mcp-Session-Id", "session")
	}
	c.write = s.writer(w, m)
	s.p.play(c)
}

// writer returns what sends messages as the body of a response.
func (s *web) writer(w http.ResponseWriter, m *mcp.Message) func(string) {
	var mu sync.Mutex
	if s.json && m.Method != mcp.MethodListen {
		said := false
		return func(raw string) {
			mu.Lock()
			defer mu.Unlock()
			if said {
				return
			}
			said = true
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, raw)
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	return func(raw string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(w, "data: ")
		_, _ = io.WriteString(w, raw)
		_, _ = io.WriteString(w, "\n\n")
		w.(http.Flusher).Flush()
	}
}

// listen starts a handler on loopback and returns its URL.
func listen(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func openHTTP(t testing.TB, script string, v mcp.Version) mcpclient.Server {
	return mcpclient.Server{Name: "peer", URL: listen(t, &web{p: newPolite(script, v)}), Transport: mcpclient.TransportHTTP, Protocol: pin(v)}
}

func openJSON(t testing.TB, script string, v mcp.Version) mcpclient.Server {
	return mcpclient.Server{Name: "peer", URL: listen(t, &web{p: newPolite(script, v), json: true}), Transport: mcpclient.TransportHTTP, Protocol: pin(v)}
}

// oldWeb is a server over HTTP+SSE.
type oldWeb struct {
	p        *polite
	mu       sync.Mutex
	sessions map[string]*oldSession
	last     int
}

type oldSession struct {
	mu   sync.Mutex
	w    http.ResponseWriter
	gone <-chan struct{}
	over bool
}

func (s *oldSession) event(kind, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	_, _ = io.WriteString(s.w, "event: "+kind+"\ndata: ")
	_, _ = io.WriteString(s.w, data)
	_, _ = io.WriteString(s.w, "\n\n")
	s.w.(http.Flusher).Flush()
}

// ServeHTTP implements http.Handler.
func (s *oldWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		session := &oldSession{w: w, gone: r.Context().Done()}
		s.mu.Lock()
		s.last++
		key := fmt.Sprint(s.last)
		s.sessions[key] = session
		s.mu.Unlock()
		session.event("endpoint", "/message?session="+key)
		<-r.Context().Done()
		session.mu.Lock()
		session.over = true
		session.mu.Unlock()
		return
	}
	s.mu.Lock()
	session := s.sessions[r.URL.Query().Get("session")]
	s.mu.Unlock()
	raw, err := io.ReadAll(r.Body)
	m := new(mcp.Message)
	if session == nil || err != nil || mcp.Scan(raw, m) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	go s.p.play(&turn{m: m, session: session, gone: session.gone, write: func(raw string) { session.event("message", raw) }})
}

func openSSE(t testing.TB, script string, v mcp.Version) mcpclient.Server {
	url := listen(t, &oldWeb{p: newPolite(script, v), sessions: map[string]*oldSession{}})
	return mcpclient.Server{Name: "peer", URL: url, Transport: mcpclient.TransportSSE, Protocol: pin(v)}
}
