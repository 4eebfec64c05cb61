// Package rest is what the HTTP clients of language models have in common: sending
// without redirects, bodies with an idle timeout, bounded lines and documents, and
// errors of one form.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// MaxDocument bounds one line, one event and one JSON answer.
const MaxDocument = 4 << 20

// What a stream has at the most: of all its bytes, and of those in a row that say
// nothing, such as comments and empty deltas. The longest answers that models
// give, with what their servers write around each token, are below half of it.
const (
	maxStream = 128 << 20
	maxBarren = 2 * MaxDocument
)

// errorBody is how long the body of an error is waited for.
const errorBody = 10 * time.Second

// Limits are the waits of a request; zero means none but the context's.
type Limits struct {
	FirstByte time.Duration // from the request until the first byte of the body
	Idle      time.Duration // for each further line, or document: see [Call.Heard]
	Endless   bool          // a stream may have any number of bytes
}

// errSilent is the cause with which the timer ends a request.
var errSilent = errors.New("silent for too long")

// Call is one request under way and then the body of its answer. It is for one
// goroutine.
type Call struct {
	origin Origin
	limits Limits
	ctx    context.Context // the caller's
	own    context.Context // the request's: ends with ctx, by Close, or by the timer
	cancel context.CancelCauseFunc
	timer  *time.Timer // running only while something is awaited; nil until then
	until  time.Time   // when all reading ends; zero for no such time
	body   io.ReadCloser
	begun  bool          // a byte has been read
	thinks bool          // see Thinks
	left   time.Duration // of the idle time, since something was heard
	barren int           // bytes since then
	total  int
}

// NewCall prepares a request that is to be made with [Call.Context] and sent by
// [Call.Do]. Close must be called.
func NewCall(ctx context.Context, o Origin, limits Limits) *Call {
	c := &Call{origin: o, limits: limits, ctx: ctx, left: limits.Idle}
	c.own, c.cancel = context.WithCancelCause(ctx)
	return c
}

// Context is the context of the request.
func (c *Call) Context() context.Context { return c.own }

// Do sends req and returns the answer if its status is 2xx; every other outcome is an
// error in llm's form. The body reads from c.
func (c *Call) Do(client *http.Client, req *http.Request) (*http.Response, error) {
	if (req.URL.Scheme != "http" && req.URL.Scheme != "https") || req.URL.Host == "" {
		return nil, c.origin.New(llm.ErrInvalidRequest, "the server's address is not an http or https URL")
	}
	// A turn changes nothing at the server. So net/http may send it again where the
	// server has closed a connection that was kept open: llama.cpp does so after 5 s. A
	// key without values is not sent.
	req.Header["Idempotency-Key"] = nil
	c.arm(c.limits.FirstByte)
	resp, err := client.Do(req)
	if err != nil {
		return nil, c.Err(err)
	}
	c.body = resp.Body
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		c.Within(errorBody)
		return nil, c.origin.Status(resp, c, time.Now())
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind { // "" if it is none
	case "text/html", "application/xhtml+xml":
		return nil, c.origin.New(llm.ErrBadResponse, "the answer is of type %s: is this the API's address?", kind)
	}
	resp.Body = c
	return resp, nil
}

// Read reads the body. The idle time only runs in here: a reader that takes its time
// with what it got is no fault of the server. It does not begin anew with each byte, but
// by Heard: one now and then, and never a whole line, is silence too.
func (c *Call) Read(p []byte) (int, error) {
	if c.total > maxStream || c.barren > maxBarren {
		return 0, llm.ErrTooLarge
	}
	since := time.Now()
	switch {
	case c.begun:
		c.arm(c.left)
	case !c.until.IsZero():
		c.arm(c.limits.FirstByte)
	}
	n, err := c.body.Read(p)
	if n > 0 {
		c.disarm()
		if c.begun && c.left > 0 {
			c.left = max(1, c.left-time.Since(since))
		}
		c.begun = true
		if !c.limits.Endless {
			c.total += n
			c.barren += n
		}
	}
	return n, err
}

// Alive says that a whole line has come: the idle time begins anew.
func (c *Call) Alive() { c.left = c.idle() }

// Thinks says whether the model thinks, where its server says so and then nothing for as long as that takes: such a silence is
// bounded as that before the first byte.
func (c *Call) Thinks(now bool) {
	if c.thinks != now {
		c.thinks = now
		c.left = c.idle()
	}
}

func (c *Call) idle() time.Duration {
	if c.thinks {
		return c.limits.FirstByte
	}
	return c.limits.Idle
}

// Heard says that the server has said something that counts: so has what it may say
// without doing so.
func (c *Call) Heard() { c.barren = 0 }

// Within ends all reading after d, whatever comes meanwhile.
func (c *Call) Within(d time.Duration) {
	if d > 0 {
		c.until = time.Now().Add(d)
	}
}

// Drain reads what is left behind the end of a turn, mostly nothing but the end of the
// body, so that the connection can be used again. It takes at most 100 ms and 4 KiB.
func (c *Call) Drain() {
	c.Within(100 * time.Millisecond)
	_, _ = io.CopyN(io.Discard, c, 4<<10) // whatever comes: the turn has completed
}

// Close ends the request if it still runs.
func (c *Call) Close() error {
	c.disarm()
	c.cancel(context.Canceled)
	if c.body == nil {
		return nil
	}
	return c.body.Close()
}

func (c *Call) arm(d time.Duration) {
	if !c.until.IsZero() {
		if left := max(1, time.Until(c.until)); d <= 0 || left < d {
			d = left
		}
	}
	switch {
	case d <= 0:
	case c.timer == nil:
		c.timer = time.AfterFunc(d, func() { c.cancel(errSilent) })
	default:
		c.timer.Reset(d)
	}
}

func (c *Call) disarm() {
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Err turns a failure to send or to read into the error of the turn. The end of the
// caller's context is returned as its cause: it is no fault of the server.
func (c *Call) Err(err error) error {
	var known *llm.Error
	switch {
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case errors.As(err, &known):
		return known
	case context.Cause(c.own) == errSilent:
		if c.begun {
			return c.origin.Retryable(llm.ErrIdle, "nothing came for %v", c.idle())
		}
		return c.origin.Retryable(llm.ErrIdle, "no answer within %v", c.limits.FirstByte)
	case errors.Is(err, llm.ErrTooLarge):
		switch {
		case c.total > maxStream:
			return c.origin.New(llm.ErrTooLarge, "more than %d bytes in all", maxStream)
		case c.barren > maxBarren:
			return c.origin.New(llm.ErrTooLarge, "more than %d bytes that say nothing", maxBarren)
		}
		return c.origin.New(llm.ErrTooLarge, "more than %d bytes in one piece", MaxDocument)
	case c.body != nil:
		e := c.origin.Retryable(llm.ErrStreamCut, "")
		if err != nil && err != io.EOF {
			e.Message = c.origin.clean(err.Error(), maxMessage)
		}
		return e
	}
	return c.origin.unreachable(err)
}

// ReadAll reads a body that is one document. Each part of it must come within the idle
// time, and the whole within ten times that, or within the time for the first byte.
func (c *Call) ReadAll() ([]byte, error) {
	if c.until.IsZero() {
		c.Within(cmp.Or(c.limits.FirstByte, 10*c.limits.Idle))
	}
	data, err := io.ReadAll(io.LimitReader(parts{c}, MaxDocument+1))
	switch {
	case err != nil:
		return nil, c.Err(err)
	case len(data) > MaxDocument:
		return nil, c.Err(llm.ErrTooLarge)
	}
	return bytes.TrimPrefix(data, bom), nil
}

// parts is a body each part of which is a sign of life.
type parts struct{ *Call }

func (p parts) Read(b []byte) (int, error) {
	n, err := p.Call.Read(b)
	if n > 0 {
		p.Alive()
	}
	return n, err
}
