package agenttools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

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

// Bounds of the runs that are kept.
const (
	maxHistory = 128 // of a front: as many as a runtime remembers
	maxListed  = 100 // in the list of one client
)

// History is the newest runs that the clients of a front started. Its zero value is empty.
type History struct {
	// mu guards the fields below. Handlers of all clients use the history in passing.
	mu    sync.Mutex
	byID  map[string]*keptRun
	order []string // IDs, the oldest first
}

// keptRun is one run and its owner.
type keptRun struct {
	run   *agent.Run
	agent string
	owner string // the principal's ID
}

func (h *History) add(k *keptRun) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byID == nil {
		h.byID = make(map[string]*keptRun)
	}
	h.byID[k.run.ID()] = k
	if h.order = append(h.order, k.run.ID()); len(h.order) > maxHistory {
		out := relay.MostOf(h.order, func(id string) any { return h.byID[id].owner })
		delete(h.byID, h.order[out])
		h.order = slices.Delete(h.order, out, out+1)
	}
}

// find returns a run if it is the owner's. Every anonymous client that knows the ID, which can
// not be guessed, owns an anonymous run.
func (h *History) find(id, owner string) *keptRun {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.byID[id]; k != nil && k.owner == owner {
		return k
	}
	return nil
}

// keep makes a run a resource. A shared client has no list of runs, since it may be several
// people; each reads its runs by their IDs.
func (s *Server) keep(run *agent.Run, name string) {
	s.History.add(&keptRun{run, name, s.Client.Owner})
	if s.Client.Shared {
		return
	}
	uri := runsPrefix + run.ID()
	def := &mcp.Resource{URI: uri, Name: run.ID(), Title: "A run of " + name, Description: "The transcript of a run.", MIMEType: "text/markdown"}
	err := mcpserver.AddResource(s.MCP, def, func(ctx context.Context, _ *mcpserver.ResourceRequest) ([]mcp.ResourceContents, error) {
		return s.transcript(ctx, uri)
	})
	if err != nil {
		s.Log.Warn("a run is not among the client's resources", "run", run.ID(), "error", err)
		return
	}
	s.mu.Lock()
	var out []string
	s.listed = append(s.listed, uri)
	if n := len(s.listed) - maxListed; n > 0 {
		out, s.listed = slices.Clone(s.listed[:n]), slices.Delete(s.listed, 0, n)
	}
	s.mu.Unlock()
	if len(out) > 0 {
		s.MCP.RemoveResources(out...)
	}
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
