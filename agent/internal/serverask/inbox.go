package serverask

import (
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

// Inbox is a [mcpclient.Human] that puts questions, which are of no run, into a store and waits until
// they are settled there. All fields but Path and Expiry are needed.
type Inbox struct {
	Store  store.Asks
	Path   []string      // shown before the path of each question
	Expiry time.Duration // of a question that has none, or a later one; zero for none
	By     string        // the decider of a question that is given up
	Poll   time.Duration // how often the store is looked at
}

// Decide implements [mcpclient.Human].
func (h *Inbox) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	hash, err := ask.ContentHash() // as it is read again, see Read
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	payload, err := jsonx.Marshal(ask)
	if err != nil {
		return nil, fmt.Errorf("writing the question down: %w", err)
	}
	row := store.Ask{
		ID: uuid.NewString(), Kind: kinds[ask.Kind], Server: ask.Server, Origin: ask.Origin,
		Path: slices.Concat(h.Path, ask.Path), Payload: payload, Hash: hash, Expires: ask.Expires,
	}
	if ask.Tool != nil {
		row.Tool = ask.Tool.Name
	}
	if h.Expiry > 0 {
		if at := time.Now().Add(h.Expiry); row.Expires.IsZero() || at.Before(row.Expires) {
			row.Expires = at
		}
	}
	if err := h.Store.OpenAsk(ctx, row); err != nil {
		if ctx.Err() != nil { // it may be there all the same
			h.giveUp(ctx, row.ID)
		}
		return nil, fmt.Errorf("opening the question: %w", err)
	}
	return h.wait(ctx, row.ID)
}

// AwaitPage implements [mcpclient.PageHuman]: a page that is open is in the inbox, too.
func (h *Inbox) AwaitPage(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	return h.Decide(ctx, ask)
}

// wait looks at the row until it is settled. A store that fails for a while is asked
// again: the question is still there for others to see.
func (h *Inbox) wait(ctx context.Context, id string) (*mcpclient.Decision, error) {
	for {
		row, err := h.Store.Ask(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("waiting for the answer: %w", err)
		case err == nil && row.Status != store.AskPending:
			return decided(row.Decision), nil
		}
		if err := pause.For(ctx, h.Poll); err != nil {
			return h.giveUp(ctx, id), nil
		}
	}
}

// giveUpTime bounds the settling of a question whose caller has gone.
const giveUpTime = 5 * time.Second

// giveUp settles a question as cancelled, unless it was decided at the same moment.
func (h *Inbox) giveUp(ctx context.Context, id string) *mcpclient.Decision {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTime)
	defer cancel()
	row, err := h.Store.SettleAsk(ctx, id, store.Decision{Status: store.AskCancelled, By: h.By})
	if errors.Is(err, store.ErrSettled) {
		return decided(row.Decision)
	}
	return &mcpclient.Decision{Action: mcp.ActionCancel}
}
