// Package dialogue puts the questions of a handler to its client: as requests of a legacy
// session, in the rounds of 2026-07-28, or through a task. It keeps what was asked and
// answered, seals that in tickets, and finds the call of a request that brings one back.
package dialogue

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/invocation"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
	"github.com/troupe-dev/troupe/store"
)

// Host is the server whose handlers ask. All fields are needed.
type Host struct {
	Calls     *invocation.Calls
	Forms     questions.Forms
	Pages     *pages.Pages
	Sealer    *ticket.Sealer
	Records   store.Records
	TicketTTL time.Duration // how long a client may take for an answer
	PageWait  time.Duration // how long a client of 2026-07-28 waits for a page in one round
	NoParking bool          // handlers run again for each round
	Suspended error         // what ends a handler that is to run again
	// Public makes of an error of package questions what handlers know.
	Public func(error) error
	// Encode encodes a result as the server sends it.
	Encode func(result any, v mcp.Version) ([]byte, error)
}

// Request is one round of a call. It is the context of work for that round alone.
type Request interface {
	context.Context
	invocation.Request
	Sender() Sender
	// Binding is what the tickets of the request belong to.
	Binding() ticket.Binding
	// Size is how many bytes a parked handler keeps of the request.
	Size() int64
	// Brought returns inputResponses and requestState as they came, nil when absent.
	Brought() (responses, state json.RawMessage)
	// Join sets the call that the request belongs to, and leaves that if the request is over.
	Join(c *Call)
	// Questions returns the requests to a legacy client, which go out by Carry. The error
	// says that the client cannot be asked any more.
	Questions(ctx context.Context) (*call.Table, error)
	// Carry sends a frame on the stream of the request, and reports false if that is over.
	Carry(frame []byte) bool
	// Await may wait until a question has its outcome, or one of the contexts has ended: it returns as soon as the
	// handler, on whose goroutine it is called, is to wait as others do.
	Await(ctx, handler context.Context, question *call.Call)
	// Hold keeps the request's limit of time from running, until release.
	Hold() (release func())
}

// Sender is the client that a request comes from.
type Sender struct {
	Version   mcp.Version
	Declared  *mcp.ClientCapabilities
	Principal string    // its ID; empty for an anonymous sender
	Expiry    time.Time // of the principal's token; zero is never
	Session   pages.Session
	Task      Task // that the handler works for; nil for none
}

// Can is what the client has declared for the request (CAP-05).
func (s *Sender) Can() *mcp.ClientCapabilities { return s.Declared.For(s.Version) }

// InRounds reports whether the client is asked in rounds.
func (s *Sender) InRounds() bool { return s.Version.Era() == mcp.EraModern && s.Task == nil }

// Task is a task that a handler has become: its questions go another way.
type Task interface {
	// Ask puts questions to a client of 2026-07-28, and waits for all answers.
	Ask(ctx context.Context, requests mcp.InputRequests) (mcp.InputResponses, error)
	// Asking says that a question to a legacy client is open, until answered.
	Asking() (answered func())
	// Mark adds to the params of such a question that it is the task's.
	Mark(params json.RawMessage) json.RawMessage
}

// Call is a handler's call with its dialogue.
type Call struct {
	invocation.Invocation
	Owner any // what the server knows the call by

	host  *Host
	first Request              // whose arguments the handler has
	talk  atomic.Pointer[talk] // nil before the handler asks, or does something once
	given *given               // to a handler in retry style after its first round; set while the handler does not run
}

// talk is what a handler has asked, was answered and has done once.
type talk struct {
	turn chan struct{} // has the place of the goroutine that asks
	once onceTable
	skip atomic.Int32 // answers that belong to work that was done once
	rounds
}

// given is what a handler in retry style gets in its next round.
type given struct {
	responses mcp.InputResponses
	state     string
}

// ticket is what the client brings back.
func (t *talk) ticket(until time.Time, state *string) *ticket.Ticket {
	if t.call == "" {
		t.call = uuid.NewString()
	}
	return &ticket.Ticket{
		Flow: t.call, Round: t.round, Until: until,
		Answers: t.answers, Once: t.once.results(), Asked: t.asked, Got: t.got, Waits: t.waits, State: state,
	}
}

// size is how many bytes are kept of the talk, as JSON and as what was decoded from it.
func (t *talk) size() int64 {
	size := t.once.size()
	for _, a := range t.answers {
		size += 2 * int64(len(a.Result))
	}
	return size
}

// Begin makes c the call of a handler with the arguments of first, and with the ticket of
// an earlier call if that has an id. Waits is the request that waits for it. Values of its
// context are those of base.
func (h *Host) Begin(c *Call, id string, first, waits Request, base context.Context) {
	c.host, c.first, c.Handler = h, first, c
	c.Invocation.Begin(h.Calls, id, waits, base)
}

// Of returns the call of an invocation, nil for none.
func Of(n *invocation.Invocation) *Call {
	if n == nil {
		return nil
	}
	return n.Handler.(*Call)
}

// live is the request that the handler works for now, or has worked for.
func (c *Call) live() Request { return c.Current().(Request) }

// talking returns the talk, made by the first goroutine that needs it.
func (c *Call) talking() *talk {
	if c.talk.Load() == nil {
		c.talk.CompareAndSwap(nil, &talk{turn: make(chan struct{}, 1)})
	}
	return c.talk.Load()
}

// Carry implements [pages.Call].
func (c *Call) Carry(frame []byte) bool { return c.live().Carry(frame) }

// enter waits for the turn to ask: one question after the other, or the questions of a
// handler that runs again would not be those that were asked. Without an error leave must
// follow.
func (c *Call) enter(ctx context.Context) (*talk, error) {
	t := c.talking()
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.Context().Done():
		return nil, c.Cause()
	}
	if err := c.Cause(); err != nil {
		t.leave()
		return nil, err
	}
	return t, nil
}

// leave gives the turn to the next goroutine.
func (t *talk) leave() { <-t.turn }

// openPage makes the elicitation of a question by URL, unless it has one: its own, or that of an
// earlier round.
func (c *Call) openPage(q *questions.Question) (err error) {
	if q.Page == nil {
		return nil
	}
	sender := c.live().Sender()
	if q.Page.ID == "" {
		if q.Page.ID, err = c.host.Pages.Make(c.Context(), sender.Principal, 0); err != nil {
			return err
		}
	}
	if !sender.Version.Has(mcp.FeatureElicitationIDs) {
		return nil // the handler that waits for it opens it
	}
	return c.host.Pages.Announce(c.Context(), sender.Principal, q.Page.ID, pages.Client{Session: sender.Session, Call: c})
}

// waitForPage waits until the page is done, or for [pages.ErrLater] if there is a limit.
func (c *Call) waitForPage(ctx context.Context, q *questions.Question, limit <-chan time.Time) error {
	sender := c.live().Sender()
	return c.host.Pages.Wait(ctx, c.Context(), sender.Session, sender.Principal, q.Page.ID, limit)
}
