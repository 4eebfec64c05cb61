package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// callHuman answers the questions of a server during one call of a run: it passes them
// to the person who answers for the run.
type callHuman struct{ call *loop.Call }

// Owner implements [mcpclient.Owned]: all calls of a run have the same, those of two
// runs never.
func (h *callHuman) Owner() any { return h.call.Run }

// kinds are the kinds of questions in the journal.
var kinds = map[mcpclient.AskKind]string{
	mcpclient.AskForm: runlog.AskForm, mcpclient.AskURL: runlog.AskURL, mcpclient.AskSampling: runlog.AskSampling,
	mcpclient.AskSample: runlog.AskSample, mcpclient.AskTool: runlog.AskDefinition,
	mcpclient.AskPage: runlog.AskPage, mcpclient.AskLogin: runlog.AskLogin,
}

// Decide implements [mcpclient.Human].
func (h *callHuman) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	d, err := h.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	return decided(d), nil
}

func (h *callHuman) ask(ctx context.Context, ask *mcpclient.Ask) (store.Decision, error) {
	payload, err := jsonx.Marshal(ask)
	if err != nil {
		return store.Decision{}, fmt.Errorf("writing the question down: %w", err)
	}
	return h.call.Ask(ctx, loop.Question{Kind: kinds[ask.Kind], Payload: payload, Hash: ask.Hash, Expires: ask.Expires})
}

// AwaitPage implements [mcpclient.PageHuman]: the page is a question of the run for as long
// as it is open. One that expires before the page is asked again.
func (h *callHuman) AwaitPage(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	for {
		d, err := h.ask(ctx, ask)
		switch {
		case err != nil:
			return nil, err
		case d.Status == store.AskExpired && time.Now().Before(ask.Expires):
			continue
		}
		return decided(d), nil
	}
}

// AwaitLogin implements [mcpclient.LoginHuman]: the run has one question for all its calls that
// wait for the same server.
func (h *callHuman) AwaitLogin(l *mcpclient.Login, resume func(error)) (leave func()) {
	asked, err := loginOf(l)
	if err != nil {
		resume(err)
		return func() {}
	}
	return h.call.AwaitLogin(asked, resume)
}

// loginOf returns a login as a run waits for it.
func loginOf(l *mcpclient.Login) (loop.Login, error) {
	ask, err := l.Ask()
	if err != nil {
		return loop.Login{}, fmt.Errorf("writing the question down: %w", err)
	}
	payload, err := jsonx.Marshal(ask)
	if err != nil {
		return loop.Login{}, fmt.Errorf("writing the question down: %w", err)
	}
	return loop.Login{Server: ask.Server, Origin: ask.Origin, Payload: payload, Hash: ask.Hash, Wait: l.Wait}, nil
}

// Declined implements [mcpclient.DeclineRecorder]: the run's journal says that a question
// was declined without being asked.
func (h *callHuman) Declined(kind mcpclient.AskKind, why error) {
	h.call.DeclinedUnasked(kinds[kind], why.Error())
}

// decided is a decision as the server's client takes it. A missing answer is no yes.
func decided(d store.Decision) *mcpclient.Decision {
	out := new(mcpclient.Decision)
	switch d.Status {
	case store.AskAccepted:
		if len(d.Answer) > 0 && jsonx.Unmarshal(d.Answer, out) != nil {
			return &mcpclient.Decision{Action: mcp.ActionCancel} // it was given by something else
		}
		out.Action = mcp.ActionAccept
	case store.AskDeclined:
		var page struct {
			Page mcpclient.PageAction `json:"page"`
		}
		if len(d.Answer) > 0 && jsonx.Unmarshal(d.Answer, &page) == nil {
			out.Page = page.Page
		}
		out.Action = mcp.ActionDecline
	case store.AskExpired:
		out.Action = mcp.ActionDecline
	default:
		out.Action = mcp.ActionCancel
	}
	return out
}

// questionOf reads a server's question from its row; it is nil if the row is malformed. A
// question that differs from the one that was asked is replaced by one without contents,
// so that a person agrees to nothing by it (SECA-41).
func questionOf(row *store.Ask) *mcpclient.Ask {
	q := new(mcpclient.Ask)
	if jsonx.Unmarshal(row.Payload, q) != nil {
		return nil
	}
	if hash, err := q.ContentHash(); err != nil || hash != row.Hash {
		q = &mcpclient.Ask{Kind: q.Kind, Message: "What is stored of this question is not what was asked."}
	}
	q.ID, q.Server, q.Origin, q.Path, q.Expires = row.ID, row.Server, row.Origin, row.Path, row.Expires
	return q
}

// Fill accepts a server's form with these values. Fields that are left out have
// their defaults; values that do not fit the form are refused before they are sent, and
// the server gets a dismissal.
func Fill(values map[string]any) (Decision, error) {
	content := make(map[string]json.RawMessage, len(values))
	for name, v := range values {
		raw, err := jsonx.Marshal(v)
		if err != nil {
			return Decision{}, fmt.Errorf("the value of %q: %w", name, err)
		}
		content[name] = raw
	}
	return DecideAs(&mcpclient.Decision{Action: mcp.ActionAccept, Content: content})
}

// DecideAs answers a server's question with the decision of a [mcpclient.Human], a
// prompter for example.
func DecideAs(d *mcpclient.Decision) (Decision, error) {
	if d.Page != "" {
		return pageDecision(d.Page), nil
	}
	out := store.Decision{By: "program", Scope: "once"}
	switch d.Action {
	case mcp.ActionAccept:
		raw, err := jsonx.Marshal(d)
		if err != nil {
			return Decision{}, fmt.Errorf("writing the answer down: %w", err)
		}
		out.Status, out.Answer = store.AskAccepted, raw
	case mcp.ActionDecline:
		out.Status, out.Scope = store.AskDeclined, ""
	case mcp.ActionCancel:
		out.Status, out.Scope = store.AskCancelled, ""
	default:
		return Decision{}, fmt.Errorf("unknown action %q: want accept, decline or cancel", d.Action)
	}
	return Decision{out}, nil
}
