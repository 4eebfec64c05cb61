package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/sse"
)

// web is a client of HTTP.
type web struct {
	t       testing.TB
	client  *http.Client
	url     string
	user    string
	session string
	header  map[string]string // of all requests
}

func newWeb(t testing.TB, url, user string) *web {
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &web{t: t, client: &http.Client{Transport: transport}, url: url, user: user}
}

// reply is what came of one request.
type reply struct {
	status int
	header http.Header
	body   string
}

// messages are those of the body, or of the events.
func (r reply) messages() []string {
	if !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
		if r.body == "" {
			return nil
		}
		return []string{r.body}
	}
	var all []string
	for events := sse.NewReader(strings.NewReader(r.body), 16<<20); ; {
		e, err := events.Next()
		if err != nil {
			return all
		}
		if len(e.Data) > 0 {
			all = append(all, string(e.Data))
		}
	}
}

// code is that of the error in the answer.
func (r reply) code() int64 {
	all := r.messages()
	if len(all) == 0 {
		return 0
	}
	m, _ := read(all[len(all)-1])
	return m.code()
}

// start sends a request and returns with the header of the answer. "-" leaves a header
// out.
func (w *web) start(ctx context.Context, method string, body io.Reader, more map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.user != "" {
		r.Header.Set("X-User", w.user)
	}
	if w.session != "" {
		r.Header.Set("Mcp-Session-Id", w.session)
	}
	for _, h := range []map[string]string{w.header, more} {
		for name, value := range h {
			switch {
			case name == "Host":
				r.Host = value
			case value == "-":
				r.Header.Del(name)
			default:
				r.Header.Set(name, value)
			}
		}
	}
	return w.client.Do(r)
}

// send sends a request and reads all of the answer.
func (w *web) send(method, body string, more map[string]string) (reply, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), mcptest.Patience)
	defer cancel()
	resp, err := w.start(ctx, method, strings.NewReader(body), more)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}, err
}

// mirrored are the headers that go with a message.
func (s surface) mirrored(text string) map[string]string {
	if !s.modern() {
		return nil
	}
	h := map[string]string{"Mcp-Protocol-Version": string(s.version)}
	var m struct {
		Method string
		Params struct{ Name, URI, TaskID string }
	}
	_ = json.NewDecoder(strings.NewReader(text)).Decode(&m)
	if m.Method = plain(m.Method); m.Method != "" {
		h["Mcp-Method"] = m.Method
	}
	for _, name := range []string{m.Params.Name, m.Params.URI, m.Params.TaskID} {
		if name = plain(name); name != "" {
			h["Mcp-Name"] = name
		}
	}
	return h
}

// plain drops what would not fit into a header.
func plain(value string) string {
	if len(value) > 1000 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return value
}

// postOf sends one message and returns what came of it.
func (p *peer) postOf(text string) (reply, error) {
	return p.web.send(http.MethodPost, text, p.mirrored(text))
}

// post is put over Streamable HTTP.
func (p *peer) post(text string) error {
	got, err := p.postOf(text)
	if err != nil {
		return err
	}
	if got.status >= 500 {
		return fmt.Errorf("got status %d %.200s", got.status, got.body)
	}
	if id := got.header.Get("Mcp-Session-Id"); id != "" {
		p.web.session = id
	}
	for _, line := range got.messages() {
		p.Frame([]byte(line))
	}
	return nil
}

// openSSE opens a session of the old transport.
func (p *peer) openSSE() {
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	p.hang = cancel
	events := p.web.listen(ctx, nil)
	e, err := events.Next()
	if err != nil || e.Type != "endpoint" {
		p.t.Fatalf("the stream begins with %+v, %v", e, err)
	}
	base, err := url.Parse(p.web.url)
	if err != nil {
		p.t.Fatal(err)
	}
	to, err := base.Parse(string(e.Data))
	if err != nil {
		p.t.Fatal(err)
	}
	p.web.url = to.String()
	go func() {
		defer close(p.lines)
		for {
			e, err := events.Next()
			if err != nil {
				return
			}
			p.lines <- string(e.Data)
		}
	}()
	p.put = func(text string) error {
		got, err := p.web.send(http.MethodPost, text, nil)
		if err == nil && got.status >= 500 {
			err = fmt.Errorf("got status %d %.200s", got.status, got.body)
		}
		return err
	}
}

// listen opens a stream by GET.
func (w *web) listen(ctx context.Context, more map[string]string) *sse.Reader {
	w.t.Helper()
	resp, err := w.start(ctx, http.MethodGet, nil, more)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("GET: got %d %.200s", resp.StatusCode, text)
	}
	return sse.NewReader(resp.Body, 16<<20)
}

// begin posts a message in the background; what comes is in lines. Over is closed when
// nothing more can come.
func (p *peer) begin(text string) (over <-chan struct{}) {
	ended := make(chan struct{})
	if p.web == nil || p.way == "sse" {
		p.say(text)
		close(ended)
		return ended
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	p.busy.Go(func() {
		defer close(ended)
		resp, err := p.web.start(ctx, http.MethodPost, bytes.NewReader([]byte(text)), p.mirrored(text))
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			body, _ := io.ReadAll(resp.Body)
			if len(body) > 0 {
				p.Frame(body)
			}
			return
		}
		for events := sse.NewReader(resp.Body, 16<<20); ; {
			e, err := events.Next()
			if err != nil {
				return
			}
			if len(e.Data) > 0 {
				p.Frame(e.Data)
			}
		}
	})
	return ended
}

// settle waits for the posts that were begun.
func (p *peer) settle() { p.busy.Wait() }
