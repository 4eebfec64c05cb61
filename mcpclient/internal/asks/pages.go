package asks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/elicit"
)

// ErrPageUnneeded is why a page is not shown any more that no call waits for.
var ErrPageUnneeded = errors.New("no call waits for the page any more")

// PageView is a URL that has passed the checks of URL-16, as it is to be shown.
type PageView struct {
	URL           string
	Host          string
	Domain        string
	Warnings      []string
	ElicitationID string // the server's, of 2025-11-25; opaque
}

// pages are those that the user has agreed to open and that are not known to be
// completed. Each is an actor of package elicit.
type pages struct {
	asks *Asks

	once    sync.Once
	pending *elicit.Table // see table

	mu   sync.Mutex       // guards the pages with their asks and calls: questions and calls look a page up and join it on their own goroutines, and its actor knows of neither
	all  map[string]*Page // by id
	last int
}

// table returns that of the actors; it is made when the first is needed.
func (s *pages) table() *elicit.Table {
	s.once.Do(func() {
		s.pending = elicit.New(s.asks.Conn.SpawnChild, elicit.Options{Expiry: s.asks.PageExpiry})
	})
	return s.pending
}

// Page is one of them.
type Page struct {
	*elicit.Pending
	View  PageView
	Since time.Time
	of    *pages
	local bool // the server has no id for it: only a person can say how it goes on

	// Guarded by the lock of pages.
	asks  []string           // by which the user has agreed to it
	calls map[*Call]struct{} // under way that it is for
	hide  func(cause error)  // ends that it is shown; nil if it is not
}

// localID begins the ids of our own.
const localID = "\x00"

// open makes a page pending, or returns the one that is. It may be over already, if
// its completion has come before (URL-32).
// Asks are the IDs of the questions that were agreed to, whose end is told.
func (s *pages) open(view *PageView, asks ...string) (*Page, error) {
	p, fresh, err := s.add(view, asks)
	if err != nil {
		s.asks.PageDone(view, asks, err)
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
		s.asks.PageDone(&p.View, asks, err)
	})
	return p, nil
}

func (s *pages) add(view *PageView, asks []string) (p *Page, fresh bool, err error) {
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
	p = &Page{Pending: pending, View: *view, Since: time.Now(), local: local, asks: asks, of: s}
	if s.all == nil {
		s.all = make(map[string]*Page)
	}
	s.all[id] = p
	return p, true, nil
}

// known returns the page that is pending under the id with this very URL: a person
// has agreed to it already.
func (s *pages) known(view *PageView) *Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.all[view.ElicitationID]; p != nil && p.View.URL == view.URL {
		return p
	}
	return nil
}

// join adds a call that the page is for, leave takes it out; with the last one the page
// is not shown any more.
func (p *Page) join(t *Call) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.calls == nil {
		p.calls = make(map[*Call]struct{})
	}
	p.calls[t] = struct{}{}
}

func (p *Page) leave(t *Call) {
	p.of.mu.Lock()
	delete(p.calls, t)
	hide := p.hide
	if len(p.calls) > 0 {
		hide = nil
	}
	p.of.mu.Unlock()
	if hide != nil {
		hide(ErrPageUnneeded)
	}
}

// GiveUp ends the page and the calls that it is for: those that wait for it with its end,
// those that the server still works on by cancelling them.
func (p *Page) GiveUp() {
	p.of.mu.Lock()
	calls := make([]*Call, 0, len(p.calls))
	for t := range p.calls {
		calls = append(calls, t)
	}
	p.of.mu.Unlock()
	givenUp := p.of.asks.GivenUp
	p.Cancel(givenUp)
	for _, t := range calls {
		t.asks.Conn.CancelTagged(t, givenUp)
	}
}

// Shown notes how to end that the page is shown. It reports false if it is shown already,
// or if all calls that it was for have ended.
func (p *Page) Shown(hide func(cause error), ofCalls bool) bool {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.hide != nil || ofCalls && len(p.calls) == 0 {
		return false
	}
	p.hide = hide
	return true
}

// Open makes a page pending, or returns the one that is; see [pages.open]. Known returns the
// page that is pending with this very URL, to which a person has agreed already.
func (a *Asks) Open(view *PageView, asks ...string) (*Page, error) {
	return a.pages.open(view, asks...)
}
func (a *Asks) Known(view *PageView) *Page { return a.pages.known(view) }

// Pages returns what is pending.
func (a *Asks) Pages() []*Page {
	a.pages.mu.Lock()
	defer a.pages.mu.Unlock()
	return slices.Collect(maps.Values(a.pages.all))
}
