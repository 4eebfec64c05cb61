package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// post is one message on its way, and the stream of its answer.
type post struct {
	link   *Link
	req    http.Request
	body   body
	ctx    context.Context // ends with the post
	end    context.CancelCauseFunc
	id     mcp.ID // of a request
	method string
	kind   mcp.Kind
	inside string      // the session that it named; "" for none
	header http.Header // before it was authorized
	taken  *post       // the request that this notification takes back

	// Of the goroutine that reads the answer.
	answered bool  // there was one, or what was to be one
	fault    error // what else came
	denied   error // why a refusal is not made good
}

// newPost copies the frame. The lock of the link is held.
func newPost(l *Link, m mcp.Outgoing) *post {
	p := &post{link: l, id: m.ID, method: m.Method, kind: m.Kind}
	if !l.modern() {
		p.inside = l.session
	}
	p.ctx, p.end = context.WithCancelCause(context.Background()) // that of the link would have to know each post
	p.body.init(m.Frame)
	p.header = l.header().of(&m)
	req := http.Request{
		Method: http.MethodPost, URL: l.opts.URL, Host: l.opts.URL.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: p.header, ContentLength: int64(len(m.Frame)),
		Body: io.NopCloser(&p.body.reader), GetBody: p.body.again,
	}
	p.req = *req.WithContext(httptrace.WithClientTrace(p.ctx, &p.body.trace))
	return p
}

// work is the goroutine of a request, and of those after it in line.
func (p *post) work() {
	l := p.link
	defer l.done()
	for ; p != nil; p = l.next() {
		p.run()
	}
}

// run carries a request to its end.
func (p *post) run() {
	defer p.end(nil)
	resp, err := p.send()
	if err != nil {
		p.unanswered(err)
		return
	}
	defer resp.Body.Close()
	p.receive(resp)
}

// send sends the message, again if the server is busy and says for how long, and once
// more for each way in which it wants to know better who we are.
func (p *post) send() (*http.Response, error) {
	var refusals httpguard.Refusals
	for n := 1; ; n++ {
		if p.ctx.Err() != nil {
			return nil, context.Cause(p.ctx)
		}
		if err := p.authorize(); err != nil {
			return nil, err
		}
		resp, err := p.link.transport().RoundTrip(&p.req)
		if err != nil {
			return nil, err
		}
		if p.renewed(resp, &refusals) {
			continue
		}
		wait, busy := p.busy(resp)
		if !busy || n == maxBusy {
			return resp, nil
		}
		p.link.log.Debug("the server is busy", "method", p.method, "status", resp.StatusCode, "pause", wait)
		resp.Body.Close()
		if err := pause.For(p.ctx, wait); err != nil {
			return nil, err
		}
		if !p.body.rewind() {
			return nil, errWithdrawn
		}
	}
}

// authorize prepares the next attempt of a POST.
func (p *post) authorize() error {
	if err := httpguard.Authorize(p.ctx, p.link.auth, &p.req, p.header); err != nil {
		return &call.TransportError{Method: p.method, Unsent: true, Err: fmt.Errorf("authorizing the request: %w", err)}
	}
	return nil
}

// renewed reports whether a POST was refused and is to be sent once more: it was not
// carried out. The answer is closed then.
func (p *post) renewed(resp *http.Response, refusals *httpguard.Refusals) bool {
	var again bool
	if again, p.denied = p.link.renewed(p.ctx, &p.req, resp, refusals); !again {
		return false
	}
	for range 50 { // the transport may not have said yet that all was written
		if p.body.rewind() {
			httpguard.Discard(resp)
			return true
		}
		if pause.For(p.ctx, rewindPause) != nil {
			return false
		}
	}
	return false
}

const rewindPause = 2 * time.Millisecond

// busy reports whether the server has turned a message away and wants it later: then it
// has not looked at it. A negotiation does not wait for that.
func (p *post) busy(resp *http.Response) (time.Duration, bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	wait := retryAfter(resp.Header)
	early := p.method == mcp.MethodInitialize || p.method == mcp.MethodDiscover
	return wait, wait > 0 && wait <= maxRetry && !early && p.body.state.Load() == written
}

// unanswered ends a request that got no response.
func (p *post) unanswered(err error) {
	l := p.link
	err = plain(err)
	switch {
	case p.ctx.Err() != nil: // cancelled: no caller waits
	case isTransport(err):
		l.fail(p, err)
	case p.body.unsent(): // there is no way to the server
		l.fail(p, fmt.Errorf("%w: %w", call.ErrUnsent, err))
		l.lose(err)
	default:
		l.fail(p, err)
	}
}

func isTransport(err error) bool {
	_, ok := errors.AsType[*call.TransportError](err)
	return ok
}

// refuse ends a request that the server, or what stands before it, does not answer as
// it should.
func (p *post) refuse(status int, err error) {
	p.link.fail(p, &call.TransportError{Method: p.method, Status: status, Err: err})
}

// invalid ends a request whose answer cannot be used.
func (p *post) invalid(status int, err error) {
	if tooLong(err) {
		err = p.link.opts.TooLong(true)
	}
	p.refuse(status, &call.ResponseError{Method: p.method, Err: err})
}

// posts are requests, by their ids. Its zero value has none. One at a time, which is all that
// most clients have, needs no map.
type posts struct {
	one  *post
	more map[mcp.ID]*post
}

// of returns the request with an id, nil if there is none.
func (s *posts) of(id mcp.ID) *post {
	if s.one != nil && s.one.id == id {
		return s.one
	}
	return s.more[id]
}

// add takes the place of one with the same id.
func (s *posts) add(p *post) {
	s.remove(p.id)
	if s.one == nil {
		s.one = p
		return
	}
	if s.more == nil {
		s.more = make(map[mcp.ID]*post)
	}
	s.more[p.id] = p
}

func (s *posts) remove(id mcp.ID) {
	if s.one != nil && s.one.id == id {
		s.one = nil
	} else {
		delete(s.more, id)
	}
	if s.one == nil && len(s.more) == 0 {
		s.more = nil
	}
}

// all yields each request. The one that was yielded may be removed.
func (s *posts) all(yield func(*post) bool) {
	if s.one != nil && !yield(s.one) {
		return
	}
	for _, p := range s.more {
		if !yield(p) {
			return
		}
	}
}
