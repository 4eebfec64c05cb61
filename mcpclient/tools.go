package mcpclient

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	maxPages    = 100      // of one list (PAGE-06)
	maxTools    = 10_000   // of one server
	maxListSize = 16 << 20 // bytes of all pages of one list (ROB-3)
	changeDelay = 250 * time.Millisecond
)

// toolCache is the list of a server's tools, until something says that it may
// have changed.
type toolCache struct {
	mu      sync.Mutex
	tools   []mcp.Tool
	known   bool
	until   time.Time                 // it is fresh; zero is without end
	epoch   int                       // counts what made it stale
	listing *actors.Reply[[]mcp.Tool] // that is under way, for all who ask
	notify  *time.Timer               // a change to be told
	closed  bool

	ctx  context.Context // of listings; nil before the first. It ends with the client
	stop context.CancelCauseFunc
}

// fresh returns the list if it can be used.
func (t *toolCache) fresh() ([]mcp.Tool, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.known || !t.until.IsZero() && !time.Now().Before(t.until) {
		return nil, false
	}
	return t.tools, true
}

func (t *toolCache) invalidate() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.listing = false, nil
	t.epoch++
}

func (t *toolCache) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.stop != nil {
		t.stop(ErrClosed) // nobody waits for a list any more
	}
	if t.notify != nil {
		t.notify.Stop()
	}
}

// ListTools returns the server's tools, all pages of them, in the server's order.
// The list is kept until the server says that it has changed, until it expires
// (CACHE-02), or until the server was connected to anew. The caller must not
// change it. Of a tool that is not valid, or comes twice, there is a log entry and
// no more.
func (c *Client) ListTools(ctx context.Context) ([]mcp.Tool, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.Capabilities.Tools == nil {
		return nil, nil // none is no error (CAP-03)
	}
	if tools, ok := c.tools.fresh(); ok {
		return tools, nil
	}
	return c.listing().Wait(ctx)
}

// listing joins the listing that is under way, or starts one.
func (c *Client) listing() *actors.Reply[[]mcp.Tool] {
	t := &c.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listing != nil {
		return t.listing
	}
	reply := new(actors.Reply[[]mcp.Tool])
	t.listing = reply
	epoch := t.epoch
	if t.ctx == nil {
		t.ctx, t.stop = context.WithCancelCause(context.Background())
		if t.closed {
			t.stop(ErrClosed)
		}
	}
	ctx := t.ctx
	c.sys.Go("tools of "+c.server.Name, func() {
		tools, ttl, err := c.listAll(ctx)
		t.mu.Lock()
		if t.epoch == epoch { // else it was stale before it came
			t.listing = nil
			if err == nil {
				t.tools, t.known, t.until = tools, true, time.Time{}
				if ttl >= 0 {
					t.until = time.Now().Add(ttl)
				}
			}
		}
		t.mu.Unlock()
		reply.Complete(tools, err)
	})
	return reply
}

// listAll reads all pages. Its context is nobody's in particular: many may wait for
// the list. A negative ttl is one that was not given. Each request
// has the server's limits; their number is bounded.
func (c *Client) listAll(ctx context.Context) (tools []mcp.Tool, ttl time.Duration, err error) {
	ttl = -1
	var cursor *string
	seen := map[string]bool{} // cursors
	names := map[string]bool{}
	left := maxListSize
	for range maxPages {
		page, size, err := c.listPage(ctx, cursor)
		if err != nil {
			return nil, 0, err
		}
		if left -= size; left < 0 {
			break
		}
		if page.TTLMs != nil && (ttl < 0 || page.TTL() < ttl) {
			ttl = page.TTL()
		}
		for i := range page.Tools {
			switch tool := &page.Tools[i]; {
			case tool.Validate() != nil:
				c.log.Warn("ignoring a tool", "error", tool.Validate())
			case !c.server.allows(tool.Name):
			case names[tool.Name]:
				c.log.Warn("ignoring a tool that is listed twice", "tool", tool.Name)
			case len(tools) < maxTools:
				names[tool.Name] = true
				tools = append(tools, *tool)
			}
		}
		if page.NextCursor == nil {
			return tools, ttl, nil
		}
		if seen[*page.NextCursor] || len(tools) >= maxTools { // PAGE-06
			break
		}
		seen[*page.NextCursor] = true
		cursor = page.NextCursor
	}
	c.log.Warn("the list of tools does not end, comes round again, or is too long; the rest is left out", "tools", len(tools))
	return tools, ttl, nil
}

// listPage reads one page, of size bytes.
func (c *Client) listPage(ctx context.Context, cursor *string) (page *mcp.ListToolsResult, size int, err error) {
	var params []byte
	if cursor != nil {
		if params, err = mcp.Marshal(&mcp.ListParams{Cursor: cursor}); err != nil {
			return nil, 0, c.failed(mcp.MethodListTools, err)
		}
	}
	raw, err := c.do(ctx, &call.Request{Method: mcp.MethodListTools, Params: params, Safe: true})
	if err != nil {
		return nil, 0, err
	}
	page = new(mcp.ListToolsResult)
	if err := decode(raw, page); err != nil {
		return nil, 0, c.failed(mcp.MethodListTools, &call.ResponseError{Method: mcp.MethodListTools, Err: err})
	}
	return page, len(raw), nil
}

// toolsChanged tells the user once for a burst of changes (TOOL-13).
func (c *Client) toolsChanged() {
	if c.opts.OnToolsChanged == nil {
		return
	}
	t := &c.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.notify != nil {
		return
	}
	t.notify = time.AfterFunc(changeDelay, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.notify = nil
		if !t.closed {
			c.events.add(c.opts.OnToolsChanged)
		}
	})
}

// allows reports whether the definition lets a tool be used.
func (s *Server) allows(tool string) bool {
	return !slices.Contains(s.Deny, tool) && (s.Allow == nil || slices.Contains(s.Allow, tool))
}
