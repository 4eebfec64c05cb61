package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
)

// ErrNotFound is the error that a handler returns, wrapped or not, for a resource that does
// not exist. [fs.ErrNotExist] is one, too. Clients get the error of their revision.
var ErrNotFound = errors.New("mcpserver: the resource does not exist")

// ResourceOut is the result of a resource's handler:
//
//   - string, which is text, or a blob if it is not UTF-8;
//   - []byte, which is a blob;
//   - contents, or several of them, as of a folder;
//   - *mcp.ReadResourceResult, which also says how long and by whom it may be cached.
//
// Contents without a URI or MIME type get those of the request and of the definition.
type ResourceOut interface {
	string | []byte | mcp.ResourceContents | []mcp.ResourceContents | *mcp.ReadResourceResult
}

// ResourceRequest is the [Request] of resources/read.
type ResourceRequest struct{ Request }

// URI returns the URI of the request.
func (q *ResourceRequest) URI() string { return q.r.work.name() }

// Vars returns the variables of the template; nil for a resource without one.
func (q *ResourceRequest) Vars() Vars {
	if g, ok := q.r.job().(*reading); ok {
		return g.vars
	}
	return nil
}

// resource is a resource and its handler.
type resource struct {
	def *mcp.Resource
	supply
}

func (r *resource) name() string { return r.def.URI }

// supply is where the contents of a resource or template come from.
type supply struct {
	mimeType string
	takes    bool     // the handler takes the request
	needs    []string // scopes
	pace     *offered.Speed
	read     func(r *request, g *reading) (*mcp.ReadResourceResult, error)
}

// reading is one resources/read.
type reading struct {
	*supply
	uri  string
	vars Vars
}

func (g *reading) name() string     { return g.uri }
func (g *reading) asks() bool       { return g.takes }
func (g *reading) scopes() []string { return g.needs }
func (g *reading) speed() *offered.Speed {
	if g.takes {
		return nil
	}
	return g.pace
}

func (g *reading) run(r *request) error {
	r.enter()
	result, err := g.read(r, g)
	r.leave()
	switch {
	case err != nil:
		return g.failed(r, err)
	case result == nil:
		return fmt.Errorf("the handler of resource %q returned no result", g.uri)
	}
	c := offered.Completed(result, g.uri, g.mimeType)
	return respondWith(r, c, &c.Meta)
}

// failed returns the error of a handler as the client gets it.
func (g *reading) failed(r *request, err error) error {
	if wire, ok := err.(*mcp.Error); ok {
		return wire
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return mcp.ResourceNotFound(r.version, g.uri)
	}
	return err
}

// respondWith encodes a result with a handler's _meta as the answer.
func respondWith(r *request, result any, meta *mcp.Meta) error {
	*meta = r.session.server.identity.Meta(*meta, r.version)
	raw, err := mcp.MarshalResult(result, r.version)
	if err != nil {
		return fmt.Errorf("encoding the result of %s %q: %w", r.Method(), r.work.name(), err)
	}
	r.respondRaw(raw)
	return nil
}

// AddResource adds a resource with the handler that reads it. An error of the handler is an
// internal error for the client, without its text, unless it is [ErrNotFound] or an
// [*mcp.Error] that is not wrapped.
//
// Connected clients are notified of the new resource.
func AddResource[Out ResourceOut](s *Server, def *mcp.Resource, read func(ctx context.Context, req *ResourceRequest) (Out, error), options ...EntryOption) error {
	return addResource(s, def, true, options, func(r *request, _ *reading) (Out, error) {
		return read(r.context(), &ResourceRequest{Request{r}})
	})
}

// AddResourceFunc adds a resource as [AddResource] does, for a handler that does not need
// the request. If it is quick, it runs where the request is read.
func AddResourceFunc[Out ResourceOut](s *Server, def *mcp.Resource, read func(ctx context.Context) (Out, error), options ...EntryOption) error {
	return addResource(s, def, false, options, func(r *request, _ *reading) (Out, error) { return read(r.context()) })
}

func addResource[Out ResourceOut](s *Server, given *mcp.Resource, takes bool, options []EntryOption, read func(*request, *reading) (Out, error)) error {
	if given == nil {
		return errors.New("adding a resource: the definition is nil")
	}
	def := *given
	err := errors.Join(def.Validate(), registry.CheckURI(def.URI), registry.CheckDescribed(def.Icons, def.Annotations))
	if def.Size != nil && *def.Size < 0 {
		err = errors.Join(err, errors.New("the size is negative"))
	}
	if err != nil {
		return fmt.Errorf("adding the resource %q: %w", def.URI, err)
	}
	r := &resource{def: &def}
	r.supply = supply{def.MIMEType, takes, scopesOf(options), new(offered.Speed), resultOf(read)}
	return s.resources.Add(r)
}

// resultOf returns a function that makes a result of a handler's contents.
func resultOf[Out ResourceOut](read func(*request, *reading) (Out, error)) func(*request, *reading) (*mcp.ReadResourceResult, error) {
	return func(r *request, g *reading) (*mcp.ReadResourceResult, error) {
		out, err := read(r, g)
		if err != nil {
			return nil, err
		}
		return offered.ResourceResult(out), nil
	}
}
