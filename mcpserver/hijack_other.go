//go:build !unix

package mcpserver

import "net/http"

// newStanding returns a connection for a stream that stays open for long.
func newStanding(s *stream, w http.ResponseWriter, _ *http.Request) standing {
	return newHandlerConn(s, w)
}
