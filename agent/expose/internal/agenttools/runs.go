package agenttools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

// History is the newest runs that the clients of a front started. Its zero value is empty, and its
// methods are safe for concurrent use.
type History struct {
	runs atomic.Pointer[[]*keptRun] // the oldest first; a list that is stored does not change
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
	for {
		before := h.runs.Load()
		var runs []*keptRun
		if before != nil {
			runs = slices.Clone(*before)
		}
		runs = append(runs, k)
		if out = nil; len(runs) > maxHistory {
			i := relay.MostOf(runs, func(k *keptRun) any { return k.owner })
			out = runs[i]
			runs = slices.Delete(runs, i, i+1)
		}
		if h.runs.CompareAndSwap(before, &runs) {
			return out
		}
	}
}

// find returns a run if it is the owner's. Every anonymous client that knows the ID, which cannot
// be guessed, owns an anonymous run.
func (h *History) find(id, owner string) *keptRun {
	runs := h.runs.Load()
	if runs == nil {
		return nil
	}
	i := slices.IndexFunc(*runs, func(k *keptRun) bool { return k.run.ID() == id && k.owner == owner })
	if i < 0 {
		return nil
	}
	return (*runs)[i]
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
