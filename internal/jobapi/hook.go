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
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
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
	opts *HooksOptions
	to   actors.Ref
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
			k.opts.Logger.Warn("a webhook that has ended is still in the store", "hook", k.ID, "error", m.err)
		}
		c.Stop()
	}
}

// send posts it.
func (k *hook) send(c *actors.Context) {
	p, o := k.pending, k.opts
	actors.Await(c, func(ctx context.Context) (time.Duration, error) { return o.post(ctx, o, &p, time.Now()) },
		func(wait time.Duration, err error) any { return answered{wait, err} })
}

var errRedirect = errors.New("it redirects, which is not followed")

// errGone is the error of a receiver that wants no more.
var errGone = errors.New("the receiver wants no more of it (410)")

// answered ends the webhook, or schedules the next attempt.
func (k *hook) answered(c *actors.Context, m answered) {
	log := k.opts.Logger.With("hook", k.ID, "attempt", k.Attempts+1)
	k.Attempts++
	switch {
	case m.err == nil:
		log.Info("a webhook was delivered")
		k.end(c, "delivered")
	case errors.Is(m.err, netguard.ErrRefused):
		log.Warn("a webhook is not sent", "error", m.err)
		k.end(c, "refused")
	case errors.Is(m.err, errGone), k.Attempts >= hookAttempts:
		log.Warn("a webhook was given up", "error", m.err)
		k.end(c, "failed")
	default:
		wait := max(waits[k.Attempts-1], min(m.wait, maxRetry))
		k.Due = time.Now().Add(wait)
		log.Warn("a webhook was not taken", "error", m.err, "again", wait)
		p, o := k.pending, k.opts
		c.Go(func(ctx context.Context) {
			if err := o.put(ctx, &p); err != nil {
				log.Warn("the attempt of a webhook is not in the store", "error", err)
			}
		})
		k.clock.SetAt(k.Due)
	}
}

// end removes the record, and then the actor stops.
func (k *hook) end(c *actors.Context, result string) {
	if k.opts.OnEnd != nil {
		k.opts.OnEnd(result)
	}
	o, p := k.opts, k.pending
	actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, o.drop(ctx, &p) },
		func(_ struct{}, err error) any { return dropped{err} })
}

// post sends a webhook once. An error says that it is not delivered.
func post(ctx context.Context, o *HooksOptions, p *pending, now time.Time) (wait time.Duration, err error) {
	if err := o.Guard.Check(p.URL); err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", netguard.ErrRefused, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "troupe-webhook/1")
	req.Header.Set(HeaderID, p.ID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	req.Header.Set(HeaderSignature, o.Secret.sign(p.ID, now, p.Body))
	resp, err := o.Guard.Client(&netguard.ClientOptions{Timeout: sendTime, MaxBody: maxReply}).Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // the receiver can finish its answer
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

// HookStore is the part of a store that webhooks need.
type HookStore interface {
	store.Records
	store.Jobs
}

// HooksOptions changes how webhooks are delivered. Store, Guard and Secret are required.
type HooksOptions struct {
	Store  HookStore
	Guard  *netguard.Guard
	Secret Secret
	// OnEnd receives the end of each webhook: "delivered", "failed" or "refused". It must
	// not block. Nil does nothing.
	OnEnd func(result string)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger

	post func(ctx context.Context, o *HooksOptions, p *pending, now time.Time) (wait time.Duration, err error) // of tests
}

// message is the body of a webhook.
type message struct {
	Type      string    `json:"type"` // such as "job.done"
	Timestamp time.Time `json:"timestamp"`
	Data      Job       `json:"data"` // without prompt and input
}

// pending is a webhook in the store.
type pending struct {
	ID       string      `json:"id"`
	URL      string      `json:"url"`
	Body     jsonx.Value `json:"body"`
	Attempts int         `json:"attempts"` // that have failed
	Due      time.Time   `json:"due"`
	Made     time.Time   `json:"made"`

	job store.JobLease // the job whose notification is not claimed yet; none of one that was loaded
}

// record is p as the store keeps it.
func (p *pending) record() (store.Record, error) {
	value, err := jsonx.Marshal(p)
	return store.Record{Kind: hookKind, Owner: hookOwner, Key: p.ID, Value: value, Expires: p.Made.Add(hookLife)}, err
}

// Bounds of webhooks.
const (
	hookAttempts = 9                // over about eight hours, see waits
	hookLife     = 24 * time.Hour   // after which a record is forgotten
	sendTime     = 15 * time.Second // of one attempt
	maxSending   = 8                // at once
	maxPending   = 1000             // in one process; more wait in the store
	lookAgain    = time.Minute      // for what is left in the store
	orphaned     = 5 * time.Minute  // after its time a webhook of another worker is taken over
	untold       = 10 * time.Second // after its end a job of another worker is taken over
	maxUntold    = 100              // of them in one look
	maxReply     = 64 << 10         // bytes of an answer that are read
	maxRetry     = time.Hour        // that a receiver may ask for
)

// waits are the delays between attempts.
var waits = [hookAttempts - 1]time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour,
}

// send permits a hook to send.
type send struct{}

// hookKind and hookOwner are the keys of webhooks in the store.
const (
	hookKind  = "webhook"
	hookOwner = "webhooks"
)

// put records the state of a webhook.
func (o *HooksOptions) put(ctx context.Context, p *pending) error {
	r, err := p.record()
	if err != nil {
		return err
	}
	return o.Store.PutRecord(ctx, r)
}

// drop forgets a webhook that has ended.
func (o *HooksOptions) drop(ctx context.Context, p *pending) error {
	var told error
	if p.job.ID != "" {
		told = o.Store.ClaimNotification(ctx, p.job.ID, p.job.Epoch, nil)
		if errors.Is(told, store.ErrFenced) || errors.Is(told, store.ErrNotFound) {
			told = nil
		}
	}
	err := o.Store.DeleteRecord(ctx, hookKind, hookOwner, p.ID)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return errors.Join(told, err)
}
