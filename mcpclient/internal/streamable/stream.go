package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// cursor is where an event stream can be taken up again.
type cursor struct {
	last  string        // event id; "" if there is none (SHL-40)
	retry time.Duration // the pause before (SHL-22)
	floor time.Duration // the shortest pause, whatever the server says
}

// events reads one event stream to its end or to a pause, or until take has had enough. It
// returns how many events and messages there were. An event that is too long ends it, unless
// skipped is there to be told of it.
func (c *cursor) events(in *sse.Reader, skipped func(*sse.TooLongError), take func(frame []byte) (enough bool)) (events, frames int, err error) {
	defer func() {
		if d, ok := in.Retry(); ok {
			c.retry = min(d, maxRetry)
		}
	}()
	for {
		e, err := in.Next()
		if long, ok := errors.AsType[*sse.TooLongError](err); ok && skipped != nil {
			skipped(long)
			e = sse.Event{ID: long.ID, HasID: long.HasID}
		} else if err != nil {
			return events, frames, err
		}
		events++
		if e.HasID {
			if c.last = e.ID; !httpguard.ValidValue(c.last) { // no header can carry it
				c.last = ""
			}
		}
		if len(e.Data) == 0 || e.Type != sse.DefaultType { // WIRE-11
			continue
		}
		frames++
		if take(e.Data) {
			return events, frames, nil
		}
	}
}

// stream reads an answer that is an event stream, over as many connections as it takes
// (SHL-13, SHL-41, SHM-07).
func (p *post) stream(resp *http.Response) {
	c := cursor{retry: defaultRetry}
	barren, quiet := 0, 0 // resumptions in a row without an event, without a message
	for n := 0; ; n++ {
		events, frames, err := c.events(sse.NewReader(httpguard.Body(resp, -1), p.link.opts.MaxMessage), nil, func(frame []byte) bool {
			p.take(frame)
			return p.answered
		})
		if p.answered {
			tail(resp.Body)
			return
		}
		resp.Body.Close()
		if unusable(err) {
			p.invalid(resp.StatusCode, err)
			return
		}
		if events > 0 {
			barren = 0
		}
		if frames > 0 {
			quiet = 0
		}
		if n == 1 {
			c.floor = minBackoff // a server may want to be asked again at once, but not for ever
		}
		if resp = p.resume(&c, &barren, quiet, err); resp == nil {
			return
		}
		quiet++
	}
}

// tail waits a little for the end of a stream whose answer is there, so that its
// connection can be used again, and closes it.
func tail(body io.ReadCloser) {
	limit := time.AfterFunc(tailTime, func() { body.Close() })
	discard(body)
	limit.Stop()
	body.Close()
}

// resume goes on with a stream that has ended because of err, or ends the request and
// returns nil. The request itself is never sent again (SHL-43).
func (p *post) resume(c *cursor, barren *int, quiet int, err error) *http.Response {
	l := p.link
	if err == io.EOF {
		err = errNoAnswer
	}
	if c.last == "" || l.speaks().Era() == mcp.EraModern { // SHM-08
		p.lost(err)
		return nil
	}
	for ; *barren < maxBarren; *barren++ {
		if pause.For(p.ctx, max(c.retry, c.floor, backoff(quiet+*barren-1))) != nil {
			return nil // no caller waits
		}
		resp, failed := l.get(p.ctx, c.last)
		if failed != nil {
			err = failed
			continue
		}
		switch {
		case resp.StatusCode == http.StatusOK && mediaType(resp.Header) == typeStream:
			*barren++ // until it brings something
			return resp
		case resp.StatusCode/100 == 5, resp.StatusCode == http.StatusTooManyRequests:
			err = &StatusError{Status: resp.StatusCode}
			resp.Body.Close()
			continue
		}
		p.unresumed(resp)
		return nil
	}
	p.lost(fmt.Errorf("%w: %w", errBarren, err))
	return nil
}

// lost ends a request whose outcome will not be known.
func (p *post) lost(err error) {
	if p.ctx.Err() == nil {
		p.link.fail(p, plain(err))
	}
}

// unresumed ends a request whose stream the server does not take up again (SHL-42).
func (p *post) unresumed(resp *http.Response) {
	tail(resp.Body)
	status := &StatusError{Status: resp.StatusCode}
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		p.refuse(resp.StatusCode, p.link.denied(resp, p.link.SessionID(), status, nil))
	case resp.StatusCode == http.StatusNotFound && p.inside != "": // SHL-52
		p.lost(ErrSession)
		p.link.sessionLost()
	default:
		p.lost(fmt.Errorf("%w: %w", errBarren, status))
	}
}

// backoff is a pause before the attempt after n that were in vain; none before the first.
func backoff(n int) time.Duration {
	if n < 0 {
		return 0
	}
	d := min(minBackoff<<min(n, 20), maxRetry)
	return d + rand.N(d/4+1)
}

// get asks for the events after last (SHL-20, SHL-41).
func (l *Link) get(ctx context.Context, last string) (*http.Response, error) {
	l.mu.Lock()
	header := l.header().stream(last)
	l.mu.Unlock()
	return l.authorized(ctx, http.MethodGet, header, func(req *http.Request) (*http.Response, error) {
		return httpguard.Do(l.opts.Client, req, 0)
	})
}
