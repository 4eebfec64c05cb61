package store

import "time"

// Pin remembers what a tool of a server was when somebody last let it be called
// (SECA-38). Only the hash of its definition is kept.
type Pin struct {
	// Source is the configuration that defines the server, or what else tells it from
	// another of the same name.
	Source string    `json:"source"`
	Server string    `json:"server"` // its name there
	Tool   string    `json:"tool"`   // the server's own name for it
	Hash   string    `json:"hash"`   // of the definition
	At     time.Time `json:"at"`     // zero means now
}
