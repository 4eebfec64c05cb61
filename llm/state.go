package llm

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// MaxState bounds the [ProviderState] of one turn, in bytes of Data. Of more nothing is kept.
const MaxState = 256 << 10

// ProviderState is what a provider attaches to an answer of its model and wants back with it, unchanged: signatures, encrypted
// reasoning, the reasoning itself. Only the client that has filled it understands Data. A client writes back what it has made
// itself for the same model of the same server, and leaves out the rest: another one took over.
type ProviderState struct {
	// Provider and Model are those of the client that has made it: the first half of [Model].Name, and the model that was asked.
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	// Server is the host that it came from, where a provider's name can stand for several; empty where it does not matter.
	Server string `json:"server,omitempty"`
	// Kind is the client's word for where Data belongs.
	Kind string `json:"kind"`
	// Call is the ID of the call in the message that it is attached to; empty for the message itself.
	Call string `json:"call,omitempty"`
	// Data is one JSON value.
	Data json.RawMessage `json:"data"`
}

// stateSize is how many bytes of Data there are.
func stateSize(list []ProviderState) (n int) {
	for i := range list {
		n += len(list[i].Data)
	}
	return n
}

// checkState holds the state of a message, which may come from a program or a file, to what a client may write into a request.
func checkState(i int, list []ProviderState) error {
	if stateSize(list) > MaxState {
		return invalid("message %d has more than %d bytes of provider state", i, MaxState)
	}
	for _, s := range list {
		if !jsonx.Valid(s.Data) {
			return invalid("the provider state %.100q of message %d is not JSON", s.Kind, i)
		}
	}
	return nil
}
