package store

import (
	"encoding/json"
	"time"
)

// Record is a value that is kept for a while: a task of a client and what it has
// ended with, the answers of a call that are too many for its ticket.
type Record struct {
	Kind  string `json:"kind"`  // what it is, such as "task"; held to the rule for IDs
	Owner string `json:"owner"` // who may have it, such as the ID of a principal; empty is nobody's

	// Key tells it from the others of its kind and owner. It is held to the rule
	// for IDs.
	Key string `json:"key"`

	// Value is JSON, or empty. At most [MaxBody] bytes.
	Value json.RawMessage `json:"value,omitzero"`

	// Expires is when it is gone, for every method. It is required.
	Expires time.Time `json:"expires"`
}

// RecordQuery selects the records of one kind and owner.
type RecordQuery struct {
	Kind, Owner string

	Limit int    // zero, or above [MaxPage], means MaxPage
	After string // [Record.Key] of the last record of the page before; empty for the first page
}

// Live reports whether the record is there at that time.
func (r Record) Live(now time.Time) bool { return now.Before(r.Expires) }

// Bytes returns the size of what r carries, as [MaxPageBytes] and [MaxOwnedBytes]
// count it.
func (r Record) Bytes() int { return len(r.Value) }
