// hook.go: the actor that delivers one webhook.
//
//	waiting ──due──▶ queued ──send──▶ sending ──2xx, or given up──▶ (stops)
//	   ▲                                 │
//	   └───────────── failed ────────────┘

package jobapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/actors"
)

// Messages to itself.
type (
	due      struct{}
	answered struct {
		wait time.Duration // that the receiver asks for
		err  error
	}
	dropped struct{ err error }
)

// hook is touched by its own goroutine only.
type hook struct {
	of *hooks // its options only
	to actors.Ref
	pending
	clock *actors.Timer
}

// Receive implements [actors.Actor].
func (k *hook) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		k.clock = c.NewTimer(due{})
		k.clock.SetAt(k.Due)
	case due:
		k.to.Send(request{c.Self()})
	case send:
		k.send(c)
	case answered:
		k.to.Send(sent{c.Self()})
		k.answered(c, m)
	case dropped:
		if m.err != nil {
			k.of.opts.Logger.Warn("a webhook that has ended is still in the store", "hook", k.ID, "error", m.err)
		}
		c.Stop()
	}
}

// send posts it.
func (k *hook) send(c *actors.Context) {
	p, o := k.pending, k.of.opts
	actors.Await(c, func(ctx context.Context) (time.Duration, error) { return o.post(ctx, &o, &p, time.Now()) },
		func(wait time.Duration, err error) any { return answered{wait, err} })
}

// errGone is the error of a receiver that wants no more.
var errGone = errors.New("the receiver wants no more of it (410)")

// answered ends the webhook, or schedules the next attempt.
func (k *hook) answered(c *actors.Context, m answered) {
	log := k.of.opts.Logger.With("hook", k.ID, "attempt", k.Attempts+1)
	k.Attempts++
	switch {
	case m.err == nil:
		log.Info("a webhook was delivered")
		k.end(c, "delivered")
	case errors.Is(m.err, ErrHookRefused):
		log.Warn("a webhook is not sent", "error", m.err)
		k.end(c, "refused")
	case errors.Is(m.err, errGone), k.Attempts >= hookAttempts:
		log.Warn("a webhook was given up", "error", m.err)
		k.end(c, "failed")
	default:
		wait := max(waits[k.Attempts-1], min(m.wait, maxRetry))
		k.Due = time.Now().Add(wait)
		log.Warn("a webhook was not taken", "error", m.err, "again", wait)
		p, h := k.pending, k.of
		c.Go(func(ctx context.Context) {
			if err := h.put(ctx, &p); err != nil {
				log.Warn("the attempt of a webhook is not in the store", "error", err)
			}
		})
		k.clock.SetAt(k.Due)
	}
}

// end removes the record, and then the actor stops.
func (k *hook) end(c *actors.Context, result string) {
	if k.of.opts.OnEnd != nil {
		k.of.opts.OnEnd(result)
	}
	h, p := k.of, k.pending
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, h.drop(ctx, &p) },
		func(_ struct{}, err error) any { return dropped{err} })
}

// post sends a webhook once. An error says that it is not delivered.
func post(ctx context.Context, o *HooksOptions, p *pending, now time.Time) (wait time.Duration, err error) {
	u, err := o.Guard.parse(p.URL)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(p.Body))
	if err != nil {
		return 0, refuse("%v", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "troupe-webhook/1")
	req.Header.Set(HeaderID, p.ID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderSignature, o.Secret.sign(p.ID, now, p.Body))
	resp, err := o.Guard.client(u).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply)) // the receiver can finish its answer
	switch {
	case resp.StatusCode/100 == 2:
		return 0, nil
	case resp.StatusCode/100 == 3:
		return 0, errRedirect
	case resp.StatusCode == http.StatusGone:
		return 0, errGone
	}
	return retryAfter(resp.Header.Get("Retry-After")), fmt.Errorf("the receiver answered %d", resp.StatusCode)
}

// retryAfter reads the seconds that a receiver asks for; it ignores dates.
func retryAfter(text string) time.Duration {
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 0 || seconds > int(maxRetry/time.Second) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
