package oldsse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/troupe-dev/troupe/internal/sse"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// Dial opens the stream and waits for its endpoint. The link lives on when ctx ends.
func Dial(ctx context.Context, opts Options) (*Link, error) {
	l := &Link{opts: opts.withDefaults(), owner: "SSE of " + opts.Name, closed: make(chan struct{})}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	limit := time.AfterFunc(l.opts.Endpoint, func() { l.end(errLate) })
	err := l.open()
	inTime, wanted := limit.Stop(), stop()
	if err == nil && !(inTime && wanted) {
		l.stream.Close()
		err = cmp.Or(context.Cause(ctx), errLate)
	}
	if err != nil {
		l.end(errClosed)
		return nil, err
	}
	l.tasks++
	l.opts.Go(l.owner, l.read)
	return l, nil
}

// open sends the GET and reads the first event (SSE-02).
func (l *Link) open() error {
	resp, denied, err := l.authorized(httpguard.Lasting(l.ctx), func() *http.Request {
		return &http.Request{
			Method: http.MethodGet, URL: l.opts.URL, Host: l.opts.URL.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: l.opts.headers("Accept", "text/event-stream", "Accept-Encoding", "identity", "Cache-Control", "no-cache"),
		}
	})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: %w", ErrNoStream, l.opts.refused(resp, denied))
	}
	if !isStream(resp.Header) {
		resp.Body.Close()
		return fmt.Errorf("%w: its type is %.100q", ErrNoStream, resp.Header.Get("Content-Type"))
	}
	body := httpguard.Body(resp, -1)
	l.stream, l.events = body, sse.NewReader(body, l.opts.MaxMessage)
	l.events.SkipLong()
	at := l.opts.URL
	if resp.Request != nil && resp.Request.URL != nil {
		at = resp.Request.URL // of the same origin
	}
	if l.endpoint, err = l.first(at); err != nil {
		l.stream.Close()
	}
	return err
}

// first waits for the endpoint. Events without data, and those of unknown types, may
// come before it; a message may not.
func (l *Link) first(stream *url.URL) (*url.URL, error) {
	for range maxEarlyEvents {
		e, err := l.events.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, fmt.Errorf("%w: the stream ended", ErrEndpoint)
		case err != nil:
			return nil, err
		case e.Type == "endpoint":
			return endpoint(stream, string(e.Data))
		case e.Type == sse.DefaultType && len(e.Data) > 0:
			return nil, fmt.Errorf("%w: the stream begins with something else", ErrEndpoint)
		}
	}
	return nil, fmt.Errorf("%w: it is not among the first %d events", ErrEndpoint, maxEarlyEvents)
}
