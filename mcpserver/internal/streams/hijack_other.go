//go:build !unix

package streams

import "net/http"

// newStanding returns a connection for a stream that stays open for long.
func newStanding(s *Stream, w http.ResponseWriter, r *http.Request) Standing {
	return newHandlerConn(s, w, r)
}
