// showpage.go: what a person sees, and can do, while a page is open (URL-17).

package mcpclient

import (
	"context"
	"errors"

	"github.com/troupe-dev/troupe/actors"
)

// maxReopened bounds how often one page is opened again.
const maxReopened = 32

// Why a page is not shown any more.
var (
	errPageCompleted = errors.New("the page is completed")
	errPageUnneeded  = errors.New("no call waits for the page any more")
)

// join adds a call that the page is for, leave takes it out; with the last one the page
// is not shown any more.
func (p *page) join(t *callTag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = make(map[*callTag]struct{})
	}
	p.calls[t] = struct{}{}
}

func (p *page) leave(t *callTag) {
	p.mu.Lock()
	delete(p.calls, t)
	hide := p.hide
	if len(p.calls) > 0 {
		hide = nil
	}
	p.mu.Unlock()
	if hide != nil {
		hide(errPageUnneeded)
	}
}

// giveUp ends the page and the calls that it is for: those that wait for it with its end,
// those that the server still works on by cancelling them.
func (p *page) giveUp() {
	p.mu.Lock()
	calls := make([]*callTag, 0, len(p.calls))
	for t := range p.calls {
		calls = append(calls, t)
	}
	p.mu.Unlock()
	p.Cancel(ErrPageGivenUp)
	for _, t := range calls {
		t.client.conn.CancelTagged(t, ErrPageGivenUp)
	}
}

// shown notes how to end that the page is shown. It reports false if it is shown already,
// or if all calls that it was for have ended.
func (p *page) shown(hide func(cause error), ofCalls bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hide != nil || ofCalls && len(p.calls) == 0 {
		return false
	}
	p.hide = hide
	return true
}

// showPage shows an open page to the person who has agreed to it, if their Human can,
// until it is over or no call is left that it is for. It does not block. The note says
// what is to be known of the page; it may be empty.
func (c *Client) showPage(o *origin, p *page, message, note string) {
	human, _ := o.human(c.opts.Human, c.opts.OnePerson)
	if b, ok := human.(*boxed); ok {
		human = b.Human
	}
	pages, ok := human.(PageHuman)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	if !p.shown(cancel, len(o.live()) > 0) {
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
	if o.hold != nil {
		release = o.hold()
	}
	c.sys.Go("a page of "+c.server.Name, func() {
		defer cancel(nil)
		defer release()
		c.awaitPage(ctx, o, p, pages, message, note)
	})
}

// awaitPage does what the person says until the page is over.
func (c *Client) awaitPage(ctx context.Context, o *origin, p *page, human PageHuman, message, note string) {
	for range maxReopened {
		a := &Ask{Kind: AskPage, Message: message, URL: &p.view, Expires: p.Expires()}
		if note != "" {
			a.Notes = []string{note}
		}
		if err := c.describe(o, a); err != nil || ctx.Err() != nil {
			return
		}
		d, err := actors.Guard(func() (*Decision, error) { return human.AwaitPage(ctx, a) })
		switch {
		case ctx.Err() != nil:
			return
		case err != nil || d == nil:
			c.log.Info("a page that is open is not shown any more", "host", p.view.Host, "error", err)
			return
		case d.Hash != "" && d.Hash != a.Hash:
			c.log.Warn("an answer about a page is about another one; it is ignored", "host", p.view.Host)
			return
		}
		switch d.Page {
		case PageRetry:
			p.Retry()
			return
		case PageCancel:
			p.giveUp()
			return
		case PageOpen:
			if note, err = c.openPage(ctx, &p.view, false); err != nil {
				note = "The page could not be opened: open it yourself."
				c.log.Warn("a page could not be opened again", "host", p.view.Host, "error", err)
			}
		default:
			return
		}
	}
}
