// probe.go: the first question to a server on a pipe that may be of either era (ERA-03).
//
//	discover sent ──▶ answered ─────────────────────────▶ modern, or legacy
//	     │ ProbeTimeout                                        ▲
//	     ▼                                                     │
//	initialize sent, too ──▶ discover is answered ─────────────┘
//	                    └──▶ initialize is, and discover is not ──▶ legacy
//
// How long a server takes says nothing about its era: one that starts slowly, or on a busy
// machine, answers what it has read in order, server/discover first. One that ignores what
// comes before initialize answers that alone. While neither is answered both are waited
// for, as long as the process lives and the connection has time.

package negotiate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// errSilent is why a server is legacy that has answered initialize and not the question.
var errSilent = errors.New("it has answered initialize, and not " + mcp.MethodDiscover)

// errOldVersions is why a server is legacy that has answered the question.
var errOldVersions = errors.New("it supports none but legacy versions of ours")

// discovered and greeted are the outcomes of the two requests.
type (
	discovered struct {
		res *mcp.DiscoverResult
		err error
	}
	greeted struct {
		res *mcp.InitializeResult
		err error
	}
)

// probePipe finds out the era of a server on a pipe.
func (n *Negotiator) probePipe(ctx context.Context, s *conn.Session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a request that is still out is given up without a word to the server
	question, found, err := n.discoverLater(ctx, s)
	if err != nil {
		return err
	}
	patience := time.NewTicker(n.Probe)
	defer patience.Stop()
	for asked := false; !asked; asked = isOut(s, question) {
		select {
		case d := <-found:
			s.Agree("", nil)
			return n.verdict(ctx, s, d)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-patience.C:
		}
	}
	s.Agree("", nil)
	n.Log.Debug("the server has not answered the probe yet; it is offered a handshake, too")
	offer := n.of(mcp.EraLegacy)[0]
	answer, err := n.initializeLater(ctx, s, offer)
	if err != nil {
		return err
	}
	select {
	case d := <-found:
		return n.verdictOf(ctx, s, d, answer)
	case <-ctx.Done():
		return context.Cause(ctx)
	case g := <-answer:
		if !isOut(s, question) {
			// The question was answered before, and its outcome is on its way.
			answer <- g
			select {
			case d := <-found:
				return n.verdictOf(ctx, s, d, answer)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return n.legacy(ctx, s, errSilent, &g)
	}
}

// isOut reports whether the request with a tag was sent and has no answer.
func isOut(s *conn.Session, tag any) bool {
	return slices.ContainsFunc(s.Out(), func(o call.OutCall) bool { return o.Tag == tag })
}

// verdictOf is [Negotiator.verdict] for a server to which initialize was sent, too: its
// answer is that of the handshake if the server is a legacy one, and is ignored if not.
func (n *Negotiator) verdictOf(ctx context.Context, s *conn.Session, d discovered, answer <-chan greeted) error {
	if !n.takesHandshake(d) {
		return n.verdict(ctx, s, d)
	}
	select {
	case g := <-answer:
		return n.legacy(ctx, s, cmp.Or(d.err, errOldVersions), &g)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takesHandshake reports whether the outcome of the question leaves nothing but a handshake
// on this connection (ERA-03, ERA-06).
func (n *Negotiator) takesHandshake(d discovered) bool {
	if errors.Is(d.err, call.ErrConnectionLost) {
		return false
	}
	theirs, modern := modernError(d.err)
	if d.err == nil {
		theirs, modern = d.res.SupportedVersions, true
	}
	if !modern {
		return true
	}
	_, both := mcp.Newest(n.of(mcp.EraModern), theirs)
	_, old := mcp.Newest(n.of(mcp.EraLegacy), theirs)
	return !both && old
}

// discoverLater sends server/discover. The outcome comes on the channel; the tag is that of
// the request.
func (n *Negotiator) discoverLater(ctx context.Context, s *conn.Session) (tag any, found <-chan discovered, err error) {
	members, err := modernMembers(n.of(mcp.EraModern)[0], n.Client, n.Declared())
	if err != nil {
		return nil, nil, err
	}
	s.Agree("", members) // a question, no agreement: a legacy server may ping meanwhile
	out, tag := make(chan discovered, 1), new(int8)
	req := &call.Request{Method: mcp.MethodDiscover, Idle: -1, Max: -1, Tag: tag, Late: func(call.Result) {}} // ERA-08
	s.Go(ctx, req, func(raw call.Result, err error) {
		var d discovered
		if d.err = err; err == nil {
			d.res, d.err = readDiscovered(raw.Raw)
		}
		out <- d
	})
	return tag, out, nil
}

// initializeLater sends initialize. The outcome comes on the channel, which has room for it.
func (n *Negotiator) initializeLater(ctx context.Context, s *conn.Session, offer mcp.Version) (chan greeted, error) {
	req, err := n.initializeRequest(offer)
	if err != nil {
		return nil, err
	}
	out := make(chan greeted, 1)
	s.Go(ctx, req, func(raw call.Result, err error) {
		var g greeted
		if g.err = err; err == nil {
			g.res, g.err = readInitialized(raw.Raw)
		}
		out <- g
	})
	return out, nil
}
