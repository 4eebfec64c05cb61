package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// maxURI bounds the URI of a resource, in bytes.
const maxURI = 16 << 10

// ErrNotFound is what a [NotFoundError] is.
var ErrNotFound = errors.New("mcpclient: there is no such resource")

// NotFoundError says that a server has no resource of that URI, in the words of
// whatever revision (RES-04).
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
	return listOf(ctx, c, resourceShelves)
}

// ListResourceTemplates returns the server's resource templates, all pages of them.
// A server that has resources and does not know the method has none. What is kept,
// and for how long, is as with [Client.ListTools].
func (c *Client) ListResourceTemplates(ctx context.Context) ([]mcp.ResourceTemplate, error) {
	return listOf(ctx, c, templateShelves)
}

// listOf is readList for a caller that can do with a list that is out of date.
func listOf[T any](ctx context.Context, c *Client, s shelves[T]) ([]T, error) {
	items, err := readList(ctx, c, s)
	if err != nil && items != nil {
		c.log.Warn("a list is out of date: it can not be read anew", "list", s.list(c).what, "stale", true, "error", err)
		return items, nil
	}
	return items, err
}

// ReadResource reads a resource, listed or not: the URI may be made of a template
// (see [ExpandTemplate]) or come from a resource link. A URI that the server does
// not know is [ErrNotFound]. A link or URI is never fetched by anything but this
// server (SECA-42).
//
// A server of 2026-07-28 may say for how long an answer is good: it is kept so long,
// within bounds, unless the server says that it has changed; [CallOptions.Fresh] asks
// all the same. The caller must not change what is returned.
func (c *Client) ReadResource(ctx context.Context, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	if err := c.require(ctx, mcp.MethodReadResource); err != nil {
		return nil, err
	}
	if err := checkURI(uri); err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	principal := c.principal()
	kept, ok, epoch := c.keeps.reads.get(uri, principal)
	if ok && (opts == nil || !opts.Fresh) {
		return kept, nil
	}
	req, err := c.request(mcp.MethodReadResource, &mcp.ReadResourceParams{URI: uri}, opts)
	if err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	req.Name, req.Safe = uri, true // reading changes nothing
	raw, err := c.do(ctx, req, opts)
	if err != nil {
		return nil, c.notFound(uri, err)
	}
	res := new(mcp.ReadResourceResult)
	if err := decode(raw, res); err != nil {
		return nil, c.failed(mcp.MethodReadResource, &call.ResponseError{Method: mcp.MethodReadResource, Err: err})
	}
	if c.era() == mcp.EraModern && !retried(req) { // CACHE-04, MRTR-18
		c.keeps.reads.put(uri, res, len(raw), freshnessOf(mcp.EraModern, res.TTL(), res.CacheScope, principal, time.Now()), epoch)
	}
	return res, nil
}

// retried reports whether the answer is that of a retry with what the server had asked for.
func retried(req *call.Request) bool { return req.Tag.(*callTag).rounds > 0 }

// checkURI refuses what is no absolute URI (RES-08, RFC 3986).
func checkURI(uri string) error {
	if len(uri) > maxURI {
		return fmt.Errorf("the URI is longer than %d bytes", maxURI)
	}
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Errorf("%.200q is not a URI", uri)
	}
	for i := range len(uri) {
		if uri[i] == '%' && (len(uri) < i+3 || !isHex(uri[i+1]) || !isHex(uri[i+2])) {
			return fmt.Errorf("%.200q is not a URI", uri)
		}
	}
	if u, err := url.Parse(uri); err != nil || u.Scheme == "" {
		return fmt.Errorf("%.200q is not an absolute URI", uri)
	}
	return nil
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// notFound tells a missing resource from other failures. In 2026-07-28 it is the
// only use of -32602 that the parameters, which are in order, leave room for.
func (c *Client) notFound(uri string, err error) error {
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
func (c *Client) resourceUpdated(m *mcp.Message) {
	var p mcp.ResourceParams
	if err := m.DecodeParams(&p); err != nil {
		c.log.Debug("dropping a malformed notice", "method", m.Method, "error", err)
		return
	}
	c.keeps.changed(m.Method, p.URI)
	c.watching().resources.Updated(p.URI)
}
