package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// Elicitation is a page that was opened with the user's consent and of which the
// server has not said that it is completed. It ends by that, by Retry or Cancel, or
// when it expires.
type Elicitation struct {
	Server string
	URL    URLView
	Since  time.Time
	// Expires is when it ends by itself; zero is never.
	Expires time.Time

	page *asks.Page
}

// Retry lets the calls that wait for the page be tried again now.
func (e *Elicitation) Retry() { e.page.Retry() }

// Cancel gives the page up: the calls that wait for it end with the server's error, and
// those under way that have led to it are cancelled, with [ErrPageGivenUp].
func (e *Elicitation) Cancel() { e.page.GiveUp() }

// Elicitations returns what is pending, the oldest first.
func (c *Client) Elicitations() []*Elicitation {
	pages := c.questions.asks.Pages()
	out := make([]*Elicitation, len(pages))
	for i, p := range pages {
		out[i] = &Elicitation{Server: c.server.Name, URL: URLView(p.View), Since: p.Since, Expires: p.Expires(), page: p}
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

// maxReopened bounds how often one page is opened again.
const maxReopened = 32

// errPageCompleted is why a page is not shown any more.
var errPageCompleted = errors.New("the page is completed")

// pageDone reports the end of a page to the program that has passed it on.
func (q *questions) pageDone(view *asks.PageView, ids []string, err error) {
	if q.opts.OnPageDone == nil || len(ids) == 0 {
		return
	}
	_, panicked := actors.Guard(func() (struct{}, error) {
		q.opts.OnPageDone(PageDone{Server: q.server.Name, Asks: ids, URL: URLView(*view), Err: err})
		return struct{}{}, nil
	})
	if panicked != nil {
		q.log.Error("OnPageDone panicked", "error", panicked)
	}
}

// showPage shows an open page to the person who has agreed to it, if their Human can,
// until it is over or no call is left that it is for. It does not block. The note says
// what is to be known of the page; it may be empty.
func (q *questions) showPage(o *asks.Origin, p *asks.Page, message, note string) {
	human, _ := o.Human(q.opts.Human, q.opts.OnePerson)
	if b, ok := human.(*boxed); ok {
		human = b.Human
	}
	pages, ok := human.(PageHuman)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if !p.Shown(cancel, len(o.Live()) > 0) {
		cancel(nil)
		return
	}
	p.Wait(func(err error) { // at once, if it is over
		if err == nil {
			err = errPageCompleted
		}
		cancel(err)
	})
	release := func() {}
	if o.Hold != nil {
		release = o.Hold()
	}
	q.sys.Go("a page of "+q.server.Name, func() {
		defer cancel(nil)
		defer release()
		q.awaitPage(ctx, o, p, pages, message, note)
	})
}

// awaitPage does what the person says until the page is over.
func (q *questions) awaitPage(ctx context.Context, o *asks.Origin, p *asks.Page, human PageHuman, message, note string) {
	for range maxReopened {
		a := &Ask{Kind: AskPage, Message: message, URL: (*URLView)(&p.View), Expires: p.Expires()}
		if note != "" {
			a.Notes = []string{note}
		}
		if err := q.describe(o, a); err != nil || ctx.Err() != nil {
			return
		}
		d, err := actors.Guard(func() (*Decision, error) { return human.AwaitPage(ctx, a) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || d == nil:
			q.log.Info("a page that is open is not shown any more", "host", p.View.Host, "error", err)
			return
		case d.Hash != "" && d.Hash != a.Hash:
			q.log.Warn("an answer about a page is about another one; it is ignored", "host", p.View.Host)
			return
		}
		switch d.Page {
		case PageRetry:
			p.Retry()
			return
		case PageCancel:
			p.GiveUp()
			return
		case PageOpen:
			if note, err = q.openPage(ctx, (*URLView)(&p.View), false); err != nil {
				note = "The page could not be opened: open it yourself."
				q.log.Warn("a page could not be opened again", "host", p.View.Host, "error", err)
			}
		default:
			return
		}
	}
}
