package httpguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync/atomic"
	"time"
)

// ErrUnsent is wrapped by an error of [Do] if no byte of the request can have
// reached the server: there was no connection.
var ErrUnsent = errors.New("the request was not sent")

// errHeader ends a request whose answer does not begin.
var errHeader = fmt.Errorf("the server does not answer: %w", os.ErrDeadlineExceeded)

// Do sends a request and waits for the header of its answer, at most for wait: zero
// is without limit but that of the request's context. The body must be closed.
//
// The error is a [*RedirectError], the cause of the context, or that of the network;
// it never holds the URL.
func Do(c *http.Client, req *http.Request, wait time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	if wait > 0 {
		timer := time.AfterFunc(wait, func() { cancel(errHeader) })
		defer timer.Stop()
	}
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	resp, err := c.Do(req.WithContext(traced))
	if err != nil {
		cause := context.Cause(ctx)
		cancel(nil)
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		if cause != nil {
			err = cause
		}
		if !connected.Load() {
			err = &unsentError{err}
		}
		return nil, err
	}
	resp.Body = &cancelBody{resp.Body, ctx, cancel}
	return resp, nil
}

// cancelBody ends the context of a request with its answer.
type cancelBody struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
}

func (b *cancelBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx) // says more than "context canceled"
	}
	return n, err
}

func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// unsentError is an error before anything was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string        { return e.err.Error() }
func (e *unsentError) Unwrap() error        { return e.err }
func (e *unsentError) Is(target error) bool { return target == ErrUnsent }
