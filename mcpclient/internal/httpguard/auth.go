package httpguard

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
)

// Auth says on each request who we are. Its methods may be called from any goroutine;
// they may wait, but not longer than ctx.
type Auth interface {
	// Authorize sets the headers of a request that prove who we are. Others than those
	// of the transport may be set; what is set of these does not count.
	Authorize(ctx context.Context, req *http.Request) error
	// Denied is told that the server has refused a request, which Authorize had
	// prepared, with 401 or 403; it was not carried out. Header is that of the answer. Again
	// says that Authorize has something else now: the request is sent once more. The error
	// says why it has not.
	Denied(ctx context.Context, req *http.Request, status int, header http.Header) (again bool, err error)
}

type unattended struct{}

// Unattended marks the context of a request which no call waits for: a refusal of it is no
// reason to ask a person.
func Unattended(ctx context.Context) context.Context {
	return context.WithValue(ctx, unattended{}, true)
}

// IsUnattended reports a context of [Unattended].
func IsUnattended(ctx context.Context) bool { return ctx.Value(unattended{}) != nil }

// Bounds on what is kept of WWW-Authenticate.
const (
	maxChallenges     = 16
	maxChallengesSize = 8 << 10 // bytes, together
)

// Challenges returns the values of WWW-Authenticate as they came: those that are within
// the bounds, none of them cut.
func Challenges(h http.Header) []string {
	var kept []string
	left := maxChallengesSize
	for _, value := range h.Values("Www-Authenticate") {
		if left -= len(value); left < 0 || len(kept) == maxChallenges {
			break
		}
		kept = append(kept, value)
	}
	return kept
}

// Authorize prepares a request; auth may be nil. The headers that the request had before
// are base, which is not changed.
func Authorize(ctx context.Context, auth Auth, req *http.Request, base http.Header) error {
	if auth == nil {
		return nil
	}
	req.Header = maps.Clone(base)
	if err := auth.Authorize(ctx, req); err != nil {
		return err
	}
	for name := range req.Header {
		if !transports(name) {
			continue
		}
		if _, had := base[name]; !had {
			delete(req.Header, name)
		}
	}
	for name, values := range base {
		if transports(name) {
			req.Header[name] = values
		}
	}
	return nil
}

// Renewed reports whether a request is to be sent once more, because it was refused and
// auth, which may be nil, has something else now. The answer is not read.
func Renewed(ctx context.Context, auth Auth, req *http.Request, resp *http.Response) (bool, error) {
	if auth == nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return false, nil
	}
	return auth.Denied(ctx, req, resp.StatusCode, resp.Header)
}

// Refusals decides whether a refused request may be sent again: at most three times, and not if
// something new to prove who we are was refused in the same way as what it has replaced. A
// further proof for the same token, such as one with the nonce that the server wants, is
// nothing new.
type Refusals struct {
	n, status int
	token     string
}

// maxAgain is for a nonce, a token that has expired, and then for want of a scope.
const maxAgain = 3

// Again is [Renewed] for one attempt of a request.
func (r *Refusals) Again(ctx context.Context, auth Auth, req *http.Request, resp *http.Response) (bool, error) {
	token := req.Header.Get("Authorization")
	if r.n == maxAgain || resp.StatusCode == r.status && token != r.token {
		return false, nil
	}
	r.n, r.status, r.token = r.n+1, resp.StatusCode, token
	return Renewed(ctx, auth, req, resp)
}

// Discard reads what little there may be of an answer that is of no use, so that its
// connection can be used again, and closes it.
func Discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

// transports reports whether a header is the transport's own.
func transports(name string) bool {
	return ours[name] || strings.HasPrefix(name, "Mcp-Param-")
}

// Secrets returns those headers of a request that are not the transport's own.
func Secrets(h http.Header) http.Header {
	out := make(http.Header)
	for name, values := range h {
		if !transports(name) {
			out[name] = values
		}
	}
	return out
}
