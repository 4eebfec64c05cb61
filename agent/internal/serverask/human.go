package serverask

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Human answers the questions of a server during one call of a run: it passes them
// to the person who answers for the run.
type Human struct{ Call *loop.Call }

// Owner implements [mcpclient.Owned]: all calls of a run have the same, those of two
// runs never.
func (h *Human) Owner() any { return h.Call.Run }

// kinds are the kinds of questions in the journal.
var kinds = map[mcpclient.AskKind]string{
	mcpclient.AskForm: runlog.AskForm, mcpclient.AskURL: runlog.AskURL, mcpclient.AskSampling: runlog.AskSampling,
	mcpclient.AskSample: runlog.AskSample, mcpclient.AskTool: runlog.AskDefinition,
	mcpclient.AskPage: runlog.AskPage, mcpclient.AskLogin: runlog.AskLogin,
}

// Decide implements [mcpclient.Human].
func (h *Human) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	d, err := h.ask(ctx, ask)
	if err != nil {
		return nil, err
	}
	return decided(d), nil
}

func (h *Human) ask(ctx context.Context, ask *mcpclient.Ask) (store.Decision, error) {
	payload, err := jsonx.Marshal(ask)
	if err != nil {
		return store.Decision{}, fmt.Errorf("writing the question down: %w", err)
	}
	return h.Call.Ask(ctx, loop.Question{Kind: kinds[ask.Kind], Payload: payload, Hash: ask.Hash, Expires: ask.Expires})
}

// AwaitPage implements [mcpclient.PageHuman]: the page is a question of the run for as long
// as it is open. One that expires before the page is asked again.
func (h *Human) AwaitPage(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
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
func (h *Human) AwaitLogin(l *mcpclient.Login, resume func(error)) (leave func()) {
	asked, err := LoginOf(l)
	if err != nil {
		resume(err)
		return func() {}
	}
	return h.Call.AwaitLogin(asked, resume)
}

// LoginOf returns a login as a run waits for it.
func LoginOf(l *mcpclient.Login) (loop.Login, error) {
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
func (h *Human) Declined(kind mcpclient.AskKind, why error) {
	h.Call.DeclinedUnasked(kinds[kind], why.Error())
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

// Read reads a server's question from its row; it is nil if the row is malformed. A
// question that differs from the one that was asked is replaced by one without contents,
// so that a person agrees to nothing by it (SECA-41).
func Read(row *store.Ask) *mcpclient.Ask {
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
