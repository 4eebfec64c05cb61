package loop

import (
	"context"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
)

// Offer is a list of tools in the forms that a run needs. It does not change, so that
// any number of runs may share one: thousands of them have the same tools as a rule.
type Offer struct {
	byName map[string]*Tool
	tools  []llm.Tool
	refs   []runlog.ToolRef

	servers []string
	texts   []runlog.ServerText
	note    string // of texts, for the system text
}

// NewOffer makes an offer of tools, which must not be changed afterwards. Of several
// with one name the first has it.
func NewOffer(tools []Tool) *Offer {
	o := &Offer{byName: make(map[string]*Tool, len(tools)), tools: make([]llm.Tool, 0, len(tools)), refs: make([]runlog.ToolRef, 0, len(tools))}
	for i := range tools {
		t := &tools[i]
		if o.byName[t.Name] != nil {
			continue
		}
		o.byName[t.Name] = t
		o.tools = append(o.tools, t.Tool)
		o.refs = append(o.refs, runlog.ToolRef{Name: t.Name, Server: t.Server, Hash: t.Hash})
	}
	o.servers = serversOf(tools)
	return o
}

// Offerer is what [Tools] may implement that have an offer for many runs: it is asked in
// place of List.
type Offerer interface {
	Offer(ctx context.Context) (*Offer, []runlog.Absent)
}

// offerOf asks for the tools.
func offerOf(ctx context.Context, tools Tools) (*Offer, []runlog.Absent) {
	if shared, ok := tools.(Offerer); ok {
		return shared.Offer(ctx)
	}
	list, absent := tools.List(ctx)
	return NewOffer(list), absent
}
