// urlask.go: pages that a person visits for a handler.

package mcpserver

import (
	"fmt"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

// ErrNoElicitation says that no elicitation of that id is open for that principal.
var ErrNoElicitation = pages.ErrUnknown

// CompleteElicitation says that what a person was sent to a page for is done: the
// handler that waits goes on, at another server that shares [Options].Records within
// seconds, and a client of 2025-11-25 is told, the one that was asked
// and no other. Principal is the ID of who has visited the page, which the page
// must have found out for itself: if it is not who was asked, the error is
// [ErrNoElicitation], as for an id that is not known or has expired.
func (s *Server) CompleteElicitation(id, principal string) error {
	return s.pages.Complete(id, principal)
}

// NeedURL is for handlers that do not wait: it returns an error to be returned, which
// sends the person to a page and lets the client call again when that is done. A client
// of 2025-11-25 gets -32042, one of 2026-07-28 input_required, with the answer
// in [Request.Responses], and others, and those without the capability, a text with the
// address and what to do. Only a handler that knows by itself whether the page was visited
// can use it. The same principal, or legacy session, gets the same page for the same key
// and url until it is done or about to expire.
func (q *Request) NeedURL(key, message, url string) error {
	r := q.live()
	n := r.invocation.Load()
	one := &URLQuestion(key, message, url).q
	if err := one.Prepare(&r.session.server.dialogues.Forms, r.version); err != nil || n == nil {
		return fmt.Errorf("asking the client %q: %w", key, err)
	}
	can := r.capabilities().ElicitURL()
	required := can && r.version.Has(mcp.FeatureElicitationIDs)
	about := pages.Need{Principal: r.principal.id(), Key: key, URL: url}
	if r.version.Era() == mcp.EraLegacy && !r.session.stateless {
		about.Session = r.session
	}
	var notified *pages.Client
	if required {
		notified = &pages.Client{Session: r.session, Call: n}
	}
	var err error
	if one.Page.ID, err = n.server().pages.For(n.Context(), about, notified); err != nil {
		return err
	}
	switch {
	case required:
		n.server().pages.Over(one.Page.ID)
		return mcp.URLElicitationRequired(&mcp.ElicitParams{Message: message, URL: one.Page.Address(), ElicitationID: one.Page.ID})
	case can && r.version.Era() == mcp.EraModern:
		return &InputRequired{Requests: mcp.InputRequests{key: {Method: mcp.MethodElicit, Params: one.Page.Params("")}}}
	}
	text := fmt.Sprintf("%s Open this page, then call again: %s", message, one.Page.Address())
	return questions.Refusal(text)
}
