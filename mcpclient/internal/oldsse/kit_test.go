package oldsse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
)

// key is the session's secret: it must not be seen anywhere.
const key = "canary-5ecret"

// begin is what a stream begins with.
const begin = "event: endpoint\ndata: /messages?session=" + key + "\n\n"

// server is a scripted server of 2024-11-05.
type server struct {
	// get writes the stream, after its header; nil says begin and waits.
	get func(w *writer)
	// post answers a POST; nil is 202.
	post func(w http.ResponseWriter, r *posted)

	mu  sync.Mutex
	got []*posted
}

// posted is a message that the server got.
type posted struct {
	URL    string
	Header http.Header
	Body   string
	ctx    context.Context
}

// writer writes a stream, each piece at once.
type writer struct {
	http.ResponseWriter
	ctx context.Context
}

func (w *writer) say(s string) error {
	_, err := io.WriteString(w, s)
	w.ResponseWriter.(http.Flusher).Flush()
	return err
}

// wait keeps the stream open until the client closes it.
func (w *writer) wait() { <-w.ctx.Done() }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", "text/event-stream")
		out := &writer{w, r.Context()}
		if s.get != nil {
			s.get(out)
			return
		}
		out.say(begin)
		out.wait()
		return
	}
	body, _ := io.ReadAll(r.Body)
	p := &posted{r.URL.String(), r.Header, string(body), r.Context()}
	s.mu.Lock()
	s.got = append(s.got, p)
	s.mu.Unlock()
	if s.post != nil {
		s.post(w, p)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *server) posts() []*posted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

// bodies are the messages that the server got, in order.
func (s *server) bodies() []string {
	var out []string
	for _, p := range s.posts() {
		out = append(out, p.Body)
	}
	return out
}

// sink notes what a link tells.
type sink struct {
	mu     sync.Mutex
	frames []string
	skips  []string
	failed map[string]error // by id
	lost   []error
	react  func(frame string)
}

func (s *sink) Frame(frame []byte) {
	s.mu.Lock()
	s.frames = append(s.frames, string(frame))
	react := s.react
	s.mu.Unlock()
	if react != nil {
		react(string(frame))
	}
}

func (s *sink) FrameOf(id mcp.ID, frame []byte) { s.Frame([]byte("of " + id.String() + string(frame))) }

func (s *sink) Skipped(head, tail []byte, err func(bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skips = append(s.skips, fmt.Sprintf("%.10s…%.10s: %v", head, tail[max(0, len(tail)-10):], err(true)))
}

func (s *sink) Failed(id mcp.ID, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = map[string]error{}
	}
	s.failed[id.String()] = err
}

func (s *sink) Lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, err)
}

func (s *sink) all() ([]string, map[string]error, []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := map[string]error{}
	for id, err := range s.failed {
		failed[id] = err
	}
	return slices.Clone(s.frames), failed, slices.Clone(s.lost)
}

// kit is a link to a server.
type kit struct {
	*server
	*sink
	link *Link
	err  error // of Dial
	logs bytes.Buffer
}

// dial connects to a server in memory. It runs in a synctest bubble; when the test
// ends the link is closed, and what it logged must hold no secret.
func dial(t *testing.T, s *server, change func(*Options)) *kit {
	t.Helper()
	k := &kit{server: s, sink: new(sink)}
	u, err := url.Parse("http://server.test/sse")
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	o := Options{
		URL: u, Client: memhttp.Serve(t, s), Sink: k.sink, Name: "x",
		Header: http.Header{"Authorization": {"Bearer canary-token"}},
		Go:     func(_ string, f func()) { tasks.Go(f) },
		Log:    slog.New(slog.NewTextHandler(&k.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&o)
	}
	k.link, k.err = Dial(t.Context(), o)
	t.Cleanup(func() {
		if k.link != nil {
			k.link.Close()
		}
		tasks.Wait()
		text := k.logs.String() + fmt.Sprint(k.err)
		_, failed, lost := k.all()
		for _, err := range failed {
			text += err.Error()
		}
		text += fmt.Sprint(lost)
		if strings.Contains(text, "canary") {
			t.Errorf("a secret is in the logs or errors: %s", text)
		}
	})
	return k
}

// mustDial is dial that has to succeed.
func mustDial(t *testing.T, s *server) *kit {
	t.Helper()
	k := dial(t, s, nil)
	if k.err != nil {
		t.Fatal(k.err)
	}
	return k
}

func ask(n int) mcp.Outgoing {
	return mcp.Outgoing{
		Frame: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"m"}`, n), Kind: mcp.KindRequest, ID: mcp.IntID(int64(n)), Method: "m",
		Name: "name", Headers: []mcp.Header{{Name: "A", Value: "b"}},
	}
}

func notice(method string) mcp.Outgoing {
	return mcp.Outgoing{Frame: mcp.AppendNotification(nil, method, nil), Kind: mcp.KindNotification, Method: method}
}
