package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/troupe-dev/troupe/mcpclient/internal/pool"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// urlRequired is the answer -32042 of 2025-11-25 (URL-40, URL-41): each of its pages
// is asked about, and when all are completed, or somebody says so, the call is tried
// again. False leaves the error as it is: to other revisions, and to us if we have
// not declared URLs, it means nothing (URL-42, URL-43).
func (t *callTag) urlRequired(e *mcp.Error) (call.Step, bool) {
	c := t.client
	v := c.info.Load().Version
	caps := c.declared().For(v)
	pages, ok := e.URLElicitations()
	if !ok || !v.Has(mcp.FeatureElicitationIDs) || !caps.ElicitURL() || len(pages) > maxEntries || t.urlRounds >= maxURLRounds {
		return call.Step{}, false
	}
	t.urlRounds++
	inputs := make([]input, 0, len(pages))
	w := &pageWait{tag: t, err: e, left: len(pages)}
	for i, p := range pages {
		q, err := parseURL(v, p)
		if err != nil {
			c.log.Warn("a page that the server wants opened is refused", "error", err)
			return call.Step{}, false
		}
		inputs = append(inputs, input{fmt.Sprint(i), mcp.MethodElicit, &requiredURL{q, w}})
	}
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		w.resume = resume
		ctx, cancel := context.WithCancelCause(context.Background())
		w.ctx = ctx
		t.leaveTurn(false) // it may be an hour; the server has no request of the call meanwhile
		t.wait(1)
		abort := c.askAll(&origin{version: v, calls: []*callTag{t}}, inputs, func(_ mcp.InputResponses, err error) {
			if err != nil {
				w.end(err)
			}
		})
		return func(cause error) {
			abort(cause)
			w.abort()
			cancel(cause)
		}
	}}, true
}

// errNotOpened ends a call whose user does not want the page.
var errNotOpened = errors.New("the page was declined")

// requiredURL is one page: answered as soon as the user has agreed to it, so that
// nothing but its elicitation waits for what then happens there.
type requiredURL struct {
	*urlQuestion
	wait *pageWait
}

func (q *requiredURL) answer(ctx context.Context, c *Client, o *origin) (json.RawMessage, error) {
	p := c.asks.pages.known(q.view) // another call has asked for it
	if p == nil {
		var action string
		if action, p = q.consent(ctx, c, o); action != mcp.ActionAccept {
			return nil, errNotOpened
		}
	} else {
		q.wait.tag.opened(p, q.params.Message)
	}
	q.wait.add(p)
	return nil, nil
}

// pageWait is a call that waits for its pages.
type pageWait struct {
	tag    *callTag
	err    *mcp.Error // the server's
	resume func(call.Step)
	ctx    context.Context // ends with the call, if that waits

	mu     sync.Mutex
	left   int // pages that are not completed
	over   bool
	aborts []func()
}

// add waits for one more of the pages.
func (w *pageWait) add(p *page) {
	abort := p.Wait(w.completed)
	w.mu.Lock()
	over := w.over
	if !over {
		w.aborts = append(w.aborts, abort)
	}
	w.mu.Unlock()
	if over {
		abort()
	}
}

// completed is the end of a page.
func (w *pageWait) completed(err error) {
	if err != nil {
		w.end(err)
		return
	}
	w.mu.Lock()
	w.left--
	last := w.left == 0
	w.mu.Unlock()
	if last && w.abort() {
		w.tag.client.sys.Go("a call whose pages are completed", w.goOn)
	}
}

// goOn tries again, in its turn on the instance that it was made on.
func (w *pageWait) goOn() {
	again := func(err error) {
		if err != nil {
			w.resume(call.Step{Outcome: &call.Outcome{Err: err}})
			return
		}
		w.resume(call.Step{Retry: &call.Retry{}})
	}
	t := w.tag
	if t.instance == nil {
		again(nil)
		return
	}
	turn := &pool.Turn{Owner: t.party(nil), Alone: t.client.opts.Serial, Only: t.instance}
	t.instance.Pool().Lend(w.ctx, turn, t.lent(again))
}

// end fails the call with the server's error, and why it came to that.
func (w *pageWait) end(why error) {
	if w.abort() {
		w.resume(call.Step{Outcome: &call.Outcome{Err: fmt.Errorf("%w: %w", w.err, why)}})
	}
}

// abort ends the wait and reports whether it was the first to do so.
func (w *pageWait) abort() (first bool) {
	w.mu.Lock()
	first, w.over = !w.over, true
	aborts := w.aborts
	w.aborts = nil
	w.mu.Unlock()
	for _, abort := range aborts {
		abort()
	}
	if first {
		w.tag.wait(-1)
	}
	return first
}
