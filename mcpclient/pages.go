package mcpclient

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/elicit"
)

// pages are those that the user has agreed to open and that are not known to be
// completed. Each is an actor of package elicit.
type pages struct {
	client *Client

	once    sync.Once
	pending *elicit.Table // see table

	mu   sync.Mutex
	all  map[string]*page // by id
	last int
}

// table returns that of the actors; it is made when the first is needed.
func (s *pages) table() *elicit.Table {
	s.once.Do(func() {
		s.pending = elicit.New(s.client.conn.SpawnChild, elicit.Options{Expiry: s.client.opts.ElicitationExpiry})
	})
	return s.pending
}

// page is one of them.
type page struct {
	*elicit.Pending
	view  URLView
	since time.Time
	local bool // the server has no id for it: only a person can say how it goes on

	asks []string // by which the user has agreed to it; guarded by the lock of pages

	mu    sync.Mutex
	calls map[*callTag]struct{} // under way that it is for
	hide  func(cause error)     // ends that it is shown; nil if it is not
}

// PageDone is the end of a page that a [Human] has agreed to.
type PageDone struct {
	Server string   // its name in the configuration
	Asks   []string // the IDs of the questions by which it was agreed to
	URL    URLView
	// Err is nil if the server has said that the page is completed (URL-30), if somebody
	// has said so by [Elicitation.Retry], or if the server, where it can not say it, has
	// answered the call that the page was for. Else it says why the page is over: it has
	// expired, was given up, could not be opened, or the connection has ended.
	Err error
}

// localID begins the ids of our own.
const localID = "\x00"

// open makes a page pending, or returns the one that is. It may be over already, if
// its completion has come before (URL-32).
// Asks are the IDs of the questions that were agreed to, whose end is told.
func (s *pages) open(view *URLView, asks ...string) (*page, error) {
	p, fresh, err := s.add(view, asks)
	if err != nil {
		s.done(view, asks, err)
	}
	if err != nil || !fresh {
		return p, err
	}
	p.Wait(func(err error) { // at once, if it is over
		s.mu.Lock()
		if s.all[p.ID()] == p {
			delete(s.all, p.ID())
		}
		asks := p.asks
		s.mu.Unlock()
		s.done(&p.view, asks, err)
	})
	return p, nil
}

// done tells whoever has passed a page on that it is over.
func (s *pages) done(view *URLView, asks []string, err error) {
	c := s.client
	if c.opts.OnPageDone == nil || len(asks) == 0 {
		return
	}
	_, panicked := actors.Guard(func() (struct{}, error) {
		c.opts.OnPageDone(PageDone{Server: c.server.Name, Asks: asks, URL: *view, Err: err})
		return struct{}{}, nil
	})
	if panicked != nil {
		c.log.Error("OnPageDone panicked", "error", panicked)
	}
}

func (s *pages) add(view *URLView, asks []string) (p *page, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, local := view.ElicitationID, view.ElicitationID == ""
	if local {
		s.last++
		id = fmt.Sprint(localID, s.last)
	}
	if p := s.all[id]; p != nil {
		p.asks = append(p.asks, asks...)
		return p, false, nil
	}
	pending, err := s.table().Open(id)
	if err != nil {
		return nil, false, err
	}
	p = &page{Pending: pending, view: *view, since: time.Now(), local: local, asks: asks}
	if s.all == nil {
		s.all = make(map[string]*page)
	}
	s.all[id] = p
	return p, true, nil
}

// known returns the page that is pending under the id with this very URL: somebody
// has agreed to it already.
func (s *pages) known(view *URLView) *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[view.ElicitationID]; p != nil && p.view.URL == view.URL {
		return p
	}
	return nil
}

// Elicitation is a page that was opened with the user's consent and of which the
// server has not said that it is completed. It ends by that, by Retry or Cancel, or
// when it expires (URL-17).
type Elicitation struct {
	Server string
	URL    URLView
	Since  time.Time
	// Expires is when it ends by itself; zero is never.
	Expires time.Time

	page *page
}

// Retry lets the calls that wait for the page be tried again now.
func (e *Elicitation) Retry() { e.page.Retry() }

// Cancel gives the page up: the calls that wait for it end with the server's error, and
// those under way that have led to it are cancelled, with [ErrPageGivenUp].
func (e *Elicitation) Cancel() { e.page.giveUp() }

// Elicitations returns what is pending, the oldest first.
func (c *Client) Elicitations() []*Elicitation {
	s := &c.asks.pages
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Elicitation, 0, len(s.all))
	for _, p := range s.all {
		out = append(out, &Elicitation{Server: c.server.Name, URL: p.view, Since: p.since, Expires: p.Expires(), page: p})
	}
	slices.SortFunc(out, func(a, b *Elicitation) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.page.ID(), b.page.ID()))
	})
	return out
}

// Elicitations returns what is pending, by server.
func (h *Host) Elicitations() []*Elicitation {
	var out []*Elicitation
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			out = append(out, c.Elicitations()...)
		}
	}
	return out
}
