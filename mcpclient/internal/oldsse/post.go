package oldsse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// post is one message in line.
type post struct {
	frame  []byte
	id     mcp.ID // of a request, else zero
	method string
	kind   mcp.Kind
}

func newPost(m *mcp.Outgoing) *post {
	p := &post{frame: bytes.Clone(m.Frame), method: m.Method, kind: m.Kind}
	if m.Kind == mcp.KindRequest {
		p.id = m.ID
	}
	return p
}

// pump POSTs what is in line until there is no more, or until another goroutine has
// gone on because a POST took long.
func (l *Link) pump() {
	defer l.done()
	for p := l.next(); p != nil; p = l.next() {
		if passed := l.inLine(p); passed {
			return
		}
	}
}

// inLine POSTs one message, and reports whether another goroutine has gone on with
// those behind it.
func (l *Link) inLine(p *post) (passed bool) {
	ended := false // both guarded by the lock
	timer := time.AfterFunc(passTime, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case ended || l.over:
			return
		case l.posts >= maxPosts:
			l.stuck = &passed // the next POST that ends goes on
			return
		}
		passed = true
		l.posts++
		l.task(l.pump)
	})
	defer timer.Stop()
	l.run(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	ended = true
	switch {
	case !passed: // those behind it are ours still
		l.stuck = nil
	case l.stuck != nil:
		*l.stuck, l.stuck = true, nil
		return false
	default:
		l.posts--
	}
	return passed
}

// next takes the first message out of the line; nil ends the goroutine.
func (l *Link) next() *post {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.sending = nil, false
		l.posts--
		if l.drained != nil {
			close(l.drained)
			l.drained = nil
		}
		return nil
	}
	p := l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.bytes -= len(p.frame)
	return p
}

// run sends one message (SSE-03).
func (l *Link) run(p *post) {
	ctx, cancel := context.WithTimeoutCause(l.ctx, postTime, errSlow)
	defer cancel()
	resp, denied, err := l.authorized(ctx, func() *http.Request {
		return &http.Request{
			Method: http.MethodPost, URL: l.endpoint, Host: l.endpoint.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: l.opts.headers("Content-Type", "application/json", "Accept-Encoding", "identity"),
			Body:   io.NopCloser(bytes.NewReader(p.frame)), ContentLength: int64(len(p.frame)),
			GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.frame)), nil },
		}
	})
	if err != nil {
		l.undelivered(p, err)
		return
	}
	if resp.StatusCode/100 != 2 {
		l.refused(p, resp, denied)
		return
	}
	l.mu.Lock()
	l.known = true
	l.mu.Unlock()
	// A server may be slow with what it says here, and no caller waits for it.
	limit := time.AfterFunc(passTime, cancel)
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrained) // so that the connection can be used again
	limit.Stop()
	resp.Body.Close()
}

// undelivered is a message that did not reach the server, or whose POST was not answered.
func (l *Link) undelivered(p *post, err error) {
	if l.ctx.Err() != nil {
		return // the link is being closed
	}
	if redirect, ok := errors.AsType[*httpguard.RedirectError](err); ok {
		err = &call.TransportError{Method: p.method, Status: redirect.Status, Err: err}
	} else if errors.Is(err, httpguard.ErrUnsent) {
		err = fmt.Errorf("%w: %w", call.ErrUnsent, err)
	}
	l.fail(p, err)
}

// refused is an answer that is no success.
func (l *Link) refused(p *post, resp *http.Response, denied error) {
	status := resp.StatusCode
	err := l.opts.refused(resp, denied, l.secrets()...)
	l.mu.Lock()
	gone := l.known && (status == http.StatusNotFound || status == http.StatusGone)
	l.mu.Unlock()
	if gone { // SSE-07: no message will be taken any more
		l.fail(p, fmt.Errorf("%w: %w", call.ErrUnsent, ErrSession))
		l.lose(fmt.Errorf("%w: %w", ErrSession, err))
		return
	}
	barred := status == http.StatusUnauthorized || status == http.StatusForbidden
	l.fail(p, &call.TransportError{Method: p.method, Status: status, Unsent: barred, Err: err})
}

// secrets are the texts in the endpoint that a server might repeat.
func (l *Link) secrets() []string {
	out := []string{l.endpoint.String(), l.endpoint.RequestURI(), l.endpoint.RawQuery, l.endpoint.Fragment}
	for _, values := range l.endpoint.Query() {
		out = append(out, values...)
	}
	return out
}

// fail ends a request without an answer; of other messages there is a log entry.
func (l *Link) fail(p *post, err error) {
	if p.kind == mcp.KindRequest {
		l.opts.Sink.Failed(p.id, err)
		return
	}
	l.opts.Log.Warn("a message did not reach the server", "method", p.method, "kind", p.kind.String(), "error", err)
}
