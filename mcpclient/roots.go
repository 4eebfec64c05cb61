package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
)

// maxRoots bounds what a server is told.
const maxRoots = 1000

// checkRoots holds each root against what may be exposed (ROOT-04, SECA-46).
func checkRoots(roots []mcp.Root) ([]mcp.Root, error) {
	if len(roots) > maxRoots {
		return nil, fmt.Errorf("mcpclient: more than %d roots", maxRoots)
	}
	for _, r := range roots {
		if _, err := rootPath(r.URI); err != nil {
			return nil, fmt.Errorf("mcpclient: root %q: %w", r.URI, err)
		}
	}
	return slices.Clone(roots), nil
}

// rootPath returns the path of a root: an absolute file:// URI without a host, that
// says what it means.
func rootPath(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, "file://")
	if !ok {
		return "", errors.New("not a file:// URI")
	}
	if strings.ContainsAny(rest, "?#\\") {
		return "", errors.New("a path with a query, a fragment or a backslash")
	}
	if !strings.HasPrefix(rest, "/") {
		return "", errors.New("a URI with a host")
	}
	if lower := strings.ToLower(rest); strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(lower, "%00") {
		return "", errors.New("an escaped separator or NUL in the path")
	}
	p, err := url.PathUnescape(rest)
	if err != nil {
		return "", errors.New("a malformed escape in the path")
	}
	if strings.HasPrefix(p, "//") { // a host by another name
		return "", errors.New("a path that begins with two slashes")
	}
	if clean := path.Clean(p); clean != p && clean+"/" != p {
		return "", errors.New("a path that is not in its shortest form")
	}
	return p, nil
}

// isThere is what RootAvailable is by default.
func isThere(p string) bool {
	_, err := os.Stat(hostPath(p))
	return err == nil
}

// hostPath takes the slash before a drive away.
func hostPath(p string) string {
	if len(p) >= 3 && p[0] == '/' && p[2] == ':' && os.PathSeparator == '\\' {
		return p[1:]
	}
	return p
}

// rootsFunc tells roots when they are asked for.
type rootsFunc = func(ctx context.Context) ([]mcp.Root, error)

// tellsRoots reports whether the server may ask for roots.
func (c *Client) tellsRoots() bool { return c.opts.RootsFunc != nil || c.asks.roots.Load() != nil }

// rootsQuestion is roots/list.
type rootsQuestion struct{}

// errNoRoots is what a server is told whose question for roots nobody could answer.
var errNoRoots = mcp.Errorf(mcp.CodeInternal, "the roots are not known")

// answer lists the roots that are there (ROOT-04).
func (rootsQuestion) answer(ctx context.Context, c *Client, o *origin) (json.RawMessage, error) {
	all, err := c.rootsFor(ctx, o)
	if err != nil {
		if wire, ok := errors.AsType[*mcp.Error](err); ok {
			return nil, wire
		}
		c.log.Warn("the roots are not known", "error", err)
		return nil, errNoRoots
	}
	res := mcp.ListRootsResult{Roots: []mcp.Root{}}
	for _, r := range all[:min(len(all), maxRoots)] {
		if p, err := rootPath(r.URI); err == nil && c.opts.RootAvailable(p) {
			res.Roots = append(res.Roots, r)
		}
	}
	return mcp.Marshal(&res)
}

// rootsFor are the roots of the calls that a question may belong to.
func (c *Client) rootsFor(ctx context.Context, o *origin) ([]mcp.Root, error) {
	if tell := o.roots(c.opts.RootsFunc); tell != nil {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer o.onGone(func() { cancel(errGone) })()
		return actors.Guard(func() ([]mcp.Root, error) { return tell(ctx) })
	}
	if roots := c.asks.roots.Load(); roots != nil {
		return *roots, nil
	}
	return nil, nil
}

// RootsChanged tells a legacy server that was told of roots that they are others now
// (ROOT-02): for [AskOptions].RootsFunc. A server that is not connected asks when it is.
func (c *Client) RootsChanged() {
	info := c.info.Load()
	if !c.tellsRoots() || info == nil || info.Era != mcp.EraLegacy {
		return
	}
	if err := c.conn.Notify(mcp.NotificationRootsChanged, nil); err != nil {
		c.log.Debug("the server is not told of the roots; it asks when it is connected", "error", err)
	}
	for _, i := range c.others() {
		i.RootsChanged()
	}
}

// RootsChanged is [Client.RootsChanged] of all servers.
func (h *Host) RootsChanged() {
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			c.RootsChanged()
		}
	}
}

// SetRoots changes the roots, and tells a legacy server that was told of roots
// (ROOT-02). Roots are file:// URIs with an absolute path and no host; a single one
// that is not is an error, and changes nothing. If the client had none, they are
// declared with the next connection.
func (c *Client) SetRoots(roots []mcp.Root) error {
	checked, err := checkRoots(roots)
	if err != nil {
		return err
	}
	before := c.asks.roots.Swap(&checked)
	for _, i := range c.others() {
		i.asks.roots.Store(&checked)
	}
	if before != nil {
		c.RootsChanged()
	}
	return nil
}

// SetRoots is [Client.SetRoots] of all servers.
func (h *Host) SetRoots(roots []mcp.Root) error {
	checked, err := checkRoots(roots)
	if err != nil {
		return err
	}
	h.roots.Store(&checked)
	for _, e := range h.entries {
		if c := e.client.Load(); c != nil {
			if err := c.SetRoots(checked); err != nil {
				return err
			}
		}
	}
	return nil
}
