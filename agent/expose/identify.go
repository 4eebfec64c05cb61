package expose

import (
	"net/http"

	"github.com/troupe-dev/troupe/mcpserver"
)

// sender is the result of authenticating a request.
type sender struct {
	principal *mcpserver.Principal
	err       error
}

type senderKey struct{}

// identified is the Authenticate of the servers of a front.
func identified(r *http.Request) (*mcpserver.Principal, error) {
	s, _ := r.Context().Value(senderKey{}).(sender)
	return s.principal, s.err
}

func principalOf(r *http.Request) *mcpserver.Principal {
	p, _ := identified(r)
	return p
}

// principalID is "" for an anonymous client.
func principalID(p *mcpserver.Principal) string {
	if p == nil {
		return ""
	}
	return p.ID
}
