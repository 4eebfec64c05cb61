package store

import (
	"encoding/json"
	"time"
)

// Record is a value with an owner and an expiry: a task of a client with its result, or
// the answers of an invocation that are too large for its requestState.
type Record struct {
	Kind  string `json:"kind"`  // what it is, such as "task"; held to the rule for IDs
	Owner string `json:"owner"` // such as the ID of a principal; only it sees the record

	// Key identifies it among those of its kind and owner. It is held to the rule
	// for IDs.
	Key string `json:"key"`

	// Value is JSON, or empty. At most [MaxBody] bytes.
	Value json.RawMessage `json:"value,omitzero"`

	// Expires is required; from then on no method returns the record.
	Expires time.Time `json:"expires"`
}

// RecordQuery selects the records of one kind and owner.
type RecordQuery struct {
	Kind, Owner string

	Limit int    // zero, or above [MaxPage], means MaxPage
	After string // [Record.Key] of the last record of the page before; empty for the first page
}

// Live reports whether the record has not expired at that time.
func (r Record) Live(now time.Time) bool { return now.Before(r.Expires) }

// Bytes returns the size of what r carries, as [MaxPageBytes] and [MaxOwnedBytes]
// count it.
func (r Record) Bytes() int { return len(r.Value) }
