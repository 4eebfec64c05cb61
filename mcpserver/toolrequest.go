package mcpserver

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/tasks"
)

// Request is the request of a handler: its sender, and ways to reach the client. It may be
// used from any goroutine until the handler returns; after the call's outcome Progress and
// Log do nothing.
type Request struct{ r *request }

// live returns the request that the handler works for.
func (q *Request) live() *request {
	if n := q.r.invocation.Load(); n != nil {
		return n.current() // each round has another
	}
	return q.r
}

// ToolRequest is the [Request] of a tool call.
type ToolRequest struct{ Request }

// Client is the client of a request, as it describes itself: for display and logs, never
// for behaviour or security.
type Client struct {
	Info         mcp.Implementation // empty if the client sends none
	Capabilities *mcp.ClientCapabilities
	Version      mcp.Version // the revision of the request
}

// Name returns the name of the tool.
func (t *ToolRequest) Name() string { return t.r.work.name() }

// ID returns the id of the request.
func (q *Request) ID() mcp.ID { return q.live().ID() }

// Arguments returns the arguments as they came. They must not be changed.
func (t *ToolRequest) Arguments() json.RawMessage { return t.r.arguments }

// Principal returns the sender of the request; nil for an anonymous one.
func (q *Request) Principal() *Principal { return q.live().principal }

// Meta returns the _meta of the request; nil when it has none.
func (q *Request) Meta() mcp.Meta {
	var meta mcp.Meta
	raw := q.live().rawMeta()
	if len(raw) == 0 || mcp.Unmarshal(raw, &meta) != nil {
		return nil
	}
	return meta
}

// Client returns the client that sends the request.
func (q *Request) Client() Client {
	r := q.live()
	return publicClient(r.client, r.version)
}

// publicClient returns a client as handlers see it.
func publicClient(c *clients.Client, v mcp.Version) Client {
	return Client{Info: c.Info, Capabilities: c.Capabilities.For(v), Version: v}
}

// Progress reports to the client how far the handler has come; total is 0 if it is unknown.
// It does nothing if the client has not asked for progress, or if progress does not increase,
// and sends only the newest of reports that follow each other fast.
func (q *Request) Progress(progress, total float64, message string) {
	if r := q.live(); !r.token.IsZero() {
		r.Call.Progress(progress, total, message)
	}
}

// notify sends a notification that belongs to the request, unless it is over.
func (r *request) notify(method string, params any) {
	raw, err := mcp.Marshal(params)
	if err != nil {
		r.session.server.log.Warn("a notification cannot be encoded", "method", method, "error", err)
		return
	}
	frame := mcp.AppendNotification(nil, method, raw)
	r.Emit(func() { r.port.Notify(frame) })
}

// Report implements [inbound.Handler].
func (r *request) Report(progress, total float64, message string) {
	params := mcp.ProgressParams{ProgressToken: r.token, Progress: progress}
	if total != 0 {
		params.Total = &total
	}
	if r.version.Has(mcp.FeatureProgressMessage) {
		params.Message = clip.Valid(message)
	}
	raw, err := mcp.Marshal(&params)
	if err != nil {
		r.session.server.log.Warn("progress cannot be encoded", "name", r.work.name(), "error", err)
		return
	}
	r.port.Notify(mcp.AppendNotification(nil, mcp.NotificationProgress, raw))
}

// Task returns the id of the task that the call has become; empty before.
func (q *Request) Task() string {
	if t, ok := q.live().task.(*tasks.Task); ok {
		return t.ID()
	}
	return ""
}
