package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/params"
)

// Ping asks the server for a sign of life: ping, or in 2026-07-28, which has
// none, server/discover.
func (c *Client) Ping(ctx context.Context) error {
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	method := mcp.MethodPing
	if info.Era == mcp.EraModern {
		method = mcp.MethodDiscover
	}
	_, err = c.requests.do(ctx, &call.Request{Method: method, Safe: true}, nil)
	return err
}

// SetLogLevel asks the server for log messages at or above level, also after it
// was restarted; in 2026-07-28 each request asks for itself.
func (c *Client) SetLogLevel(ctx context.Context, level mcp.LogLevel) error {
	if !level.Valid() {
		return fmt.Errorf("unknown log level %q", level)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if info.Capabilities.Logging == nil {
		return c.failed(mcp.MethodSetLevel, &UnsupportedError{Method: mcp.MethodSetLevel, Capability: "logging", Version: info.Version})
	}
	c.level.Store(level)
	if info.Era == mcp.EraModern {
		return nil
	}
	err = c.failed(mcp.MethodSetLevel, negotiate.SetLevel(ctx, c.conn.Do, level))
	for _, i := range c.dialing.others() {
		i.level.Store(level)
		if i.conn.Status().State == conn.Ready { // else it is told when it is
			err = errors.Join(err, c.failed(mcp.MethodSetLevel, negotiate.SetLevel(ctx, i.conn.Do, level)))
		}
	}
	return err
}

// Request sends any request and returns the result as it came. Params is a JSON
// object or nil; its _meta is merged with that of the options, which wins, and with
// what the connection adds.
func (c *Client) Request(ctx context.Context, method string, params json.RawMessage, opts *CallOptions) (json.RawMessage, error) {
	if err := c.requests.require(ctx, method); err != nil {
		return nil, err
	}
	req, err := rawRequest(method, params, opts)
	if err != nil {
		return nil, c.failed(method, err)
	}
	return c.requests.do(ctx, req, opts)
}

// require refuses a method that the server's revision does not have, or whose
// capability it did not declare (CAP-03).
func (c requests) require(ctx context.Context, method string) error {
	info, err := c.Info(ctx)
	if err != nil {
		if err = c.dialing.connectAuthorized(ctx, err); err != nil {
			return err
		}
		info = c.info.Load()
	}
	if method == mcp.MethodCallTool && info.Capabilities.Tools != nil {
		return nil // the hot path: every revision has it
	}
	if !capability.Known(method) {
		return nil // an extension's: the server knows
	}
	if !info.Version.Method(method, mcp.Client) || method == mcp.MethodInitialize {
		return c.failed(method, &UnsupportedError{Method: method, Version: info.Version})
	}
	if missing := capability.Missing(method, info.Version, &info.Capabilities); missing != "" {
		return c.failed(method, &UnsupportedError{Method: method, Capability: missing, Version: info.Version})
	}
	return nil
}

// meta is what the options add to a request's _meta.
func (o *CallOptions) meta() mcp.Meta {
	switch {
	case o == nil:
		return nil
	case o.LogLevel == "":
		return o.Meta
	}
	return params.WithLevel(o.Meta, o.LogLevel)
}

// request makes a request of typed parameters, which have no _meta of their own.
func (c requests) request(method string, typed any, opts *CallOptions) (*call.Request, error) {
	raw, err := mcp.Marshal(typed)
	if err != nil {
		return nil, err
	}
	var o CallOptions
	if opts != nil {
		o = *opts
	}
	return &call.Request{Method: method, Params: raw, Meta: o.meta(), Idle: o.Idle, Max: o.Max, OnProgress: o.onProgress(), Safe: o.Safe}, nil
}

// rawRequest makes a request of parameters as the program has written them: their _meta is
// taken out, to be merged, and their name for the transport (HDR-03).
func rawRequest(method string, raw json.RawMessage, opts *CallOptions) (*call.Request, error) {
	var o CallOptions
	if opts != nil {
		o = *opts
	}
	req := &call.Request{Method: method, Meta: o.meta(), Idle: o.Idle, Max: o.Max, OnProgress: o.onProgress(), Safe: o.Safe, ResultTypes: o.ResultTypes}
	rest, meta, named, err := params.Split(method, raw)
	req.Params, req.Name = rest, named
	if len(meta) > 0 {
		maps.Copy(meta, req.Meta)
		req.Meta = meta
	}
	return req, err
}

// read makes a request that changes nothing, and decodes its result.
func (c requests) read(ctx context.Context, method string, params any, res interface{ Validate() error }) error {
	if err := c.requests.require(ctx, method); err != nil {
		return err
	}
	req, err := c.requests.request(method, params, nil)
	if err != nil {
		return c.failed(method, err)
	}
	req.Safe = true
	raw, err := c.requests.do(ctx, req, nil)
	if err != nil {
		return err
	}
	if err := decode(raw, res); err != nil {
		return c.failed(method, &call.ResponseError{Method: method, Err: err})
	}
	return nil
}
