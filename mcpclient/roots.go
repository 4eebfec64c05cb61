package mcpclient

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
)

// rootsQuestion is roots/list.
type rootsQuestion struct{ *questions }

// errNoRoots is what a server is told whose question for roots has no answer.
var errNoRoots = mcp.Errorf(mcp.CodeInternal, "the roots are not known")

// Answer implements [asks.Question]: it lists the roots that are there.
func (q rootsQuestion) Answer(ctx context.Context, o *asks.Origin) (json.RawMessage, error) {
	all, err := q.rootsFor(ctx, o)
	if err != nil {
		if wire, ok := errors.AsType[*mcp.Error](err); ok {
			return nil, wire
		}
		q.log.Warn("the roots are not known", "error", err)
		return nil, errNoRoots
	}
	res := mcp.ListRootsResult{Roots: []mcp.Root{}}
	for _, r := range all[:min(len(all), asks.MaxRoots)] {
		if p, err := asks.RootPath(r.URI); err == nil && q.opts.RootAvailable(p) {
			res.Roots = append(res.Roots, r)
		}
	}
	return mcp.Marshal(&res)
}

// rootsFor are the roots of the calls that a question may belong to.
func (q *questions) rootsFor(ctx context.Context, o *asks.Origin) ([]mcp.Root, error) {
	if tell := o.Roots(q.opts.RootsFunc); tell != nil {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer o.OnGone(func() { cancel(asks.ErrGone) })()
		return actors.Guard(func() ([]mcp.Root, error) { return tell(ctx) })
	}
	if roots := q.roots.Load(); roots != nil {
		return *roots, nil
	}
	return nil, nil
}

// RootsChanged tells a legacy server that was told of roots that they are others now:
// for [AskOptions].RootsFunc. A server that is not connected asks when it is.
func (c *Client) RootsChanged() {
	info := c.info.Load()
	if !c.questions.tellsRoots() || info == nil || info.Era != mcp.EraLegacy {
		return
	}
	if err := c.conn.Notify(mcp.NotificationRootsChanged, nil); err != nil {
		c.log.Debug("the server is not told of the roots; it asks when it is connected", "error", err)
	}
	for _, i := range c.dialing.others() {
		i.RootsChanged()
	}
}

// RootsChanged is [Client.RootsChanged] of all servers.
func (h *Host) RootsChanged() {
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			c.RootsChanged()
		}
	}
}

// SetRoots changes the roots, and tells a legacy server that was told of roots.
// Roots are file:// URIs with an absolute path and no host; a single one that is
// not is an error, and changes nothing. If the client had none, they are declared
// with the next connection.
func (c *Client) SetRoots(roots []mcp.Root) error {
	checked, err := asks.CheckRoots(roots)
	if err != nil {
		return err
	}
	before := c.questions.roots.Swap(&checked)
	for _, i := range c.dialing.others() {
		i.questions.roots.Store(&checked)
	}
	if before != nil {
		c.RootsChanged()
	}
	return nil
}

// SetRoots is [Client.SetRoots] of all servers.
func (h *Host) SetRoots(roots []mcp.Root) error {
	checked, err := asks.CheckRoots(roots)
	if err != nil {
		return err
	}
	h.roots.Store(&checked)
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			if err := c.SetRoots(checked); err != nil {
				return err
			}
		}
	}
	return nil
}
