package store

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"time"
)

// Types of events. The set is open: a store takes any [Event.Type]. What a body
// holds is the business of the run that writes it.
const (
	RunStarted     = "run.started"     // agent, input, limits
	ModelResult    = "model.result"    // what a model answered; replay never asks it again
	ToolIntent     = "tool.intent"     // a call is about to be made; Key is its idempotency key
	ToolDispatched = "tool.dispatched" // it is handed to the transport next
	ToolResult     = "tool.result"     // it has an outcome
	ToolUnknown    = "tool.unknown"    // nobody can know its outcome
	AskOpened      = "ask.opened"      // a question waits for a human; Key is the ask's ID
	AskSettled     = "ask.settled"     // it has been decided
	RunFinished    = "run.finished"    // answer, or why there is none
)

// Event is one thing that happened in a run. It is never changed.
type Event struct {
	Run   string    `json:"run"`   // set by the store
	Seq   int64     `json:"seq"`   // from 1, without a gap; set by the store
	Epoch int64     `json:"epoch"` // of the lease it was written under; set by the store
	Time  time.Time `json:"time"`  // zero means now
	Type  string    `json:"type"`  // such as [ToolIntent]; held to the rule for IDs

	// Key joins the events of one thing, such as the idempotency key of a tool
	// call or the ID of an ask. Empty for none.
	Key string `json:"key,omitempty"`

	// Body is JSON, or empty. At most [MaxBody] bytes.
	Body json.RawMessage `json:"body,omitzero"`
}

// Unchecked as [Append.After] appends at the end of the run, wherever that is.
// The same append made twice then adds its events twice.
const Unchecked int64 = -1

// Append is what [Journal.Append] adds to a run. Without events and state it
// only checks that the run may be written to.
type Append struct {
	Run   string
	Epoch int64 // of the lease the caller holds

	// After is the number of the run's last event as the caller knows it, zero for
	// a run without events. Where the run stands elsewhere nothing is written: see
	// [Journal.Append]. [Unchecked] does without.
	After int64

	// State the run has afterwards; "" leaves it. A state that ends the run
	// also ends its lease.
	State RunState

	// Summary replaces that of the run; "" leaves it.
	Summary string

	// Events, at most [MaxEvents] with [MaxPageBytes] of bodies together.
	Events []Event

	// Asks are opened, and asks of Settle settled, together with the events that say
	// so, of which there must be one. All asks are this run's; at most [MaxEvents], with
	// as many bytes again.
	Asks   []Ask
	Settle []Settlement
}

// Settlement decides one ask as a part of an [Append].
type Settlement struct {
	Ask string // its ID
	Decision
}

// Repeats reports whether the events that stand behind a.After are those of a. Found
// are the run's events from number a.After+1 on, at least as many as a has, if the
// run has so many. It is for those who implement [Journal].
func (a Append) Repeats(found []Event) bool {
	if len(a.Events) == 0 || len(found) < len(a.Events) {
		return false
	}
	for i, e := range a.Events {
		f := found[i]
		if f.Seq != a.After+int64(i)+1 || f.Epoch != a.Epoch || f.Type != e.Type || f.Key != e.Key ||
			!bytes.Equal(f.Body, e.Body) || !e.Time.IsZero() && !f.Time.Equal(Clock(e.Time)) {
			return false
		}
	}
	return true
}

// Replay reads the events of a run with a number above after, to the end, a page
// at a time. It stops after an error.
func Replay(ctx context.Context, j Journal, run string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page, err := j.Events(ctx, run, after, 0)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(page) == 0 {
				return
			}
		}
	}
}
