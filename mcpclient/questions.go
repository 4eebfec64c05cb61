package mcpclient

import (
	"log/slog"
	"sync/atomic"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
)

// asked bounds the requests of one server that are under way. All connections share it.
var asked = inbound.Options{Limit: asks.MaxAsked}

// questions has the questions of a server answered, by the program's people and models.
type questions struct {
	server *Server
	opts   *Options
	log    *slog.Logger
	sys    *actors.System
	asks   *asks.Asks
	roots  atomic.Pointer[[]mcp.Root] // nil: not declared
}

// completed handles notifications/elicitation/complete. Only 2025-11-25 has it: an
// unknown id, or one that is completed, is ignored (URL-31, URL-43).
func (q *questions) completed(s *conn.Session, m *mcp.Message) {
	var p mcp.ElicitationCompleteParams
	if !s.Version().Has(mcp.FeatureElicitationIDs) || m.DecodeParams(&p) != nil {
		return
	}
	q.asks.Completed(p.ElicitationID)
}

// declared are the capabilities that the server is told of in every revision that
// has them: what it may ask of us (CAP-03).
func (q *questions) declared() *mcp.ClientCapabilities {
	o := q.opts
	caps := &mcp.ClientCapabilities{Extensions: o.Extensions}
	if q.tellsRoots() {
		caps.Roots = &mcp.RootsCapability{ListChanged: true}
	}
	if q.samples() {
		caps.Sampling = new(mcp.SamplingCapability)
		if o.SamplingTools {
			caps.Sampling.Tools = mcp.Present
		}
		if o.SamplingContext || q.server.SamplingContext {
			caps.Sampling.Context = mcp.Present
		}
	}
	if q.elicits() {
		caps.Elicitation = new(mcp.ElicitationCapability)
		if !o.NoForms {
			caps.Elicitation.Form = mcp.Present
		}
		if !o.NoURLs {
			caps.Elicitation.URL = mcp.Present
		}
	}
	caps.Tasks = capability.ServedTasks(q.samples(), q.elicits())
	return caps
}

// elicits reports whether the server may ask a person anything itself.
func (q *questions) elicits() bool {
	return q.opts.Human != nil && !q.server.NoAsk && !(q.opts.NoForms && q.opts.NoURLs)
}

// samples reports whether the server may ask for a model's answer.
func (q *questions) samples() bool {
	return q.opts.Sampler != nil && !q.server.NoAsk && q.server.Sampling != SamplingDeny
}

// tellsRoots reports whether the server may ask for roots.
func (q *questions) tellsRoots() bool { return q.opts.RootsFunc != nil || q.roots.Load() != nil }
