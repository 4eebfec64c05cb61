// needurl.go: pages that a handler needs visited and does not wait for.

package mcpserver

import (
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

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
	if err := one.Prepare(&r.session.server.forms, r.version); err != nil || n == nil {
		return fmt.Errorf("asking the client %q: %w", key, err)
	}
	can := r.capabilities().ElicitURL()
	required := can && r.version.Has(mcp.FeatureElicitationIDs)
	if err := n.openNeeded(one, required); err != nil {
		return err
	}
	switch {
	case required:
		n.server.visits.over(one.Page.ID)
		return mcp.URLElicitationRequired(&mcp.ElicitParams{Message: message, URL: one.Page.Address(), ElicitationID: one.Page.ID})
	case can && r.version.Era() == mcp.EraModern:
		return &InputRequired{Requests: mcp.InputRequests{key: {Method: mcp.MethodElicit, Params: one.Page.Params("")}}}
	}
	text := fmt.Sprintf("%s Open this page, then call again: %s", message, one.Page.Address())
	return questions.Refusal(text)
}

// neededPage is what a page was made for.
type neededPage struct {
	session   *session // of a legacy client, which is told of the end; else nil
	principal string
	key, url  string
}

// madePage is a page that was made for it.
type madePage struct {
	id    string
	until time.Time // when another one is made: a person needs time for the page
}

// maxNeeded bounds the pages that are remembered.
const maxNeeded = 1000

// openNeeded gives the question its page: the one that is open, or a new one. Notified
// says that the client is told of the end.
func (n *handlerCall) openNeeded(q *questions.Question, notified bool) error {
	s, live := n.server, n.current()
	k := neededPage{principal: live.principal.id(), key: q.Key, url: q.Page.URL}
	if live.version.Era() == mcp.EraLegacy && !live.session.stateless {
		k.session = live.session
	}
	if id := s.visits.made(k, notified); id != "" {
		if done, err := s.pageDone(n.Context(), k.principal, id); err == nil && !done {
			q.Page.ID = id
			return nil
		}
	}
	if notified {
		if err := n.openPage(q); err != nil {
			return err
		}
	} else {
		q.Page.ID = uuid.NewString()
		if err := s.putPage(n.Context(), k.principal, q.Page.ID, false); err != nil {
			return fmt.Errorf("opening an elicitation: %w", err)
		}
	}
	if k.session != nil || k.principal != "" { // else it may be another client the next time
		s.visits.remember(k, madePage{q.Page.ID, time.Now().Add(s.opts.TicketTTL / 2)})
	}
	return nil
}

// made is the page that was made for it, "" if there is none, or one of whose end the
// client would not be told although it is to be.
func (p *visits) made(k neededPage, notified bool) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.needed[k]
	if _, told := p.open[m.id]; notified && !told || !time.Now().Before(m.until) {
		return ""
	}
	return m.id
}

// remember keeps a page for the next call; beyond the bound that gets a page of its own.
func (p *visits) remember(k neededPage, m madePage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.needed) >= maxNeeded {
		now := time.Now()
		maps.DeleteFunc(p.needed, func(_ neededPage, m madePage) bool { return !now.Before(m.until) })
	}
	if len(p.needed) >= maxNeeded {
		return
	}
	if p.needed == nil {
		p.needed = make(map[neededPage]madePage)
	}
	p.needed[k] = m
}
