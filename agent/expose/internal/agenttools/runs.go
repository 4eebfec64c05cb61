package agenttools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

const (
	runsPrefix   = "troupe://runs/"
	runsTemplate = runsPrefix + "{id}"
)

// maxHistory bounds the runs of a front that are kept: as many as a runtime remembers.
const maxHistory = 128

// History is the newest runs that the clients of a front started. Its zero value is empty.
type History struct {
	mu    sync.Mutex // guards the fields below, which handlers of all clients change in passing: no actor has a place between them
	byID  map[string]*keptRun
	order []string // IDs, the oldest first
}

// keptRun is one run and its owner.
type keptRun struct {
	run   *agent.Run
	agent string
	owner string // the principal's ID
	// in is the server that lists the run as a resource. It is nil for none, and once the
	// server has gone.
	in weak.Pointer[mcpserver.Server]
}

func (k *keptRun) uri() string { return runsPrefix + k.run.ID() }

// add keeps a run, and returns the one that has to make room, nil for none.
func (h *History) add(k *keptRun) (out *keptRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byID == nil {
		h.byID = make(map[string]*keptRun)
	}
	h.byID[k.run.ID()] = k
	if h.order = append(h.order, k.run.ID()); len(h.order) > maxHistory {
		i := relay.MostOf(h.order, func(id string) any { return h.byID[id].owner })
		out = h.byID[h.order[i]]
		delete(h.byID, h.order[i])
		h.order = slices.Delete(h.order, i, i+1)
	}
	return out
}

// find returns a run if it is the owner's. Every anonymous client that knows the ID, which cannot
// be guessed, owns an anonymous run.
func (h *History) find(id, owner string) *keptRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.byID[id]; k != nil && k.owner == owner {
		return k
	}
	return nil
}

// keep makes a run a resource, for as long as the history has it.
func (s *Server) keep(run *agent.Run, name string) {
	k := &keptRun{run: run, agent: name, owner: s.Client.Owner}
	s.list(k)
	out := s.History.add(k)
	if out == nil {
		return
	}
	if in := out.in.Value(); in != nil {
		in.RemoveResources(out.uri())
	}
}

// list puts a run into the client's list of resources. A shared client has no such list, since
// it may be several people; each reads its runs by their IDs.
func (s *Server) list(k *keptRun) {
	if s.Client.Shared {
		return
	}
	id, uri := k.run.ID(), k.uri()
	def := &mcp.Resource{URI: uri, Name: id, Title: "A run of " + k.agent, Description: "The transcript of a run.", MIMEType: "text/markdown"}
	err := mcpserver.AddResource(s.MCP, def, func(ctx context.Context, _ *mcpserver.ResourceRequest) ([]mcp.ResourceContents, error) {
		return s.transcript(ctx, uri)
	})
	if err != nil {
		s.Log.Warn("a run is not among the client's resources", "run", id, "error", err)
		return
	}
	k.in = weak.Make(s.MCP)
}

// offerRuns adds the template by which a client reads all of its runs.
func (s *Server) offerRuns() error {
	return mcpserver.AddTemplate(s.MCP, &mcp.ResourceTemplate{
		URITemplate: runsTemplate, Name: "run", Title: "Run", Description: "The transcript of a run, by its ID.", MIMEType: "text/markdown",
	}, func(ctx context.Context, req *mcpserver.ResourceRequest, _ mcpserver.Vars) ([]mcp.ResourceContents, error) {
		return s.transcript(ctx, req.URI())
	})
}

// transcript reads a run: its events so far as text for people, and its state as JSON for
// programs.
func (s *Server) transcript(ctx context.Context, uri string) ([]mcp.ResourceContents, error) {
	k := s.History.find(strings.TrimPrefix(uri, runsPrefix), s.Client.Owner)
	if k == nil {
		return nil, mcpserver.ErrNotFound
	}
	t := transcript{RunID: k.run.ID(), Agent: k.agent, State: "running"}
	for ev, err := range k.run.Past(ctx) {
		if err != nil {
			return nil, fmt.Errorf("reading the run: %w", err)
		}
		t.add(ev)
	}
	t.endTurn()
	raw, err := jsonx.Marshal(&t)
	if err != nil {
		return nil, fmt.Errorf("encoding the run: %w", err)
	}
	return []mcp.ResourceContents{
		{URI: uri, MIMEType: "text/markdown", Text: t.text.String()},
		{URI: uri, MIMEType: "application/json", Text: string(raw)},
	}, nil
}
