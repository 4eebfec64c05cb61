package dialogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
	"github.com/troupe-dev/troupe/store"
)

// recordTicket is the kind of the records that hold what is too large for a ticket.
const recordTicket = "ticket"

// recordsWait bounds a wait for the records, which may be on a disk.
const recordsWait = 10 * time.Second

// seal makes the requestState of a ticket. What is too large to travel is kept here,
// under a name that cannot be guessed, for the same principal.
func (h *Host) seal(ctx context.Context, t *ticket.Ticket, r Request) (string, error) {
	state, err := h.Sealer.Seal(t, r.Binding())
	if !errors.Is(err, ticket.ErrTooLarge) {
		return state, err
	}
	light := &ticket.Ticket{Flow: t.Flow, Round: t.Round, Until: t.Until, Kept: uuid.NewString()}
	raw, err := mcp.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("keeping the answers: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordsWait)
	defer cancel()
	err = h.Records.PutRecord(ctx, store.Record{Kind: recordTicket, Owner: r.Sender().Principal, Key: light.Kept, Value: raw, Expires: t.Until})
	if err != nil {
		return "", fmt.Errorf("keeping the answers: %w", err)
	}
	return h.Sealer.Seal(light, r.Binding())
}

// unseal opens the requestState of a request. An error is to be answered.
func (h *Host) unseal(r Request) (*ticket.Ticket, error) {
	var state string
	if _, raw := r.Brought(); len(raw) == 0 || raw[0] != '"' || jsonx.Unmarshal(raw, &state) != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "requestState is not a string")
	}
	t, err := h.Sealer.Open(state, r.Binding())
	if err != nil {
		return nil, errState
	}
	if t.Kept == "" {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(r, recordsWait)
	defer cancel()
	record, err := h.Records.Record(ctx, recordTicket, r.Sender().Principal, t.Kept)
	if errors.Is(err, store.ErrNotFound) {
		return nil, errState
	}
	if err != nil {
		return nil, fmt.Errorf("reading kept answers: %w", err)
	}
	kept := new(ticket.Ticket)
	if err := mcp.Unmarshal(record.Value, kept); err != nil || kept.Flow != t.Flow || kept.Round != t.Round {
		return nil, errState
	}
	return kept, nil
}

// errState is the answer to a requestState that is not valid for the request, whatever
// is wrong with it (MRTR-06, SECA-12).
var errState = mcp.Errorf(mcp.CodeInvalidParams, "requestState is not valid for this request")

// checkSchema holds an answer against the form that a handler in retry style has asked
// for, which only the ticket remembers.
func (h *Host) checkSchema(e *ticket.Question, raw json.RawMessage, v mcp.Version) error {
	if len(e.Schema) == 0 {
		return nil
	}
	q := &questions.Question{Key: e.Key, Method: mcp.MethodElicit, Form: &mcp.ElicitParams{RequestedSchema: e.Schema}}
	if err := q.Prepare(&h.Forms, v); err != nil {
		return errState
	}
	if err := q.Settle(raw); err != nil {
		return wireOf(err)
	}
	return nil
}

// wireOf is the error that a client gets for a question or an answer that is wrong.
func wireOf(err error) error {
	if e, ok := errors.AsType[*questions.AnswerError](err); ok { // MRTR-07
		return mcp.Errorf(mcp.CodeInvalidParams, "%s", clip.Name(e.Error()))
	}
	return err
}
