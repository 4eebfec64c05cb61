package mcpclient

import (
	"errors"
	"fmt"
)

// DefaultMaxMessage is how many bytes a message of a server may have, unless
// [Server].MaxMessage says otherwise (WIRE-04).
const DefaultMaxMessage = 16 << 20

// maxMaxMessage bounds what a definition may ask for: lists and results are decoded whole.
const maxMaxMessage = 1 << 30

// ErrMessageTooLong is what a [MessageTooLongError] is.
var ErrMessageTooLong = errors.New("mcpclient: a message of the server is too long")

// MessageTooLongError says that the server has sent a message with more than Max bytes,
// which was skipped (WIRE-04). The connection goes on. The request that the message
// answers was carried out.
type MessageTooLongError struct {
	Server string
	Max    int // in bytes
	// Certain says that the message is known to be the answer to this request. If not, it
	// may have been that of another one, and the outcome of this one is not known.
	Certain bool
}

func (e *MessageTooLongError) Error() string {
	perhaps := ""
	if !e.Certain {
		perhaps = ", which is perhaps this answer,"
	}
	return fmt.Sprintf("a message of server %q%s has more than %d bytes and was skipped; to take larger ones, set maxMessageBytes of the server", e.Server, perhaps, e.Max)
}

// Is reports that the error is [ErrMessageTooLong].
func (e *MessageTooLongError) Is(target error) bool { return target == ErrMessageTooLong }

// maxMessage is how many bytes a message may have.
func (s *Server) maxMessage() int {
	if s.MaxMessage > 0 {
		return s.MaxMessage
	}
	return DefaultMaxMessage
}

// tooLong makes the error of a message.
func (s *Server) tooLong(certain bool) error {
	return &MessageTooLongError{Server: s.Name, Max: s.maxMessage(), Certain: certain}
}
