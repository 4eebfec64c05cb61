package mcpserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
	"github.com/troupe-dev/troupe/store"
)

// recordTicket is the kind of the records that hold what is too large for a ticket.
const recordTicket = "ticket"

// recordsWait bounds a wait for the records, which may be on a disk.
const recordsWait = 10 * time.Second

// seal makes the requestState of a ticket. What is too large to travel is kept here,
// under a name that cannot be guessed, for the same principal.
func (s *Server) seal(ctx context.Context, t *ticket.Ticket, r *request) (string, error) {
	state, err := s.sealer.Seal(t, r.binding())
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
	err = s.records.PutRecord(ctx, store.Record{Kind: recordTicket, Owner: r.principal.id(), Key: light.Kept, Value: raw, Expires: t.Until})
	if err != nil {
		return "", fmt.Errorf("keeping the answers: %w", err)
	}
	return s.sealer.Seal(light, r.binding())
}

// unseal opens the requestState of a request. An error is to be answered.
func (s *Server) unseal(r *request) (*ticket.Ticket, error) {
	var state string
	if len(r.state) == 0 || r.state[0] != '"' || jsonx.Unmarshal(r.state, &state) != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "requestState is not a string")
	}
	t, err := s.sealer.Open(state, r.binding())
	if err != nil {
		return nil, errState
	}
	if t.Kept == "" {
		return t, nil
	}
	ctx, cancel := context.WithTimeout(&r.Call, recordsWait)
	defer cancel()
	record, err := s.records.Record(ctx, recordTicket, r.principal.id(), t.Kept)
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

// binding is what the tickets of a request belong to.
func (r *request) binding() ticket.Binding {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(r.work.name()), r.work.name())
	h.Write(sameJSON(r.arguments))
	b := ticket.Binding{Principal: r.principal.id(), Method: r.Method()}
	h.Sum(b.Params[:0])
	return b
}

// sameJSON writes JSON so that what means the same is the same: members in order,
// strings in one way. Numbers stay as they are, or large ones would become equal.
func sameJSON(raw json.RawMessage) []byte {
	out, err := jsonx.Marshal(unordered(raw))
	if err != nil {
		return raw
	}
	return out
}

// unordered is a value that marshals as sameJSON wants it.
func unordered(raw []byte) any {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return nil
	case raw[0] == '{':
		var members map[string]jsonx.Value
		if jsonx.Unmarshal(raw, &members) == nil {
			out := make(map[string]any, len(members))
			for name, value := range members {
				out[name] = unordered(value)
			}
			return out
		}
	case raw[0] == '[':
		var elements []jsonx.Value
		if jsonx.Unmarshal(raw, &elements) == nil {
			out := make([]any, len(elements))
			for i, value := range elements {
				out[i] = unordered(value)
			}
			return out
		}
	case raw[0] == '"':
		var text string
		if jsonx.Unmarshal(raw, &text) == nil {
			return text
		}
	}
	return jsonx.Value(raw)
}

// checkSchema holds an answer against the form that a handler in retry style has asked
// for, which only the ticket remembers.
func (s *Server) checkSchema(e *ticket.Question, raw json.RawMessage, v mcp.Version) error {
	if len(e.Schema) == 0 {
		return nil
	}
	q := &FormQuestion(e.Key, &mcp.ElicitParams{RequestedSchema: e.Schema}).q
	if err := q.Prepare(&s.forms, v); err != nil {
		return errState
	}
	if err := q.Settle(raw); err != nil {
		return wireOf(err)
	}
	return nil
}
