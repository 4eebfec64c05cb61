package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
)

// ErrNotFound is what a [NotFoundError] is.
var ErrNotFound = errors.New("mcpclient: there is no such resource")

// NotFoundError says that a server has no resource of that URI, in the words of
// whatever revision.
type NotFoundError struct {
	URI string
	Err error // the server's *mcp.Error
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no resource %.200q: %v", e.URI, e.Err)
}

// Is reports that the error is [ErrNotFound].
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// Unwrap returns what the server said.
func (e *NotFoundError) Unwrap() error { return e.Err }

// ListResources returns the server's resources, all pages of them. What is kept,
// and for how long, is as with [Client.ListTools].
func (c *Client) ListResources(ctx context.Context) ([]mcp.Resource, error) {
	return listOf(ctx, c, resourceLists)
}

// ListResourceTemplates returns the server's resource templates, all pages of them.
// A server that has resources and does not know the method has none. What is kept,
// and for how long, is as with [Client.ListTools].
func (c *Client) ListResourceTemplates(ctx context.Context) ([]mcp.ResourceTemplate, error) {
	return listOf(ctx, c, templateLists)
}

// ReadResource reads a resource, listed or not: the URI may be made of a template
// (see [ExpandTemplate]) or come from a resource link. A URI that the server does
// not know is [ErrNotFound]. A link or URI is never fetched by anything but this
// server.
//
// A server of 2026-07-28 may say for how long an answer is good: it is kept so long,
// within bounds, unless the server says that it has changed; [CallOptions.Fresh] asks
// all the same. The caller must not change what is returned.
func (c *Client) ReadResource(ctx context.Context, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	if err := c.requests.require(ctx, mcp.MethodReadResource); err != nil {
		return nil, err
	}
	if err := resource.CheckURI(uri); err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	principal := c.principal()
	kept, ok, epoch := c.cache.Others().Reads.Get(uri, principal)
	if ok && (opts == nil || !opts.Fresh) {
		return kept, nil
	}
	req, err := c.requests.request(mcp.MethodReadResource, &mcp.ReadResourceParams{URI: uri}, opts)
	if err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	req.Name, req.Safe = uri, true // reading changes nothing
	raw, err := c.requests.do(ctx, req, opts)
	if err != nil {
		return nil, c.requests.notFound(uri, err)
	}
	res := new(mcp.ReadResourceResult)
	if err := decode(raw, res); err != nil {
		return nil, c.failed(mcp.MethodReadResource, &call.ResponseError{Method: mcp.MethodReadResource, Err: err})
	}
	if c.era() == mcp.EraModern && !retried(req) { // CACHE-04, MRTR-18
		c.cache.Others().Reads.Put(uri, res, len(raw), lists.FreshnessOf(mcp.EraModern, res.TTL(), res.CacheScope, principal, time.Now()), epoch)
	}
	return res, nil
}

// retried reports whether the answer is that of a retry with what the server had asked for.
func retried(req *call.Request) bool { return req.Tag.(*asks.Call).Retried() }

// notFound tells a missing resource from other failures. In 2026-07-28 it is the
// only use of -32602 that the parameters, which are in order, leave room for.
func (c requests) notFound(uri string, err error) error {
	e, ok := errors.AsType[*mcp.Error](err)
	if !ok {
		return err
	}
	if _, missing := e.ResourceNotFound(); missing || e.Code == mcp.CodeInvalidParams && c.era() == mcp.EraModern {
		return c.failed(mcp.MethodReadResource, &NotFoundError{URI: uri, Err: e})
	}
	return err
}

// resourceUpdated is a notice that a resource has changed.
func (c incoming) resourceUpdated(m *mcp.Message) {
	var p mcp.ResourceParams
	if err := m.DecodeParams(&p); err != nil {
		c.log.Debug("dropping a malformed notice", "method", m.Method, "error", err)
		return
	}
	c.cache.Changed(m.Method, p.URI)
	c.watching().Subscriptions.Updated(p.URI)
}

// ExpandTemplate makes the URI of a resource from a template (RFC 6570), to be read
// with [Client.ReadResource]. Values are string, []string or map[string]string; a
// variable without one leaves nothing behind. Templates beyond 4 KiB and URIs
// beyond 16 KiB are errors: templates come from servers.
func ExpandTemplate[V any](template string, values map[string]V) (string, error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return "", fmt.Errorf("mcpclient: %w", err)
	}
	all := make(map[string]any, len(values))
	for name, v := range values {
		all[name] = v
	}
	uri, err := t.Expand(all)
	if err != nil {
		return "", fmt.Errorf("mcpclient: filling in a URI template: %w", err)
	}
	return uri, nil
}

// MatchTemplate returns values from which a template makes the URI, of the types that
// [ExpandTemplate] takes, and false if there are none. It takes a few milliseconds at
// most: what would take longer does not match.
func MatchTemplate(template, uri string) (values map[string]any, ok bool, err error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return nil, false, fmt.Errorf("mcpclient: %w", err)
	}
	values, ok = t.Match(uri)
	return values, ok, nil
}

// TemplateNames returns the names of a template's variables, such as a program asks
// its user for, and [Client.Complete] completes.
func TemplateNames(template string) ([]string, error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return nil, fmt.Errorf("mcpclient: %w", err)
	}
	return t.Names(), nil
}
