package mcpclient

import (
	"crypto/sha256"
	"encoding/hex"
)

// PinInstructions is the name under which a [PinStore] has a server's instructions, in
// place of a tool's.
const PinInstructions = "(instructions)"

// HashInstructions returns the hash that a server's instructions are pinned by.
func HashInstructions(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
