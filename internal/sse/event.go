package sse

import "time"

// DefaultType is the type of an event that names none.
const DefaultType = "message"

// Event is one event of a stream.
type Event struct {
	// Type is [DefaultType] for a read event that names none. Empty writes none.
	Type string
	// Data is what the data lines say, joined by newlines. Of a read event it is
	// valid until the next call. An event without data is no message (WIRE-11).
	Data []byte
	// ID counts if HasID is set; empty means that from here on the stream cannot
	// be resumed.
	ID    string
	HasID bool
	// Retry counts if HasRetry is set: how long to wait before connecting again,
	// in whole milliseconds.
	Retry    time.Duration
	HasRetry bool
}
