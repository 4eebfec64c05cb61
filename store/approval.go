package store

import "time"

// Approval is consent to start a server as one file defines it. It holds for
// exactly one definition: another hash is another server.
type Approval struct {
	File   string `json:"file"`   // the configuration that defines it
	Server string `json:"server"` // its name there
	Hash   string `json:"hash"`   // of the definition
	Shown  string `json:"shown"`  // the command or URL that was shown to whom consented
	By     string `json:"by"`
	// Trusted says that the user also trusts what the server says of its own
	// tools, such as that one only reads.
	Trusted bool      `json:"trusted,omitzero"`
	At      time.Time `json:"at"` // zero means now
}
