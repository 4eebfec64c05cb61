package streamable_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// canned answers every request with one response.
type canned struct {
	status int
	kind   string
	body   []byte
}

func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	r.Body.Close()
	return &http.Response{
		StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}}, ContentLength: -1,
		Body: io.NopCloser(bytes.NewReader(c.body)), Request: r,
	}, nil
}

// FuzzAnswer: whatever a server answers, a request has exactly one end, and nobody else has any.
// SECA-8, SECA-13, ROB-2.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":7,"result":{}}`, `{"jsonrpc":"2.0","id":8,"result":{}}`, `[]`, `[{"jsonrpc":"2.0","id":7,"result":{}}]`,
		"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n", "data: x\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"\"}}\n\n", "",
	} {
		for _, kind := range []string{"application/json", "text/event-stream", "text/html"} {
			f.Add(200, kind, []byte(body))
			f.Add(404, kind, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, status int, kind string, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		s := newSink()
		u, _ := url.Parse("http://mcp.test/")
		var running sync.WaitGroup
		l := streamable.New(streamable.Options{
			URL: u, Client: &http.Client{Transport: canned{status, kind, body}}, Sink: s, MaxMessage: 1 << 16,
			Go: func(_ string, f func()) { running.Go(f) },
		})
		l.Speak(mcp.V2026_07_28)
		if err := l.Send(mcp.Outgoing{Frame: []byte(`{}`), Kind: mcp.KindRequest, ID: mcp.IntID(7), Method: "tools/call"}); err != nil {
			t.Fatal(err)
		}
		running.Wait()
		ends := s.fails
		for _, frame := range s.all() {
			_, text, _ := strings.Cut(frame, ": ")
			var m mcp.Message
			err := mcp.Scan([]byte(text), &m)
			if m.Kind != mcp.KindResult && m.Kind != mcp.KindError {
				continue
			}
			if m.ID == mcp.IntID(7) {
				ends++
			} else if !m.ID.IsZero() {
				t.Errorf("an answer to %s was passed on (%v)", m.ID, err)
			}
		}
		if ends != 1 || s.fails > 0 && s.failure(7) == nil {
			t.Errorf("%d ends, failed: %v, frames: %q", ends, s.failed, s.all())
		}
		l.Close()
	})
}
