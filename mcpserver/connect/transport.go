package connect

import (
	"cmp"
	"io"
	"net/http"
)

// transport carries the requests of a handler for one account.
type transport struct {
	c     *Connector
	owner owner
	p     *provider
}

// RoundTrip implements [http.RoundTripper]. It reads the account each time: one that was revoked
// is used no more, and a token that was renewed elsewhere is.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := t.c.opts.Transport
	if !t.p.gets(req.URL) { // a redirect to a store of files, say
		return next.RoundTrip(req)
	}
	a, err := t.c.token(req.Context(), t.owner, t.p, "")
	if err != nil {
		closeBody(req)
		return nil, err
	}
	resp, err := next.RoundTrip(t.with(req, a.Access))
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	// One refresh. What cannot be sent again is the handler's to repeat.
	fresh, err := t.c.token(req.Context(), t.owner, t.p, a.Access)
	if err != nil {
		drop(resp)
		return nil, err
	}
	again := t.with(req, fresh.Access)
	switch {
	case req.Body == nil:
	case req.GetBody == nil:
		return resp, nil
	default:
		if again.Body, err = req.GetBody(); err != nil {
			return resp, nil
		}
	}
	drop(resp)
	resp, err = next.RoundTrip(again)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	drop(resp)
	now, version, err := t.c.account(req.Context(), t.owner, t.p)
	if err != nil || now == nil || now.Access != fresh.Access { // it was revoked or connected anew
		return nil, cmp.Or(err, disconnected(t.p))
	}
	return nil, t.c.kill(req.Context(), t.owner, t.p, version, now)
}

// with returns the request with a token.
func (t *transport) with(req *http.Request, token string) *http.Request {
	r := req.Clone(req.Context())
	t.p.set(r.Header, token)
	return r
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// drop reads the rest of a short answer, so that its connection can be used again.
func drop(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}
