// hooks.go: the actor that has webhooks delivered.
//
//	Tell ──▶ (recorded) ──▶ hook/<id>  waits for a free place, posts, waits, posts again …
//
// The store keeps a webhook until it is delivered or given up: if the worker dies, another one
// delivers it. If the worker dies before it has recorded the webhook, or a queued job is
// cancelled, the job stays untold in the store; the actor looks for such jobs.

package jobapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// Hooks delivers webhooks.
type Hooks struct{ ref actors.Ref }

// StartHooks starts the delivery, with the webhooks that are in the store. It ends with Stop,
// or with the system.
func StartHooks(sys *actors.System, o HooksOptions) (*Hooks, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.post == nil {
		o.post = post
	}
	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindHooks, Name: "hooks", New: func() actors.Actor {
		return &hooks{opts: o, live: make(map[string]actors.Ref)}
	}})
	if err != nil {
		return nil, fmt.Errorf("starting webhooks: %w", err)
	}
	return &Hooks{ref}, nil
}

// Tell sends the state of a job to its URL. It does not wait.
func (h *Hooks) Tell(j store.Job) {
	if j.Hook != "" {
		h.ref.Send(tell{j})
	}
}

// Look searches the store now for ended jobs whose webhook no worker has claimed, as happens
// every minute. It does not wait.
func (h *Hooks) Look() { h.ref.Send(look{}) }

// Flush waits until each webhook was sent at least once, or for ctx.
func (h *Hooks) Flush(ctx context.Context) error {
	_, err := actors.Ask(ctx, h.ref, func(r *actors.Reply[struct{}]) any { return flush{r} })
	if errors.Is(err, actors.ErrStopped) {
		err = nil
	}
	return err
}

// Stop ends the delivery; undelivered webhooks stay in the store.
func (h *Hooks) Stop() { h.ref.Stop() }

// PendingHook is a webhook that is not delivered yet.
type PendingHook struct {
	Attempts int       // that have failed
	Due      time.Time // when the next one is
}

// Pending returns the webhook of a job's end while it waits in the store; ok is false for one that
// was delivered or given up.
func Pending(ctx context.Context, s store.Records, j *store.Job) (p PendingHook, ok bool, err error) {
	r, err := s.Record(ctx, hookKind, hookOwner, hookID(j))
	if errors.Is(err, store.ErrNotFound) {
		return p, false, nil
	}
	var in pending
	if err == nil {
		err = jsonx.Unmarshal(r.Value, &in)
	}
	return PendingHook{in.Attempts, in.Due}, err == nil, err
}

// hookID names the webhook of a job's end.
func hookID(j *store.Job) string { return fmt.Sprintf("%s.%d.%s", j.ID, j.Attempts, j.State) }

// Messages to hooks.
type (
	tell     struct{ job store.Job }
	recorded struct { // a new one is in the store, or could not be put there
		hook *pending
		mine bool // this process delivers it
		err  error
	}
	loaded struct {
		hooks []*pending
		jobs  []store.Job // that are untold
		err   error
	}
	look    struct{}
	deliver struct{ hook *pending } // is in the store
	flush   struct{ reply *actors.Reply[struct{}] }
	request struct{ from actors.Ref } // a hook wants to send
	sent    struct{ from actors.Ref } // and has
)

// hooks is touched by its own goroutine only.
type hooks struct {
	opts    HooksOptions
	started bool
	live    map[string]actors.Ref // by ID
	sending map[actors.Ref]bool
	queue   []actors.Ref // hooks that want to send
	again   *actors.Timer
	loading bool
	met     map[string]bool // IDs told or ended since loading began: its result for them is stale

	recording int                 // webhooks on their way to the store
	first     map[actors.Ref]bool // hooks that have not sent yet
	flushing  []flush
}

// Receive implements [actors.Actor].
func (h *hooks) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		h.sending, h.first = make(map[actors.Ref]bool), make(map[actors.Ref]bool)
		h.again = c.NewTimer(look{})
		h.load(c)
	case look:
		h.load(c)
	case loaded:
		h.loaded(c, m)
	case tell:
		h.tell(c, m.job)
	case deliver:
		h.meet(m.hook.ID)
		h.spawn(c, m.hook)
	case recorded:
		if m.err != nil {
			h.opts.Logger.Warn("a webhook is not in the store yet", "hook", m.hook.ID, "error", m.err)
		}
		h.recording--
		if m.mine {
			h.spawn(c, m.hook)
		}
		h.flushed()
	case flush:
		h.flushing = append(h.flushing, m)
		h.flushed()
	case request:
		h.queue = append(h.queue, m.from)
		h.next()
	case sent:
		delete(h.sending, m.from)
		delete(h.first, m.from)
		h.next()
		h.flushed()
	case actors.ChildStopped:
		h.stopped(m.Ref)
	}
}

// tell records a webhook, and then starts its delivery.
func (h *hooks) tell(c *actors.Context, j store.Job) {
	shown := Show(j)
	shown.Prompt, shown.Input = "", nil
	now := time.Now()
	body, err := jsonx.Marshal(message{Type: "job." + string(j.State), Timestamp: j.Updated, Data: shown})
	if err != nil {
		h.opts.Logger.Error("a webhook cannot be encoded", "job", j.ID, "error", err)
		return
	}
	p := &pending{ID: hookID(&j), URL: j.Hook, Body: body, Due: store.Clock(now), Made: store.Clock(now),
		job: store.JobLease{ID: j.ID, Epoch: j.Epoch}}
	h.recording++
	h.meet(p.ID)
	actors.Await(c, func(ctx context.Context) (bool, error) { return h.record(ctx, p) },
		func(mine bool, err error) any { return recorded{p, mine, err} })
}

// record claims the notification of a job and puts the webhook into the store, both or none,
// and reports whether this process delivers it: another worker may have been faster. A webhook
// that cannot be recorded is delivered all the same, and claimed afterwards.
func (h *hooks) record(ctx context.Context, p *pending) (mine bool, err error) {
	r, err := p.record()
	if err != nil {
		return true, err
	}
	switch err := h.opts.Store.ClaimNotification(ctx, p.job.ID, p.job.Epoch, &r); {
	case err == nil:
		p.job = store.JobLease{}
		return true, nil
	case errors.Is(err, store.ErrFenced):
		return false, nil
	case errors.Is(err, store.ErrNotFound): // the job was removed
		return true, h.opts.Store.PutRecord(ctx, r)
	default:
		return true, err
	}
}

// load looks for webhooks that no process delivers any more, and for untold jobs.
func (h *hooks) load(c *actors.Context) {
	if h.loading {
		return
	}
	h.loading, h.met = true, nil
	live := make(map[string]bool, len(h.live))
	for id := range h.live {
		live[id] = true
	}
	first := !h.started
	wanted := func(p *pending) bool {
		// Another worker may be about to send it: the receiver would get it twice.
		late := time.Since(p.Due)
		return !live[p.ID] && (late >= orphaned || first && late >= 0)
	}
	actors.Await(c, func(ctx context.Context) (loaded, error) {
		found, err := h.left(ctx, maxPending-len(live), wanted)
		jobs, jobsErr := h.opts.Store.Jobs(ctx, store.JobQuery{Untold: true, Limit: maxUntold})
		return loaded{hooks: found, jobs: jobs}, errors.Join(err, jobsErr)
	}, func(m loaded, err error) any { m.err = err; return m })
}

// left reads webhooks of the store, up to n that are wanted.
func (h *hooks) left(ctx context.Context, n int, wanted func(*pending) bool) (found []*pending, err error) {
	q := store.RecordQuery{Kind: hookKind, Owner: hookOwner, Limit: 100}
	for len(found) < n {
		page, err := h.opts.Store.Records(ctx, q)
		if err != nil || len(page) == 0 {
			return found, err
		}
		for _, r := range page {
			p := new(pending)
			if jsonx.Unmarshal(r.Value, p) == nil && p.ID == r.Key && wanted(p) {
				found = append(found, p)
			}
		}
		q.After = page[len(page)-1].Key
	}
	return found, nil
}

func (h *hooks) loaded(c *actors.Context, m loaded) {
	h.loading, h.started = false, true
	if m.err != nil {
		h.opts.Logger.Warn("webhooks cannot be read from the store", "error", m.err)
	}
	for _, p := range m.hooks {
		if !h.met[p.ID] {
			h.spawn(c, p)
		}
	}
	h.met = nil
	for _, j := range m.jobs {
		switch age := time.Since(j.Updated); {
		case age < untold && j.Attempts > 0: // left to its worker, which may live
		case len(h.live)+h.recording >= maxPending:
		case age > hookLife:
			h.forget(c, j)
		default:
			h.tell(c, j)
		}
	}
	wait := lookAgain
	if len(m.jobs) == maxUntold { // there are more
		wait = time.Second
	}
	h.again.Set(wait)
}

// meet notes that this process handles a webhook while the store is read: it may be delivered
// and removed before the result arrives.
func (h *hooks) meet(id string) {
	if !h.loading {
		return
	}
	if h.met == nil {
		h.met = make(map[string]bool)
	}
	h.met[id] = true
}

// forget claims the notification of a job whose end is too old to be delivered.
func (h *hooks) forget(c *actors.Context, j store.Job) {
	h.opts.Logger.Warn("a webhook is not sent: the job ended more than a day ago, and no worker has sent it since", "job", j.ID)
	h.recording++
	actors.Await(c, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.opts.Store.ClaimNotification(ctx, j.ID, j.Epoch, nil)
	},
		func(_ struct{}, err error) any {
			if errors.Is(err, store.ErrFenced) { // by another worker
				err = nil
			}
			return recorded{hook: &pending{ID: j.ID}, err: err}
		})
}

func (h *hooks) spawn(c *actors.Context, p *pending) {
	if _, there := h.live[p.ID]; there {
		return
	}
	if len(h.live) >= maxPending {
		return // it is in the store
	}
	self := c.Self()
	ref, err := c.Spawn(actors.Spec{Kind: actors.KindHook, New: func() actors.Actor { return &hook{opts: &h.opts, to: self, pending: *p} }})
	if err != nil {
		return // the system ends
	}
	h.live[p.ID], h.first[ref] = ref, true
}

// flushed answers the waiting flushes once every hook has sent.
func (h *hooks) flushed() {
	if h.recording > 0 || len(h.first) > 0 {
		return
	}
	for _, f := range h.flushing {
		f.reply.Complete(struct{}{}, nil)
	}
	h.flushing = nil
}

// next permits hooks to send while there are places.
func (h *hooks) next() {
	for len(h.queue) > 0 && len(h.sending) < maxSending {
		ref := h.queue[0]
		h.queue = h.queue[1:]
		h.sending[ref] = true
		ref.Send(send{})
	}
}

func (h *hooks) stopped(ref actors.Ref) {
	delete(h.sending, ref)
	delete(h.first, ref)
	for id, r := range h.live {
		if r == ref {
			delete(h.live, id)
			h.meet(id)
		}
	}
	h.next()
	h.flushed()
}
