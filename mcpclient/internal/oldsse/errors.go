package oldsse

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

var (
	// ErrEndpoint says that the stream does not name a place for messages, or one that
	// must not be used (SSE-02, SSE-04).
	ErrEndpoint = errors.New("the server names no usable message endpoint")
	// ErrNoStream says that the address does not answer with an event stream.
	ErrNoStream = errors.New("the address does not answer with an event stream")
	// ErrSession says that the server does not know the session any more (SSE-07).
	ErrSession = errors.New("the server has ended the session")

	errClosed = errors.New("the link is closed")
	errLate   = fmt.Errorf("%w in time", ErrEndpoint)
	errSlow   = errors.New("the server does not answer the POST")
)

// refused makes the error of a status that is no success. Denied is why a refusal was not made
// good, or nil. It closes the body.
func (o *Options) refused(resp *http.Response, denied error, secrets ...string) error {
	limit := time.AfterFunc(pageTime, func() { resp.Body.Close() })
	defer limit.Stop()
	defer resp.Body.Close()
	page, _ := io.ReadAll(io.LimitReader(httpguard.Body(resp, -1), shownOfPage)) // what there is of it
	clean := func(text string) string {
		header := o.Header
		if resp.Request != nil {
			header = httpguard.Secrets(resp.Request.Header)
		}
		return httpguard.Redact(text, shownOfPage, header, o.URL, secrets...)
	}
	err := error(&streamable.StatusError{Status: resp.StatusCode, Text: clean(string(page))})
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		if denied != nil {
			err = fmt.Errorf("%w: %w", err, denied)
		}
		challenges := httpguard.Challenges(resp.Header)
		err = o.Denied(resp.StatusCode, challenges, clean(strings.Join(challenges, ", ")), err)
	}
	return err
}

// isStream reports whether an answer is an event stream.
func isStream(h http.Header) bool {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}
