package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// web is a client of Streamable HTTP that does what it is told, and checks every
// message that it gets against the official schema.
type web struct {
	t       testing.TB
	client  *http.Client
	url     string
	version mcp.Version
	session string
	header  map[string]string // of every request

	checks peer // its schemas, and which id asked for what
}

// reply is what came of one request.
type reply struct {
	status   int
	header   http.Header
	body     string
	messages []string // of the body, or of the events
}

// newWeb returns a client that has said nothing yet.
func newWeb(t testing.TB, client *http.Client, v mcp.Version) *web {
	return &web{
		t: t, client: client, url: "http://localhost/mcp", version: v, header: map[string]string{},
		checks: peer{t: t, version: v, check: official(t, v), asked: make(map[string]string)},
	}
}

// webBubble runs f in a bubble with a server on an in-memory network.
func webBubble(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, s *mcpserver.Server, client *http.Client, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, g := newServer(t, opts)
		f(t, s, memhttp.Serve(t, s.Handler()), g)
	})
}

// eachWebVersion does so for each revision that has Streamable HTTP, with a client
// that is ready to call.
func eachWebVersion(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, w *web, g *gate)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		if v == mcp.V2024_11_05 {
			continue
		}
		t.Run(string(v), func(t *testing.T) {
			webBubble(t, opts, func(t *testing.T, _ *mcpserver.Server, client *http.Client, g *gate) {
				w := newWeb(t, client, v)
				w.open()
				f(t, w, g)
			})
		})
	}
}

// open makes the client ready to call.
func (w *web) open() {
	w.t.Helper()
	if w.version.Era() == mcp.EraModern {
		return
	}
	got := w.post(initialize(w.version))
	if w.session = got.header.Get("Mcp-Session-Id"); got.status != http.StatusOK || w.session == "" {
		w.t.Fatalf("initialize: got %d %s, session %q", got.status, clip(got.body), w.session)
	}
	if got := w.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); got.status != http.StatusAccepted || got.body != "" {
		w.t.Fatalf("initialized: got %d %q, want 202 and nothing", got.status, got.body)
	}
}

func initialize(v mcp.Version) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"web","version":"1"}}}`, v)
}

// headers are those that a message has to have.
func (w *web) headers(frame string) map[string]string {
	h := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI, TaskID json.RawMessage
			Meta              struct {
				Version json.RawMessage `json:"io.modelcontextprotocol/protocolVersion"`
			} `json:"_meta"`
		}
	}
	_ = json.Unmarshal([]byte(frame), &m)
	if m.ID != nil {
		w.checks.asked[string(m.ID)] = m.Method
	}
	if w.version.Era() == mcp.EraModern {
		h["Mcp-Protocol-Version"] = string(w.version)
		if m.Method != "" {
			h["Mcp-Method"] = m.Method
		}
		for _, name := range []json.RawMessage{m.Params.Name, m.Params.URI, m.Params.TaskID} {
			var text string
			if json.Unmarshal(name, &text) == nil {
				h["Mcp-Name"] = text
			}
		}
		return h
	}
	if w.session != "" {
		h["Mcp-Session-Id"] = w.session
		if w.version >= mcp.V2025_06_18 {
			h["Mcp-Protocol-Version"] = string(w.version)
		}
	}
	return h
}

// post sends one message. More are headers in place of the usual ones; "-" leaves one
// out.
func (w *web) post(frame string, more ...map[string]string) reply {
	w.t.Helper()
	got, err := w.send(w.t.Context(), http.MethodPost, strings.NewReader(frame), w.headers(frame), more...)
	if err != nil {
		w.t.Fatalf("POST %s: %v", clip(frame), err)
	}
	return got
}

// send sends a request and reads all that comes.
func (w *web) send(ctx context.Context, method string, body io.Reader, header map[string]string, more ...map[string]string) (reply, error) {
	resp, err := w.start(ctx, method, body, header, more...)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	got := reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	switch kind := resp.Header.Get("Content-Type"); {
	case len(text) == 0:
	case kind == "text/event-stream":
		got.messages = w.events(bytes.NewReader(text))
	case kind == "application/json":
		got.messages = []string{got.body}
	default:
		w.t.Errorf("%s: got a body of type %q", method, kind)
	}
	for _, m := range got.messages {
		w.checks.checkMessage(m)
	}
	return got, err
}

// start sends a request and returns as soon as there is a header.
func (w *web) start(ctx context.Context, method string, body io.Reader, header map[string]string, more ...map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, body)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(w.header)
	for _, h := range append([]map[string]string{header}, more...) {
		maps.Copy(all, h)
	}
	for name, value := range all {
		switch {
		case value == "-":
			r.Header.Del(name)
		case name == "Host":
			r.Host = value
		default:
			r.Header.Set(name, value)
		}
	}
	return w.client.Do(r)
}

// events returns the data of the events, without those that have none.
func (w *web) events(from io.Reader) []string {
	w.t.Helper()
	var all []string
	for r := sse.NewReader(from, 16<<20); ; {
		e, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			w.t.Errorf("reading events: %v", err)
			return all
		}
		if len(e.Data) > 0 {
			all = append(all, string(e.Data))
		}
	}
}

// last is the answer: the last message.
func (r reply) last() string {
	if len(r.messages) == 0 {
		return ""
	}
	return r.messages[len(r.messages)-1]
}

// code returns the code of the error in an answer, 0 if it is none.
func (r reply) code() int64 {
	var m struct{ Error *mcp.Error }
	if json.Unmarshal([]byte(r.last()), &m) != nil || m.Error == nil {
		return 0
	}
	return m.Error.Code
}

// id returns the id of the answer as it is written, "" if it has none.
func (r reply) id() string {
	var m struct{ ID json.RawMessage }
	_ = json.Unmarshal([]byte(r.last()), &m)
	return string(m.ID)
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, clip(r.body)) }

// delete ends the session.
func (w *web) delete(more ...map[string]string) reply {
	w.t.Helper()
	got, err := w.send(w.t.Context(), http.MethodDelete, nil, w.headers(""), more...)
	if err != nil {
		w.t.Fatalf("DELETE: %v", err)
	}
	return got
}
