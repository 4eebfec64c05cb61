package store

import (
	"encoding/json"
	"time"
)

// AskStatus is where an ask stands.
type AskStatus string

// States of an ask. All but the first are final.
const (
	AskPending   AskStatus = "pending"
	AskAccepted  AskStatus = "accepted"
	AskDeclined  AskStatus = "declined"
	AskCancelled AskStatus = "cancelled" // the answer is no longer needed
	AskExpired   AskStatus = "expired"   // no answer came in time; counts as declined
)

// Ask is a decision that waits for a person: approve a tool call, review a
// sampling request, fill a form, consent to a URL, start a server.
//
// A store keeps it as it is. What is secret in Payload is sealed by the caller,
// and handed over as a JSON string.
type Ask struct {
	ID   string `json:"id"`
	Run  string `json:"run,omitempty"`  // the run that waits; empty for none
	Kind string `json:"kind"`           // such as "tool" or "form"; held to the rule for IDs
	Tool string `json:"tool,omitempty"` // what would be called

	// Server is the configured name of the one that asks and Origin where it is
	// (a URL's origin, a command), never what it says of itself.
	Server string `json:"server,omitempty"`
	Origin string `json:"origin,omitempty"`

	Path  []string `json:"path,omitempty"`  // agents from the root to the one that waits
	Trust string   `json:"trust,omitempty"` // how far the server is trusted

	Payload json.RawMessage `json:"payload,omitzero"` // what is to be decided
	Hash    string          `json:"hash,omitempty"`   // of what is shown; a decision is bound to it

	// Default is the answer offered first, such as the default values of a
	// form. It is never used without a person's answer.
	Default json.RawMessage `json:"default,omitzero"`

	Created time.Time `json:"created"`          // set by the store
	Expires time.Time `json:"expires,omitzero"` // from then on it is expired; zero means never

	// Decision; all but its Status is zero while that is [AskPending].
	Decision
}

// Decision settles an ask.
type Decision struct {
	Status AskStatus       `json:"status"`          // not pending
	Answer json.RawMessage `json:"answer,omitzero"` // the form's values, or the payload as edited
	Scope  string          `json:"scope,omitempty"` // such as "once", "run", "always"
	By     string          `json:"by,omitempty"`    // who decided
	At     time.Time       `json:"at,omitzero"`     // zero means now
}

// Seen returns the ask as it stands at that time: a pending one past its expiry
// is expired. Every store returns asks so; expiry needs no write.
func (a Ask) Seen(now time.Time) Ask {
	if a.Status == AskPending && !a.Expires.IsZero() && !now.Before(a.Expires) {
		a.Decision = Decision{Status: AskExpired, At: a.Expires}
	}
	return a
}

// Cursor is where the page after a begins: see [AskQuery.After].
func (a Ask) Cursor() string { return Cursor{a.Created, a.ID}.String() }

// AskQuery selects asks. Zero fields select all.
type AskQuery struct {
	Status AskStatus
	Run    string
	Server string

	Limit int    // zero, or above [MaxPage], means MaxPage
	After string // [Ask.Cursor] of the last ask of the page before; empty for the first page
}

// Bytes returns the size of what a carries in JSON, as [MaxPageBytes] counts it.
func (a Ask) Bytes() int { return len(a.Payload) + len(a.Default) + len(a.Answer) }
