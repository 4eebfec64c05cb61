package streamable

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// authorized sends a request without a body, once more if it was refused and there is
// something else to prove who we are with.
func (l *Link) authorized(ctx context.Context, method string, header http.Header, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	for first := true; ; first = false {
		req := (&http.Request{
			Method: method, URL: l.opts.URL, Host: l.opts.URL.Host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(ctx)
		if err := httpguard.Authorize(ctx, l.opts.Auth, req, header); err != nil {
			return nil, fmt.Errorf("authorizing the request: %w", err)
		}
		resp, err := send(req)
		if err != nil || !first || !l.renewed(ctx, req, resp) {
			return resp, err
		}
		httpguard.Discard(resp)
	}
}

// renewed reports whether a refused request is to be sent once more.
func (l *Link) renewed(ctx context.Context, req *http.Request, resp *http.Response) bool {
	again, err := httpguard.Renewed(ctx, l.opts.Auth, req, resp)
	if err != nil {
		l.opts.Log.Warn("the server refuses a request, and there is nothing new to prove who we are with", "status", resp.StatusCode, "error", err)
	}
	return again && err == nil
}

// authorize prepares the next attempt of a POST.
func (p *post) authorize() error {
	if err := httpguard.Authorize(p.ctx, p.link.opts.Auth, &p.req, p.header); err != nil {
		return &call.TransportError{Method: p.method, Err: fmt.Errorf("authorizing the request: %w", err)}
	}
	return nil
}

// renewed reports whether a POST was refused and is to be sent once more: it was not
// carried out. The answer is closed then.
func (p *post) renewed(resp *http.Response) bool {
	if !p.link.renewed(p.ctx, &p.req, resp) {
		return false
	}
	for range 50 { // the transport may not have said yet that all was written
		if p.body.rewind() {
			httpguard.Discard(resp)
			return true
		}
		if sleep(p.ctx, rewindPause) != nil {
			return false
		}
	}
	return false
}

const rewindPause = 2 * time.Millisecond
