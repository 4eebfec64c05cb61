package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// InboxOptions changes an [InboxHuman]; nil is the same as the zero value.
type InboxOptions struct {
	// Path is shown before the path of each question: the asker on whose behalf it is put.
	Path []string
	// Expiry is how long a question waits. Zero means as long as the caller's: see
	// [mcpclient.AskOptions].AskExpiry.
	Expiry time.Duration
	// By is recorded as the decider of a question that is given up. Empty is "program".
	By string
	// Poll is how often the store is looked at. Zero, and more than a second, is a second.
	Poll time.Duration
}

// InboxHuman returns a Human that puts questions into a store and waits until
// they are settled there: by the command troupe inbox, a web page, another process. They are of
// no run. A question that is given up before is settled as cancelled, so that no
// person answers it in vain; one that expires is declined. The answers are those that
// [Accept], [Fill], [DecideAs] and [Decline] make.
func InboxHuman(s store.Asks, o *InboxOptions) mcpclient.Human {
	h := &inboxHuman{store: s, opts: *cmp.Or(o, new(InboxOptions))}
	h.opts.Path = slices.Clone(h.opts.Path)
	h.opts.By = cmp.Or(h.opts.By, "program")
	if h.opts.Poll <= 0 || h.opts.Poll > time.Second {
		h.opts.Poll = time.Second
	}
	return h
}

type inboxHuman struct {
	store store.Asks
	opts  InboxOptions
}

// Decide implements [mcpclient.Human].
func (h *inboxHuman) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hash, err := ask.ContentHash() // as it is read again, see questionOf
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	payload, err := jsonx.Marshal(ask)
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	row := store.Ask{
		ID: uuid.NewString(), Kind: kinds[ask.Kind], Server: ask.Server, Origin: ask.Origin,
		Path: slices.Concat(h.opts.Path, ask.Path), Payload: payload, Hash: hash, Expires: ask.Expires,
	}
	if ask.Tool != nil {
		row.Tool = ask.Tool.Name
	}
	if h.opts.Expiry > 0 {
		if at := time.Now().Add(h.opts.Expiry); row.Expires.IsZero() || at.Before(row.Expires) {
			row.Expires = at
		}
	}
	if err := h.store.OpenAsk(ctx, row); err != nil {
		if ctx.Err() != nil { // it may be there all the same
			h.giveUp(ctx, row.ID)
		}
		return nil, fmt.Errorf("opening the question: %w", err)
	}
	return h.wait(ctx, row.ID)
}

// AwaitPage implements [mcpclient.PageHuman]: a page that is open is in the inbox, too.
func (h *inboxHuman) AwaitPage(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	return h.Decide(ctx, ask)
}

// wait looks at the row until it is settled. A store that fails for a while is asked
// again: the question is still there for others to see.
func (h *inboxHuman) wait(ctx context.Context, id string) (*mcpclient.Decision, error) {
	for {
		row, err := h.store.Ask(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("waiting for the answer: %w", err)
		case err == nil && row.Status != store.AskPending:
			return decided(row.Decision), nil
		}
		if err := pause.For(ctx, h.opts.Poll); err != nil {
			return h.giveUp(ctx, id), nil
		}
	}
}

// giveUpTime bounds the settling of a question whose caller has gone.
const giveUpTime = 5 * time.Second

// giveUp settles a question as cancelled, unless it was decided at the same moment.
func (h *inboxHuman) giveUp(ctx context.Context, id string) *mcpclient.Decision {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTime)
	defer cancel()
	row, err := h.store.SettleAsk(ctx, id, store.Decision{Status: store.AskCancelled, By: h.opts.By})
	if errors.Is(err, store.ErrSettled) {
		return decided(row.Decision)
	}
	return &mcpclient.Decision{Action: mcp.ActionCancel}
}
