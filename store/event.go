package store

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/eventhook"
)

// Types of events. The set is open: a store accepts any [Event.Type] and does not
// interpret bodies.
const (
	RunStarted     = "run.started"     // agent, input, limits
	ModelResult    = "model.result"    // what a model answered; replay never asks it again
	ToolIntent     = "tool.intent"     // a call is about to be made; Key is its idempotency key
	ToolDispatched = "tool.dispatched" // its bytes are about to leave
	ToolResult     = "tool.result"     // it has an outcome
	ToolUnknown    = "tool.unknown"    // its outcome cannot be known
	AskOpened      = "ask.opened"      // a question waits for a person; Key is the ask's ID
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

	Imported bool `json:"imported,omitzero"` // another store has recorded it, see [Run].Imported; set by the store

	handed *byte // where the body begins that was handed over, see [eventhook.Hooks]; nil for none
}

func init() {
	eventhook.Register(&eventhook.Hooks[Event]{HandOver: (*Event).handOver, HandedOver: (*Event).handedOver})
}

func (e *Event) handOver() {
	if e.handed = nil; len(e.Body) > 0 {
		e.Body = slices.Clip(e.Body)
		e.handed = &e.Body[0]
	}
}

// handedOver looks at the end of the body too, so that one which was cut has no mark.
func (e *Event) handedOver() bool {
	return e.handed != nil && len(e.Body) > 0 && len(e.Body) == cap(e.Body) && e.handed == &e.Body[0]
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
