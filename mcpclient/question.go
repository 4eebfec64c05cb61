package mcpclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// decide puts a question to the person that it is for, and waits for the answer, at
// most until it expires. It is never nil: what cannot be asked is declined, and what
// is of no use any more is cancelled (ELIC-05).
func (q *questions) decide(ctx context.Context, o *asks.Origin, a *Ask) *Decision {
	d, err := q.ask(ctx, o, a)
	if err == nil {
		switch {
		case d == nil || d.Action == "":
			err = errors.New("the Human gave no answer")
		case d.Hash != "" && d.Hash != a.Hash || d.Action == mcp.ActionAccept && !a.unchanged():
			err = errors.New("the decision is about something else than what was asked")
		case d.Action == mcp.ActionAccept || d.Action == mcp.ActionDecline || d.Action == mcp.ActionCancel:
			return d
		default:
			err = fmt.Errorf("the Human has answered with the unknown action %.40q", d.Action)
		}
	}
	switch {
	case errors.Is(err, asks.ErrUnavailable), errors.Is(err, asks.ErrTooMany), errors.Is(err, asks.ErrDeclined):
		q.declinedUnasked(o, a, err)
		return &Decision{Action: mcp.ActionDecline}
	case errors.Is(err, asks.ErrExpired):
		q.log.Warn("a question of the server is declined: it has expired", "kind", a.Kind.String())
		return &Decision{Action: mcp.ActionDecline}
	}
	q.log.Info("a question of the server was not answered", "kind", a.Kind.String(), "error", err)
	return &Decision{Action: mcp.ActionCancel}
}

// ask is decide with the reason for which there is no answer.
func (q *questions) ask(ctx context.Context, o *asks.Origin, a *Ask) (*Decision, error) {
	who, why := o.Human(q.opts.Human, q.opts.OnePerson)
	human, _ := who.(Human)
	switch {
	case human != nil && human != DeclineAll:
	case why != nil:
		return nil, fmt.Errorf("%w: %w", asks.ErrUnavailable, why)
	default:
		return nil, asks.ErrUnavailable
	}
	a.Expires = time.Now().Add(q.opts.AskExpiry)
	return asks.Show(ctx, q.asks, o, a.Expires, a.Kind == AskURL, func() (func(context.Context) (*Decision, error), error) {
		err := q.describe(o, a)
		shown := *a
		return func(ctx context.Context) (*Decision, error) { return human.Decide(ctx, &shown) }, err
	})
}

// describe says who asks, and for which calls. None of it comes from the server
// (SECA-34).
func (q *questions) describe(o *asks.Origin, a *Ask) error {
	a.ID = rand.Text()
	a.Server, a.Origin = q.server.Name, q.server.origin()
	a.Calls, a.Path, a.Notes = askCalls(o), o.Path(), append(o.Doubts(), a.Notes...)
	var err error
	a.Hash, err = a.ContentHash()
	return err
}

// askCalls are the calls of an origin as an Ask shows them.
func askCalls(o *asks.Origin) []AskCall {
	calls := make([]AskCall, len(o.Calls))
	for i, t := range o.Calls {
		calls[i] = AskCall{Method: t.Method, Name: t.Name}
	}
	return calls
}

// ContentHash returns what Hash is for what the Ask holds now: for faces that have it
// from a store, and must know that it is what was asked.
func (a *Ask) ContentHash() (string, error) {
	raw, err := jsonx.Marshal(struct {
		Kind, Server, Origin, Message string
		Calls                         []AskCall
		Path                          []string
		Notes                         []string `json:",omitempty"`
		Form                          *mcp.ElicitParams
		URL                           *URLView
		Sampling                      *mcp.CreateMessageParams
		Sample                        *mcp.CreateMessageResult
		Tool, Before                  *mcp.Tool
		Login                         *LoginView `json:",omitempty"`
	}{a.Kind.String(), a.Server, a.Origin, a.Message, a.Calls, a.Path, a.Notes, a.Form, a.URL, a.Sampling, a.Sample, a.Tool, a.Before, a.Login})
	if err == nil {
		raw, err = jsonx.Exact(raw)
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// unchanged reports whether the Ask still holds what was shown: what a Human shares
// with it must not be changed in place.
func (a *Ask) unchanged() bool {
	hash, err := a.ContentHash()
	return err == nil && hash == a.Hash
}

// warnDeclined logs that a question is declined unasked, and why.
func (q *questions) warnDeclined(what string, why error) {
	q.asks.Limits.Warning(func() {
		q.log.Warn("a question of the server is declined without being asked", "question", what, "reason", why)
	})
}

// declinedUnasked reports to the log, and to the Humans of the calls that the question may
// belong to, that no person was asked. None of them learns the text of the question: it may
// be for another.
func (q *questions) declinedUnasked(o *asks.Origin, a *Ask, why error) {
	q.warnDeclined(a.Kind.String(), why)
	var told []Human
	for _, t := range o.Calls {
		h, ok := t.Human.(DeclineRecorder)
		if !ok || !t.Notice() || slices.ContainsFunc(told, func(o Human) bool { return asks.Same(o, h) }) {
			continue
		}
		told = append(told, h)
		h.Declined(a.Kind, why)
	}
}

// DeclineAsks declines all questions of the server from now on, those that are open
// included, or no longer does so.
func (c *Client) DeclineAsks(on bool) { c.questions.asks.Limits.Decline(on) }

// DeclineAsks is [Client.DeclineAsks] of a server.
func (h *Host) DeclineAsks(server string, on bool) error {
	c, err := h.Client(server)
	if err == nil {
		c.DeclineAsks(on)
	}
	return err
}
