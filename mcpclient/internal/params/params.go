// Package params writes and takes apart the parameters of requests.
package params

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Tool writes the parameters of tools/call.
func Tool(name string, args json.RawMessage) (json.RawMessage, error) {
	args = bytes.TrimSpace(args)
	out := make([]byte, 0, len(name)+len(args)+32)
	out = jsonx.AppendQuote(append(out, `{"name":`...), name)
	if len(args) > 0 {
		if args[0] != '{' || !mcp.Valid(args) {
			return nil, errors.New("the arguments are not a JSON object")
		}
		out = append(append(out, `,"arguments":`...), args...)
	}
	return append(out, '}'), nil
}

// namedBy says which parameter a transport repeats (HDR-03).
var namedBy = map[string]string{
	mcp.MethodCallTool: "name", mcp.MethodGetPrompt: "name", mcp.MethodReadResource: "uri",
	mcp.MethodGetTask: "taskId", mcp.MethodCancelTask: "taskId", mcp.MethodUpdateTask: "taskId",
}

// Split takes the _meta out of parameters, and returns the name that a transport repeats.
func Split(method string, params json.RawMessage) (rest json.RawMessage, meta mcp.Meta, name string, err error) {
	if len(params) == 0 {
		return nil, nil, "", nil
	}
	members := map[string]json.RawMessage{}
	if err := mcp.Unmarshal(params, &members); err != nil {
		return nil, nil, "", fmt.Errorf("the parameters are not a JSON object: %w", err)
	}
	if raw, ok := members["_meta"]; ok {
		if err := mcp.Unmarshal(raw, &meta); err != nil {
			return nil, nil, "", fmt.Errorf("_meta is not a JSON object: %w", err)
		}
		delete(members, "_meta")
	}
	if member, ok := namedBy[method]; ok {
		_ = jsonx.Unmarshal(members[member], &name) // any other type is the server's to refuse
	}
	rest, err = jsonx.Marshal(members)
	return rest, meta, name, err
}

// WithLevel returns meta with the level of the log messages that a request asks for.
func WithLevel(meta mcp.Meta, level mcp.LogLevel) mcp.Meta {
	out := make(mcp.Meta, len(meta)+1)
	maps.Copy(out, meta)
	out[mcp.MetaLogLevel] = json.RawMessage(jsonx.AppendQuote(nil, string(level)))
	return out
}

// Leveled returns meta with the level that a request of 2026-07-28 asks for: its own, else
// the given one (LOG-05). Earlier revisions have no such key.
func Leveled(meta mcp.Meta, era mcp.Era, level mcp.LogLevel) mcp.Meta {
	_, own := meta[mcp.MetaLogLevel]
	switch modern := era == mcp.EraModern; {
	case modern && !own && level != "":
		return WithLevel(meta, level)
	case !modern && own:
		meta = maps.Clone(meta)
		delete(meta, mcp.MetaLogLevel)
	}
	return meta
}
