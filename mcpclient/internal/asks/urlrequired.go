package asks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// urlRequired is the answer -32042 of 2025-11-25 (URL-40, URL-41): each of its pages
// is asked about, and when all are completed, or a person says so, the call is tried
// again. False leaves the error as it is: to other revisions, and to us if we have
// not declared URLs, it means nothing (URL-42, URL-43).
func (t *Call) urlRequired(e *mcp.Error) (call.Step, bool) {
	a := t.asks
	v := a.Version()
	caps := a.Declared().For(v)
	pages, ok := e.URLElicitations()
	if !ok || !v.Has(mcp.FeatureElicitationIDs) || !caps.ElicitURL() || len(pages) > MaxEntries || t.urlRounds >= MaxURLRounds {
		return call.Step{}, false
	}
	t.urlRounds++
	inputs := make([]input, 0, len(pages))
	w := &pageWait{tag: t, err: e, aborts: make([]atomic.Pointer[func()], len(pages))}
	w.left.Store(int32(len(pages)))
	for i, p := range pages {
		q, err := a.ParseURL(v, p)
		if err != nil {
			a.Log.Warn("a page that the server wants opened is refused", "error", err)
			return call.Step{}, false
		}
		inputs = append(inputs, input{fmt.Sprint(i), mcp.MethodElicit, &requiredURL{q, w, i}})
	}
	return call.Step{Wait: func(resume func(call.Step)) func(error) {
		w.resume = resume
		ctx, cancel := context.WithCancelCause(context.Background())
		w.ctx = ctx
		t.LeaveTurn(false) // it may be an hour; the server has no request of the call meanwhile
		t.Wait(1)
		abort := a.askAll(&Origin{Version: v, Calls: []*Call{t}}, inputs, func(_ mcp.InputResponses, err error) {
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

// URLQuestion is a page that the server wants opened.
type URLQuestion interface {
	// View returns the page, and the server's words about it.
	View() (*PageView, string)
	// Consent asks for consent, opens the page with it, and returns it; nil without consent.
	Consent(ctx context.Context, o *Origin) *Page
}

// errNotOpened ends a call whose user does not want the page.
var errNotOpened = errors.New("the page was declined")

// requiredURL is one page: answered as soon as the user has agreed to it, so that
// nothing but its elicitation waits for what then happens there.
type requiredURL struct {
	URLQuestion
	wait  *pageWait
	index int // among the pages
}

// Answer implements [Question].
func (q *requiredURL) Answer(ctx context.Context, o *Origin) (json.RawMessage, error) {
	view, message := q.View()
	p := q.wait.tag.asks.pages.known(view) // another call has asked for it
	if p == nil {
		if p = q.Consent(ctx, o); p == nil {
			return nil, errNotOpened
		}
	} else {
		q.wait.tag.Opened(p, message)
	}
	q.wait.add(q.index, p)
	return nil, nil
}

// pageWait is a call that waits for its pages.
type pageWait struct {
	tag    *Call
	err    *mcp.Error // the server's
	resume func(call.Step)
	ctx    context.Context // ends with the call, if that waits

	left   atomic.Int32 // pages that are not completed
	over   atomic.Bool
	aborts []atomic.Pointer[func()] // of each page that is waited for
}

// add waits for one more of the pages.
func (w *pageWait) add(i int, p *Page) {
	abort := p.Wait(w.completed)
	w.aborts[i].Store(&abort)
	if w.over.Load() {
		w.leave(i)
	}
}

// leave ends the wait for one page.
func (w *pageWait) leave(i int) {
	if abort := w.aborts[i].Swap(nil); abort != nil {
		(*abort)()
	}
}

// completed is the end of a page.
func (w *pageWait) completed(err error) {
	if err != nil {
		w.end(err)
		return
	}
	if w.left.Add(-1) == 0 && w.abort() {
		w.tag.asks.System.Go("a call whose pages are completed", w.goOn)
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
	if w.tag.Again == nil {
		again(nil)
		return
	}
	w.tag.Again(w.ctx, again)
}

// end fails the call with the server's error, and why it came to that.
func (w *pageWait) end(why error) {
	if w.abort() {
		w.resume(call.Step{Outcome: &call.Outcome{Err: fmt.Errorf("%w: %w", w.err, why)}})
	}
}

// abort ends the wait and reports whether it was the first to do so.
func (w *pageWait) abort() (first bool) {
	if !w.over.CompareAndSwap(false, true) {
		return false
	}
	for i := range w.aborts {
		w.leave(i)
	}
	w.tag.Wait(-1)
	return true
}
