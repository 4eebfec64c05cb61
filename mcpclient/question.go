package mcpclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// decide puts a question to the person that it is for, and waits for the answer, at
// most until it expires. It is never nil: what can not be asked is declined, and what
// is of no use any more is cancelled (ELIC-05).
func (c *Client) decide(ctx context.Context, o *origin, a *Ask) *Decision {
	d, err := c.ask(ctx, o, a)
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
	case errors.Is(err, errNobody), errors.Is(err, errTooMany), errors.Is(err, errDeclined):
		c.declinedUnasked(o, a, err)
		return &Decision{Action: mcp.ActionDecline}
	case errors.Is(err, errExpired):
		c.log.Warn("a question of the server is declined: it has expired", "kind", a.Kind.String())
		return &Decision{Action: mcp.ActionDecline}
	}
	c.log.Info("a question of the server was not answered", "kind", a.Kind.String(), "error", err)
	return &Decision{Action: mcp.ActionCancel}
}

// ask is decide with the reason for which there is no answer.
func (c *Client) ask(ctx context.Context, o *origin, a *Ask) (*Decision, error) {
	human, why := o.human(c.opts.Human, c.opts.OnePerson)
	switch {
	case human != nil && human != Nobody:
	case why != nil:
		return nil, fmt.Errorf("%w: %w", errNobody, why)
	default:
		return nil, errNobody
	}
	if a.Kind == AskURL && !c.asks.limits.gates().urls.Allow() {
		return nil, errTooMany
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.Expires = time.Now().Add(c.opts.AskExpiry)
	ctx, stop := context.WithDeadlineCause(ctx, a.Expires, errExpired)
	defer stop()
	defer o.onGone(func() { cancel(errGone) })()

	leave, err := c.asks.limits.enter(cancel)
	if err != nil {
		return nil, err
	}
	for _, t := range o.live() {
		t.wait(1)
		defer t.wait(-1)
	}
	done, err := c.asks.limits.turn(ctx, a.Kind)
	if err != nil {
		leave()
		return nil, err
	}
	if err := c.describe(o, a); err != nil {
		done()
		leave()
		return nil, err
	}
	// Not on this goroutine: a Human that does not heed ctx keeps its place under the
	// limits, but not the server waiting.
	reply, shown := new(actors.Reply[*Decision]), *a
	c.sys.Go("asking about "+c.server.Name, func() {
		d, err := actors.Guard(func() (*Decision, error) { return human.Decide(ctx, &shown) })
		done()
		leave()
		reply.Complete(d, err)
	})
	return reply.Wait(ctx)
}

// describe says who asks, and for which calls. None of it comes from the server
// (SECA-34).
func (c *Client) describe(o *origin, a *Ask) error {
	a.ID = rand.Text()
	a.Server, a.Origin = c.server.Name, c.server.origin()
	a.Calls, a.Path, a.Notes = o.asked(), o.path(), append(o.doubts(), a.Notes...)
	var err error
	a.Hash, err = a.ContentHash()
	return err
}

// ContentHash returns what Hash is for what the Ask holds now: for faces that have it
// from a store, and must know that it is what was asked (SECA-41).
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
	}{a.Kind.String(), a.Server, a.Origin, a.Message, a.Calls, a.Path, a.Notes, a.Form, a.URL, a.Sampling, a.Sample, a.Tool, a.Before})
	if err == nil {
		raw, err = jsonx.Canonical(raw)
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

// origin says where a server is, as the configuration has it.
func (s *Server) origin() string {
	switch {
	case s.Command != "":
		return s.CommandLine()
	case s.Connect != nil:
		return "in this process"
	case s.stream != nil:
		return "a byte stream"
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme == "" {
		return s.URL
	}
	if u.Host == "" { // a socket
		return u.Scheme + "://" + u.Path
	}
	return u.Scheme + "://" + u.Host
}
