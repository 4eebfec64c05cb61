package mcpclient

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// meta is what the options add to a request's _meta.
func (o *CallOptions) meta() mcp.Meta {
	switch {
	case o == nil:
		return nil
	case o.LogLevel == "":
		return o.Meta
	}
	meta := cloned(o.Meta)
	meta[mcp.MetaLogLevel] = json.RawMessage(jsonx.AppendQuote(nil, string(o.LogLevel)))
	return meta
}

// request makes a request of typed parameters, which have no _meta of their own.
func (c *Client) request(method string, params any, opts *CallOptions) (*call.Request, error) {
	raw, err := mcp.Marshal(params)
	if err != nil {
		return nil, err
	}
	var o CallOptions
	if opts != nil {
		o = *opts
	}
	return &call.Request{Method: method, Params: raw, Meta: o.meta(), Idle: o.Idle, Max: o.Max, OnProgress: o.Progress, Safe: o.Safe}, nil
}

// rawRequest makes a request of parameters that nobody has looked at: their _meta is
// taken out, to be merged, and their name for the transport (HDR-03).
func rawRequest(method string, params json.RawMessage, opts *CallOptions) (*call.Request, error) {
	var o CallOptions
	if opts != nil {
		o = *opts
	}
	req := &call.Request{Method: method, Meta: o.meta(), Idle: o.Idle, Max: o.Max, OnProgress: o.Progress, Safe: o.Safe, ResultTypes: o.ResultTypes}
	if len(params) == 0 {
		return req, nil
	}
	members := map[string]json.RawMessage{}
	if err := mcp.Unmarshal(params, &members); err != nil {
		return nil, fmt.Errorf("the parameters are not a JSON object: %w", err)
	}
	if raw, ok := members["_meta"]; ok {
		var meta mcp.Meta
		if err := mcp.Unmarshal(raw, &meta); err != nil {
			return nil, fmt.Errorf("_meta is not a JSON object: %w", err)
		}
		req.Meta = mergedMeta(meta, req.Meta)
		delete(members, "_meta")
	}
	if member, ok := namedBy[method]; ok {
		_ = jsonx.Unmarshal(members[member], &req.Name) // what is no string is the server's to refuse
	}
	var err error
	req.Params, err = jsonx.Marshal(members)
	return req, err
}

// mergedMeta returns both; what is in the second wins.
func mergedMeta(a, b mcp.Meta) mcp.Meta {
	merged := cloned(a)
	maps.Copy(merged, b)
	return merged
}

// namedBy says which parameter a transport repeats (HDR-03).
var namedBy = map[string]string{
	mcp.MethodCallTool: "name", mcp.MethodGetPrompt: "name", mcp.MethodReadResource: "uri",
	mcp.MethodGetTask: "taskId", mcp.MethodCancelTask: "taskId", mcp.MethodUpdateTask: "taskId",
}

// principal says for whom the client acts now.
func (c *Client) principal() string {
	if c.opts.Principal == nil {
		return ""
	}
	return c.opts.Principal()
}

// era returns that of the server as it was last connected to.
func (c *Client) era() mcp.Era {
	if info := c.info.Load(); info != nil {
		return info.Era
	}
	return mcp.EraUnknown
}
