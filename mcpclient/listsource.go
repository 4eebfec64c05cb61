package mcpclient

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// listSource is a client as its lists see it.
type listSource Client

// Fetch implements [lists.Source], as all other methods do.
func (s *listSource) Fetch(ctx context.Context, method string, params []byte) (json.RawMessage, error) {
	return (*Client)(s).requests.do(ctx, &call.Request{Method: method, Params: params, Safe: true}, nil)
}

func (s *listSource) Invalid(method string, err error) error {
	return (*Client)(s).failed(method, &call.ResponseError{Method: method, Err: err})
}

func (s *listSource) Closed() error               { return ErrClosed }
func (s *listSource) Era() mcp.Era                { return (*Client)(s).era() }
func (s *listSource) Principal() string           { return (*Client)(s).principal() }
func (s *listSource) Go(what string, f func())    { s.sys.Go(what+" of "+s.server.Name, f) }
func (s *listSource) Notify(f func())             { s.events.Add(f) }
func (s *listSource) Log() *slog.Logger           { return s.log }
func (s *listSource) CheckTool(t *mcp.Tool) error { return (*Client)(s).tools.checkTool(t) }
func (s *listSource) Allows(tool string) bool     { return s.server.allows(tool) }
