package store

import "time"

// Pin is the definition of a server's tool as a person last approved it. Only its hash
// is kept.
type Pin struct {
	// Source is the configuration that defines the server, or what else distinguishes it
	// from another of the same name.
	Source string    `json:"source"`
	Server string    `json:"server"` // its name there
	Tool   string    `json:"tool"`   // the server's own name for it
	Hash   string    `json:"hash"`   // of the definition
	At     time.Time `json:"at"`     // zero means now
}
