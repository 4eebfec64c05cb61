package mcpclient

import (
	"context"

	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
)

// Subscribe asks the server to tell when a resource changes, in whatever way its
// revision has (RES-05, SUB-01), and waits until it agrees. F is called with the URI
// that changed, which may lie below uri, and also when changes may have been missed:
// after a reconnect the server is asked again. F may block; when it is too slow calls
// are dropped, as with [Options].OnToolsChanged.
func (c *Client) Subscribe(ctx context.Context, uri string, f func(uri string)) (*Subscription, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckURI(uri); err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	if missing := capability.Missing(mcp.MethodSubscribe, info.Version, &info.Capabilities); missing != "" {
		return nil, c.failed(mcp.MethodSubscribe, &UnsupportedError{Method: mcp.MethodSubscribe, Capability: missing, Version: info.Version})
	}
	s := new(Subscription)
	tell := func(uri string) { c.events.Add(func() { f(uri) }) }
	if info.Era == mcp.EraModern {
		return c.changes.subscribe(ctx, s, &listening.Resource{URI: uri, Updated: tell, Accepted: func() { s.ready.Complete(struct{}{}, nil) }, Ended: s.end})
	}
	u := watch.ResourceUser{Updated: tell, Ended: func(err error) { s.end(c.failed(mcp.MethodSubscribe, err)) }}
	if s.stop, err = c.watching().Subscriptions.Add(ctx, uri, u); err != nil {
		return nil, c.failed(mcp.MethodSubscribe, err)
	}
	return s, nil
}

// subscribe listens for a resource, and waits until the server agrees.
func (c changes) subscribe(ctx context.Context, s *Subscription, r *listening.Resource) (*Subscription, error) {
	remove, err := c.watching().Keeper.Add(r)
	if err != nil {
		return s, c.failed(mcp.MethodListen, err)
	}
	s.stop = remove
	if _, err := s.ready.Wait(ctx); err != nil {
		remove()
		return s, err
	}
	return s, nil
}

// wantFresh says that the program uses a list, and wants it fresh from here on: changes
// are listened for if the server announces them, and the program wants to hear of
// them.
func (c changes) wantFresh(method string) {
	info := c.info.Load()
	if info == nil || info.Era != mcp.EraModern || c.opts.NoListen {
		return
	}
	caps := &info.Capabilities
	c.watching().Keeper.Want(func(f *mcp.SubscriptionFilter) {
		switch method {
		case mcp.MethodListTools:
			f.ToolsListChanged = caps.Tools != nil && caps.Tools.ListChanged
		case mcp.MethodListPrompts:
			f.PromptsListChanged = caps.Prompts != nil && caps.Prompts.ListChanged
		case mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodListSkills:
			f.ResourcesListChanged = caps.Resources != nil && caps.Resources.ListChanged
		}
	})
}
