// notices.go: the actor that has people notified when a question begins to wait.
//
//	look ──▶ new questions? ──lease──▶ recorded ──▶ marked ──▶ told: each once, by a webhook and a command
//
// Of all processes that share a store, one at a time has the lease. It puts the webhooks into the store,
// moves the mark past their questions, and has them delivered as those of jobs are: what the process
// leaves is delivered by another one.

package jobapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/process"
	"github.com/troupe-dev/troupe/internal/question"
	"github.com/troupe-dev/troupe/store"
)

// NoticesOptions says how people are notified of questions. Store is required.
type NoticesOptions struct {
	Store NoticeStore
	// Hooks delivers the webhooks, to URL. Nil sends none.
	Hooks *Hooks
	URL   string
	// Command is a program with its arguments: it gets the JSON of the webhook on stdin. Nil runs none.
	Command []string
	// Details has what is asked in it, too: the message, the tool and the arguments.
	Details bool
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger

	run func(ctx context.Context, argv []string, stdin []byte) error // of tests
}

// NoticeStore is the part of a store that notices need.
type NoticeStore interface {
	store.Asks
	store.Journal
	store.Records
	store.Vault
}

// Notices watches for questions that begin to wait.
type Notices struct{ ref actors.Ref }

// StartNotices starts the watch. Questions that wait already when the store is first watched are not
// told of. It ends with Stop, or with the system.
func StartNotices(sys *actors.System, o NoticesOptions) (*Notices, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.run == nil {
		o.run = runCommand
	}
	owner := "notices-" + rand.Text()
	ref, err := sys.Spawn(actors.Spec{Kind: actors.KindHooks, Name: "notices", New: func() actors.Actor {
		return &notices{opts: o, owner: owner}
	}})
	if err != nil {
		return nil, fmt.Errorf("starting notices: %w", err)
	}
	return &Notices{ref}, nil
}

// Stop ends the watch.
func (n *Notices) Stop() { n.ref.Stop() }

// Bounds of notices.
const (
	noticeEvery   = time.Second      // a look at the store
	noticeAge     = 3 * time.Second  // of a question before it is told of: a person may answer at once, and a write of another process may be late
	noticeLease   = time.Minute      // of the process that tells
	noticeTime    = 45 * time.Second // within it, for recording
	maxNotices    = 50               // of one look
	noticePage    = 200              // questions that are read at once
	maxNoticePage = 500              // such pages that are looked through
	commandTime   = 10 * time.Second
)

// noticeKind and noticeKey are of the mark, which is no secret: it is in the vault because that has
// leases, and writes of one version only.
const (
	noticeKind = "notice-mark"
	noticeKey  = "asks"
)

// mark is the last question that was told of.
type mark struct {
	Created time.Time `json:"created"`
	ID      string    `json:"id"`
}

// notice is the body of a webhook of a question, and the input of a command.
type notice struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      Asked     `json:"data"`
}

// Asked is a question in a notice. Message, Tool and Arguments are there with details only.
type Asked struct {
	Ask       string      `json:"ask"`
	Kind      string      `json:"kind"`
	Server    string      `json:"server,omitempty"` // that asks, as the configuration names it; empty for the run
	Path      []string    `json:"path,omitempty"`   // agents from the root to the one that waits
	Run       string      `json:"run,omitempty"`
	Agent     string      `json:"agent,omitempty"`
	Title     string      `json:"title,omitempty"` // of the run: how its prompt begins
	Job       string      `json:"job,omitempty"`   // that asks whether it goes on
	Created   time.Time   `json:"created"`
	Expires   time.Time   `json:"expires,omitzero"`
	Tool      string      `json:"tool,omitempty"`
	Message   string      `json:"message,omitempty"`
	Arguments jsonx.Value `json:"arguments,omitempty"`
}

// Messages to notices.
type (
	lookAsks struct{}
	told     struct {
		upTo   mark
		hooks  []*pending
		bodies [][]byte // for the command
		err    error
	}
	commanded struct{}
)

// notices is touched by its own goroutine only.
type notices struct {
	opts  NoticesOptions
	owner string // of the lease
	last  mark   // nothing up to it is new
	clock *actors.Timer
}

// Receive implements [actors.Actor].
func (n *notices) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case actors.Started:
		n.clock = c.NewTimer(lookAsks{})
		n.look(c)
	case lookAsks:
		n.look(c)
	case told:
		if m.err != nil {
			n.opts.Logger.Warn("people are not notified of questions yet", "error", m.err)
		}
		n.last = m.upTo
		for _, p := range m.hooks {
			n.opts.Hooks.ref.Send(deliver{p})
		}
		o := &n.opts
		if len(m.bodies) == 0 || len(o.Command) == 0 {
			n.clock.Set(noticeEvery)
			return
		}
		actors.Await(c, func(ctx context.Context) (struct{}, error) { return struct{}{}, o.command(ctx, m.bodies) },
			func(struct{}, error) any { return commanded{} })
	case commanded:
		n.clock.Set(noticeEvery)
	}
}

func (n *notices) look(c *actors.Context) {
	o, owner, last := &n.opts, n.owner, n.last
	actors.Await(c, func(ctx context.Context) (told, error) { return o.tell(ctx, owner, last) },
		func(m told, err error) any { m.err = err; return m })
}

// tell notifies of the questions that are newer than the mark. Last is what this process knows of it.
func (o *NoticesOptions) tell(ctx context.Context, owner string, last mark) (told, error) {
	until := time.Now().Add(-noticeAge)
	if last != (mark{}) {
		if found, err := o.newer(ctx, last, until); err != nil || len(found) == 0 {
			return told{upTo: last}, err
		}
	}
	err := o.Store.LeaseSealed(ctx, noticeKind, noticeKey, owner, noticeLease)
	if errors.Is(err, store.ErrLeased) {
		return told{upTo: last}, nil // another process tells
	}
	if err != nil {
		return told{upTo: last}, err
	}
	bound, cancel := context.WithTimeout(ctx, noticeTime) // the lease lasts longer
	defer cancel()
	out, err := o.claim(bound, last, until)
	free, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	return out, errors.Join(err, o.Store.ReleaseSealed(free, noticeKind, noticeKey, owner))
}

// claim moves the mark past new questions, whose webhooks are in the store by then, and returns them.
// The holder of the lease calls it.
func (o *NoticesOptions) claim(ctx context.Context, last mark, until time.Time) (told, error) {
	sealed, err := o.Store.Sealed(ctx, noticeKind, noticeKey)
	at := mark{Created: until}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return told{upTo: at}, o.putMark(ctx, at, 0)
	case err != nil:
		return told{upTo: last}, err
	case jsonx.Unmarshal(sealed.Value, &at) != nil:
		return told{upTo: last}, errors.New("the mark of the notices cannot be read")
	}
	found, err := o.newer(ctx, at, until)
	if err != nil || len(found) == 0 {
		return told{upTo: at}, err
	}
	out := told{upTo: at}
	for i := range found {
		p, err := o.record(ctx, &found[i])
		if err != nil {
			return told{upTo: at}, err
		}
		out.bodies = append(out.bodies, p.Body)
		if o.Hooks != nil {
			out.hooks = append(out.hooks, p)
		}
	}
	newest := found[len(found)-1]
	next := mark{newest.Created, newest.ID}
	if err := o.putMark(ctx, next, sealed.Version); err != nil { // what is recorded has the same IDs when it is told of again
		return told{upTo: at}, err
	}
	out.upTo = next
	return out, nil
}

func (o *NoticesOptions) putMark(ctx context.Context, at mark, replaces int64) error {
	value, err := jsonx.Marshal(at)
	if err != nil {
		return err
	}
	return o.Store.PutSealed(ctx, store.Sealed{Kind: noticeKind, Key: noticeKey, Version: replaces + 1, Value: value}, replaces)
}

// newer returns the pending questions after a mark that were open at a time, the oldest first, at most
// [maxNotices].
func (o *NoticesOptions) newer(ctx context.Context, after mark, until time.Time) ([]store.Ask, error) {
	place := store.Cursor{Created: after.Created, ID: after.ID}
	q := store.AskQuery{Status: store.AskPending, Limit: 1} // which mostly says that there is none
	var found []store.Ask
	for range maxNoticePage {
		page, err := o.Store.Asks(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			a := &page[i]
			if a.ID == after.ID || place.Before(a.Created, a.ID) {
				page = nil
				break
			}
			if !a.Created.After(until) {
				found = append(found, *a)
			}
		}
		found = found[max(0, len(found)-maxNotices):]
		if len(page) == 0 {
			break
		}
		q.After, q.Limit = page[len(page)-1].Cursor(), noticePage
	}
	slices.Reverse(found)
	return found, nil
}

// record puts the webhook of a question into the store, if there is one.
func (o *NoticesOptions) record(ctx context.Context, a *store.Ask) (*pending, error) {
	in := Asked{Ask: a.ID, Kind: a.Kind, Server: a.Server, Path: a.Path, Run: a.Run, Created: a.Created, Expires: a.Expires}
	if a.Run != "" {
		run, err := o.Store.Run(ctx, a.Run)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		in.Agent, in.Title = run.Agent, run.Title
	}
	view := question.Read(a)
	if view.Job != nil {
		in.Job = view.Job.Job
	}
	if o.Details {
		in.Tool, in.Message, in.Arguments = view.Tool, view.Message, jsonx.Value(view.Arguments)
		if view.Job != nil {
			in.Message = view.Job.Why
		}
	}
	body, err := jsonx.Marshal(notice{Type: "ask.opened", Timestamp: a.Created, Data: in})
	if err != nil {
		return nil, err
	}
	now := store.Clock(time.Now())
	p := &pending{ID: "ask." + a.ID, URL: o.URL, Body: body, Due: now, Made: now}
	if o.Hooks == nil {
		return p, nil
	}
	r, err := p.record()
	if err != nil {
		return nil, err
	}
	return p, o.Store.PutRecord(ctx, r)
}

// command runs the program once for each question. One that fails is not run again.
func (o *NoticesOptions) command(ctx context.Context, bodies [][]byte) error {
	for _, body := range bodies {
		bound, cancel := context.WithTimeout(ctx, commandTime)
		if err := o.run(bound, o.Command, body); err != nil {
			o.Logger.Warn("the command that notifies of a question failed", "command", o.Command[0], "error", err)
		}
		cancel()
	}
	return ctx.Err()
}

// runCommand runs a program of the configuration, and ends it, with all that it has started, when ctx ends.
func runCommand(ctx context.Context, argv []string, stdin []byte) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = r
	p, err := process.Start(cmd)
	if err = errors.Join(err, r.Close()); p == nil {
		return err
	}
	defer context.AfterFunc(ctx, func() {
		p.Kill()
		_ = w.Close() // a write may wait for a program that does not read
	})()
	_, _ = w.Write(stdin) // a program need not read it
	_ = w.Close()
	state := p.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !state.Success() {
		return errors.New(state.String())
	}
	return nil
}
