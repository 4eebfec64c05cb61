package mcpclient

import (
	"context"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/watch"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/listening"
)

// watching returns what is watched; it is made when it is first needed, as most servers
// have nothing to watch.
func (c *Client) watching() *listening.Watching {
	return memo.Lazily(&c.watches, c.changes.newWatching)
}

func (c changes) newWatching() *listening.Watching {
	return listening.New(listening.Options{
		Conn: c.conn, Cache: &c.cache, Do: c.watchDo, Log: c.log, Closed: ErrClosed,
		Answer: func(ctx context.Context, t *watch.Task, requests mcp.InputRequests) (mcp.InputResponses, error) {
			return c.questions.asks.AnswerInputs(ctx, t.Tag(), requests)
		},
		Cancels: func() bool { return c.era() == mcp.EraModern || c.coreTasks().Cancel },
		Told:    func() bool { info := c.info.Load(); return info != nil && info.Version.Has(mcp.FeatureCoreTasks) },
		Go:      func(f func()) { c.sys.Go("tasks of "+c.server.Name, f) },
		NotAccepted: func(uri string) error { // SUB-05
			return c.failed(mcp.MethodListen, fmt.Errorf("%w: the server announces no changes of %.200q", ErrUnsupported, uri))
		},
		Failed: func(err error) error { return c.failed(mcp.MethodListen, err) },
	})
}

// watchDo carries out a request of something that watches.
func (c changes) watchDo(ctx context.Context, req *call.Request) (call.Result, error) {
	req.Meta = c.requests.traced(ctx, req.Meta)
	return c.conn.Do(ctx, req)
}

// coreTasks is what a server of 2025-11-25 says of its tasks.
func (c changes) coreTasks() capability.Tasks {
	info := c.info.Load()
	if info == nil {
		return capability.Tasks{}
	}
	return capability.TasksOf(info.Version, &info.Capabilities)
}

// hasTaskNotices reports whether the server has declared the extension, so that it may
// be asked to announce tasks (XTASK-14, EXT-02).
func (c changes) hasTaskNotices() bool {
	_, ok := c.info.Load().Capabilities.Extension(mcp.ExtensionTasks)
	return ok
}

// takesTasks reports whether requests of 2026-07-28 declare the Tasks extension.
func (c changes) takesTasks() bool {
	_, ok := c.opts.Extensions[mcp.ExtensionTasks]
	return ok
}
