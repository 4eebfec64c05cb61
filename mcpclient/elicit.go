package mcpclient

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/catalogue"
)

type formQuestion struct {
	*questions
	params *mcp.ElicitParams
	form   *form.Form
}

// Answer implements [asks.Question]: it shows the form. What is sent has the defaults of what was left open, and
// fits the schema.
func (q *formQuestion) Answer(ctx context.Context, o *asks.Origin) (json.RawMessage, error) {
	d := q.decide(ctx, o, &Ask{Kind: AskForm, Message: q.params.Message, Form: q.params})
	res := &mcp.ElicitResult{Action: d.Action}
	if d.Action == mcp.ActionAccept {
		content, err := q.form.Complete(d.Content)
		if err != nil { // a mistake of the Human: nothing of it leaves
			q.log.Warn("the answer to a form does not fit it; it counts as dismissed", "error", err)
			res.Action = mcp.ActionCancel
		} else if res.Content = content; content == nil {
			res.Content = map[string]json.RawMessage{}
		}
		if extra := q.form.Foreign(d.Content); len(extra) > 0 {
			q.log.Debug("the answer to a form has fields that the form does not have; they are not sent", "fields", len(extra), "first", sanitize.Line(extra[0], catalogue.MaxName))
		}
	}
	return mcp.Marshal(res)
}

// urlQuestion is a page that is to be opened.
type urlQuestion struct {
	*questions
	params *mcp.ElicitParams
	view   *URLView
}

// Answer implements [asks.Question]: it asks for consent, and opens the page with it: accept says no more than
// that. In 2025-11-25 the elicitation then is pending; see [Client.Elicitations].
func (q *urlQuestion) Answer(ctx context.Context, o *asks.Origin) (json.RawMessage, error) {
	action, _ := q.consent(ctx, o)
	return mcp.Marshal(&mcp.ElicitResult{Action: action}) // ELIC-04
}

// View implements [asks.URLQuestion].
func (q *urlQuestion) View() (*asks.PageView, string) {
	return (*asks.PageView)(q.view), q.params.Message
}

// Consent implements [asks.URLQuestion].
func (q *urlQuestion) Consent(ctx context.Context, o *asks.Origin) *asks.Page {
	_, p := q.consent(ctx, o)
	return p
}

// consent returns the action. With accept the page was opened; where the server can
// say that it is completed, or the call has to be retried by hand, it is pending.
func (q *urlQuestion) consent(ctx context.Context, o *asks.Origin) (action string, p *asks.Page) {
	ask := &Ask{Kind: AskURL, Message: q.params.Message, URL: q.view}
	d := q.decide(ctx, o, ask)
	if d.Action != mcp.ActionAccept {
		return d.Action, nil
	}
	p, err := q.asks.Open((*asks.PageView)(q.view), ask.ID) // before the server can complete it
	if err != nil {
		q.log.Warn("a page is not opened", "error", err)
		return mcp.ActionDecline, nil
	}
	note, err := q.openPage(ctx, q.view, d.ByHand)
	if err != nil {
		q.log.Warn("the browser cannot be started", "error", err)
		p.Cancel(err)
		return mcp.ActionCancel, nil // ELIC-05
	}
	for _, t := range o.Live() {
		t.Opened(p, q.params.Message)
	}
	q.showPage(o, p, q.params.Message, note)
	return mcp.ActionAccept, p
}

// openPage opens a page, unless the person does so. The note is to be shown where the
// browser did not open it; the person has agreed to visit it all the same (URL-03).
func (q *questions) openPage(ctx context.Context, view *URLView, byHand bool) (note string, err error) {
	if byHand {
		return "You open the page yourself.", nil
	}
	err = q.opts.OpenURL(ctx, view.URL) // URL-10: nothing else of ours looks at it
	if errors.Is(err, ErrNoBrowser) {
		q.log.Warn("a page is to be opened by hand", "host", view.Host, "error", err)
		return "No browser could be started here: open the page yourself.", nil
	}
	return "", err
}
