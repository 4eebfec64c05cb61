package streamable

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// endpoint is where requests go: it proves who sends them, and reads what refuses them.
type endpoint struct {
	opts *Server // of all links to it: not to be changed
	log  *slog.Logger
	auth httpguard.Auth
}

// transport is that of the client: a POST follows no redirect.
func (e *endpoint) transport() http.RoundTripper {
	if rt := e.opts.Client.Transport; rt != nil {
		return rt
	}
	return http.DefaultTransport
}

// authorized sends a request without a body, again if it was refused and there is something
// else to prove who we are with.
func (e *endpoint) authorized(ctx context.Context, method string, header http.Header, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	var refusals httpguard.Refusals
	for {
		req := (&http.Request{
			Method: method, URL: e.opts.URL, Host: e.opts.URL.Host, Header: header,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}).WithContext(ctx)
		if err := httpguard.Authorize(ctx, e.auth, req, header); err != nil {
			return nil, fmt.Errorf("authorizing the request: %w", err)
		}
		resp, err := send(req)
		if err != nil {
			return nil, err
		}
		if again, _ := e.renewed(ctx, req, resp, &refusals); !again {
			return resp, nil
		}
		httpguard.Discard(resp)
	}
}

// renewed reports whether a refused request is to be sent once more; the error says why not.
func (e *endpoint) renewed(ctx context.Context, req *http.Request, resp *http.Response, refusals *httpguard.Refusals) (bool, error) {
	again, err := refusals.Again(ctx, e.auth, req, resp)
	if err != nil {
		e.log.Debug("the server refuses a request, and there is nothing new to prove who sends it", "status", resp.StatusCode, "error", err)
	}
	return again && err == nil, err
}

// denied makes the error of a refusal, in which the session id is not shown. Why is what there
// is to say of it beside the status, or nil.
func (e *endpoint) denied(resp *http.Response, session string, status *StatusError, why error) error {
	err := error(status)
	if why != nil {
		err = fmt.Errorf("%w: %w", status, why)
	}
	challenges := httpguard.Challenges(resp.Header)
	return e.opts.Denied(resp.StatusCode, challenges, e.clean(resp, session, strings.Join(challenges, ", ")), err)
}

// page reads what comes with a status. It returns a JSON-RPC response, scanned; of
// everything else status gets the beginning.
func (e *endpoint) page(resp *http.Response, session string, status *StatusError, answer *mcp.Message) []byte {
	if resp.StatusCode/100 == 3 {
		status.Err = httpguard.Refused(e.opts.URL, resp) // SECA-22
		return nil
	}
	json := mediaType(resp.Header) == typeJSON
	body := io.LimitReader(httpguard.Body(resp, -1), shownOfPage) // the beginning, however long it says that it is
	if json {
		body = httpguard.Body(resp, int64(e.opts.MaxMessage))
	}
	text, err := readAll(body, nil, -1)
	if json && err == nil && mcp.Scan(text, answer) == nil && (answer.Kind == mcp.KindError || answer.Kind == mcp.KindResult) {
		if answer.Kind == mcp.KindError {
			status.Err = answer.Error
		}
		return text
	}
	*answer = mcp.Message{}
	status.Text = e.clean(resp, session, string(text[:min(len(text), shownOfPage)]))
	return nil
}

// clean makes a text of the server fit to be shown, without our secrets if it repeats
// them (SECA-27). Resp is the answer that it comes from.
func (e *endpoint) clean(resp *http.Response, session, text string) string {
	secrets := e.opts.Header
	if resp.Request != nil {
		secrets = httpguard.Secrets(resp.Request.Header)
	}
	return httpguard.Redact(text, shownOfPage, secrets, e.opts.URL, session)
}
