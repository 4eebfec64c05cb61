package mcpclient

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/capability"
	"github.com/troupe-dev/troupe/mcpclient/internal/gathering"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pins"
)

// HostOptions changes how a host works; nil is the same as the zero value. The embedded
// [Options] hold for each server: a function of them may be called for several servers at
// once, Roots are those of all. System, OnState and the On…Changed functions are the host's
// own, and [NewHost] refuses them: OnEvent takes their place.
type HostOptions struct {
	Options
	// OnEvent hears of what happens to the servers, one event at a time for each of
	// them; it may block.
	OnEvent func(Event)
	// ListTimeout is how long [Host.Tools] waits for a server. Zero means 30 s.
	ListTimeout time.Duration
	// Pins holds the definition of each tool to what it was when it was first called:
	// another one takes the consent of Human. Nil remembers them for the host's life;
	// a store of the program's makes that last.
	Pins PinStore
	// Tenant names the one whose connections these are: the host then is an actor of the
	// kind tenant, and its failure ends nothing else. Empty is the program's own.
	Tenant string
	// Like is another host of the same servers, from which this one learns which era they
	// belong to, and the other way round. Nil is none.
	Like *Host
}

func (o *HostOptions) withDefaults() HostOptions {
	d := *cmp.Or(o, new(HostOptions))
	d.ListTimeout = cmp.Or(d.ListTimeout, 30*time.Second)
	if d.Pins == nil {
		d.Pins = new(MemoryPins)
	}
	return d
}

func (o *HostOptions) check() error {
	if o.System != nil || o.OnState != nil || o.OnToolsChanged != nil || o.OnResourcesChanged != nil || o.OnPromptsChanged != nil {
		return errors.New("mcpclient: System, OnState and the On…Changed functions are not a host's options: use NewHost's system, and OnEvent")
	}
	return capability.CheckExtensions(o.Extensions)
}

// Event is something that happened to a server.
type Event struct {
	Server string
	Status Status
	// ToolsChanged says that the catalogue may have changed, the others that those
	// lists may have; if none is set the state has.
	ToolsChanged, ResourcesChanged, PromptsChanged bool
}

// ServerStatus is what [Host.Servers] tells of a server.
type ServerStatus struct {
	Status
	Disabled bool
	Tools    int   // in the catalogue, those of the last good list
	ListErr  error // why the last attempts to list what it has failed, nil if none did
	// Login is what the server lacks before it lets us in, or list what it has: a person
	// logs in with another program. Nil if it lacks none.
	Login *Login
	// Instances are the processes that its calls are shared out to, the first one first;
	// Waiting is how many calls wait for one; Full, whether that of a further run would have to. See
	// [Server].Instances.
	Instances []InstanceStatus
	Waiting   int
	Full      bool
}

// Host keeps many servers running, each under supervision of its own.
type Host struct {
	sys     *actors.System
	ownSys  bool
	opts    HostOptions
	log     *slog.Logger
	entries []*entry
	ref     actors.Ref
	closing sync.Once
	closed  atomic.Bool
	ended   error

	names atomic.Pointer[toolCatalogue] // the newest; nil before the first
	lists gathering.Gatherer[*entry]
	tools gathering.Kind[*entry, mcp.Tool]
	pins  *pins.Pins
	pool  asks.HostLimit  // of the questions of all servers
	eras  *negotiate.Eras // what is known of the servers, for all connections to them
	roots atomic.Pointer[[]mcp.Root]
}

// entry is one server of a host.
type entry struct {
	server Server
	client atomic.Pointer[Client] // nil if it is disabled

	tools     gathering.Last[mcp.Tool]
	resources gathering.Last[mcp.Resource]
	templates gathering.Last[mcp.ResourceTemplate]
	prompts   gathering.Last[mcp.Prompt]
	skills    gathering.Last[mcp.Skill]
}

// toolCatalogue is a snapshot of all tools.
type toolCatalogue struct {
	tools []Tool   // by name
	of    [][]Tool // it was made of these, by entry
}

// Client returns the client of a server, for what a host has no method for. It
// must not be closed.
func (h *Host) Client(server string) (*Client, error) {
	if h.closed.Load() {
		return nil, ErrClosed
	}
	for _, e := range h.entries {
		if e.server.Name == server {
			if c := e.client.Load(); c != nil {
				return c, nil
			}
			return nil, &ServerError{Server: server, Err: errors.New("it is disabled")}
		}
	}
	return nil, fmt.Errorf("mcpclient: there is no server %q", server)
}

// described returns the tools as the catalogue has them, but for names and neighbours.
func (e *entry) described() []Tool {
	tools, _ := e.tools.Now().Made.([]Tool)
	return tools
}

// listErr says which lists could not be read.
func (e *entry) listErr() error {
	return errors.Join(e.tools.Now().Err, e.resources.Now().Err, e.templates.Now().Err, e.prompts.Now().Err, e.skills.Now().Err)
}

// Servers returns the state of every server, in the order they were given.
func (h *Host) Servers() []ServerStatus {
	out := make([]ServerStatus, len(h.entries))
	for i, e := range h.entries {
		out[i] = ServerStatus{Status: Status{Name: e.server.Name}, Tools: len(e.tools.Now().Items), ListErr: e.listErr()}
		if c := e.client.Load(); c != nil {
			out[i].Status = c.Status()
			out[i].Instances, out[i].Waiting, out[i].Full = c.Instances()
			out[i].Login = c.dialing.loginOf(out[i].Err, out[i].ListErr)
		} else {
			out[i].Disabled = true
		}
	}
	return out
}

// Tool is one entry of the merged catalogue.
type Tool struct {
	Server  string   // its name in the configuration
	Name    string   // server__tool: at most 64 characters of [A-Za-z0-9_-]
	Tool    mcp.Tool // as the server describes it, with its own name
	Trusted bool     // the user trusts the server's hints
	// Hash identifies the definition: see [HashTool]. Never empty.
	Hash string
	// Warnings say what is odd about the tool, in words: hidden characters, a name that
	// looks like another's.
	Warnings []string
	// AppOnly says that the tool is for the server's own user interfaces (_meta.ui.visibility
	// does not name the model): no model is offered it.
	AppOnly bool
}

// DisplayName returns what to call the tool before people: title, annotated title or
// name, as the server has it. Several tools may have the same.
func (t *Tool) DisplayName() string { return t.Tool.DisplayName() }
