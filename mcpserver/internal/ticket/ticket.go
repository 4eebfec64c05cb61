package ticket

import (
	"encoding/json"
	"fmt"
	"time"
)

// Ticket has the state of a call between two rounds.
type Ticket struct {
	// Flow names the call through all its rounds, and Round counts these from zero: a
	// round ends with the answers to all of its questions.
	Flow  string    `json:"f"`
	Round int       `json:"r"`
	Until time.Time `json:"u"` // it is worth nothing from then on

	// Answers are those of the rounds before, in the order of the questions, and Once
	// the results of what is done once, by their keys.
	Answers []Answer                   `json:"a,omitzero"`
	Once    map[string]json.RawMessage `json:"o,omitzero"`
	// Asked are the questions of this round, and Got the answers to some of them.
	Asked []Question                 `json:"q,omitzero"`
	Got   map[string]json.RawMessage `json:"g,omitzero"`
	// Waits counts how often this round was answered before its page was done (MRTR-20).
	Waits int `json:"w,omitzero"`
	// State is the handler's own, of one that is written in retry style; else nil.
	State *string `json:"s,omitzero"`

	// Kept names the whole ticket where that was too large to travel: here are only Flow,
	// Round and Until then.
	Kept string `json:"k,omitzero"`
}

// Question says which question was asked; a handler that runs again must ask the
// same one.
type Question struct {
	Key    string `json:"k"`
	Method string `json:"m"`
	Digest []byte `json:"d"`
	// ID is that of an elicitation by URL; empty for others.
	ID string `json:"i,omitzero"`
	// Schema is that of a form which only the ticket knows, because the handler is
	// written in retry style.
	Schema json.RawMessage `json:"s,omitzero"`
}

// Answer is a question with its answer.
type Answer struct {
	Question
	Result json.RawMessage `json:"r"`
}

// Validate checks what no sealer writes otherwise.
func (t *Ticket) Validate() error {
	switch {
	case t.Flow == "":
		return fmt.Errorf("a ticket without its flow")
	case t.Round < 0, t.Waits < 0:
		return fmt.Errorf("a ticket with a negative count")
	}
	return nil
}
