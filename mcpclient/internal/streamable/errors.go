package streamable

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

var (
	// ErrSession says that the server has ended the session (SHL-52).
	ErrSession = errors.New("the server has ended the session")

	// ErrEra says that the server is not of the era that it was of (ERA-01).
	ErrEra = errors.New("the server speaks another protocol than before")

	errClosed    = errors.New("the link is closed")
	errCancel    = errors.New("the request was cancelled")
	errNoAnswer  = errors.New("the stream ended without an answer")
	errForeign   = errors.New("the answer is another request's")
	errBarren    = errors.New("the stream cannot be resumed")
	errWithdrawn = errors.New("the message was withdrawn")
)

// StatusError is an HTTP status that is no success.
type StatusError struct {
	Status int
	// Err is the JSON-RPC error that came with it, a [*mcp.Error]; of a redirect a
	// [*httpguard.RedirectError]; else nil.
	Err error
	// Text is the beginning of any other body, fit to be shown.
	Text string
	// RetryAfter is how long the server wants to be left alone; 0 if it did not say.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	text := http.StatusText(e.Status)
	if text == "" {
		text = fmt.Sprintf("HTTP status %d", e.Status)
	}
	switch {
	case e.Err != nil:
		text += ": " + e.Err.Error()
	case e.Text != "":
		text += fmt.Sprintf(": %q", e.Text)
	}
	return text
}

// Unwrap returns Err.
func (e *StatusError) Unwrap() error { return e.Err }

// plain takes the URL out of an error of net/http: its query may hold a secret.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
