package expose

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Fallback decides on a question that the client cannot be asked.
type Fallback string

// The fallbacks.
const (
	// FallbackInbox leaves the question in the store, for `troupe inbox` or another
	// process, until it is answered or expires.
	FallbackInbox Fallback = "inbox"
	// FallbackDecline declines it at once.
	FallbackDecline Fallback = "decline"
)

// NameMode is the way in which a gateway names the tools and prompts of its backends.
type NameMode string

// The name modes.
const (
	// NamesQualified is server__tool, and the default: a name then shows which backend has the
	// tool, and stays when backends come and go.
	NamesQualified NameMode = "qualified"
	// NamesPlain keeps a name that one backend has, and qualifies the others: for one backend,
	// or for clients that know the names.
	NamesPlain NameMode = "plain"
)

// Options are the offers of a front and their clients; nil is the same as the zero value, and
// offers nothing.
type Options struct {
	// Info is the identity of the server. An empty name is "troupe".
	Info mcp.Implementation
	// Instructions tell the model how to use the server. They may be empty.
	Instructions string
	// Agents are tools under their names; their instructions are prompts, and their runs are
	// resources.
	Agents []*agent.Agent
	// Gateway offers the tools, resources and prompts of the runtime's servers.
	Gateway bool
	// Servers are the backends of the gateway. Nil means all servers of the runtime.
	Servers []string
	// Names is the way in which the gateway names tools and prompts. Empty means qualified.
	Names NameMode
	// Server changes how clients are served: authentication, the allowed hosts and origins,
	// versions, limits. The front replaces System, Lists.DeclareAll and the Events; Middleware
	// runs outside of the front's own. A zero Limits.CallTimeout means none here: runs and
	// calls of backends have their own.
	Server mcpserver.Options
	// Unanswered decides on questions that the client cannot be asked. Empty
	// means the inbox if the runtime keeps a store, else decline.
	Unanswered Fallback
	// MaxClients bounds the clients at once: pipes, sessions and principals. Idle clients
	// give way to new ones; if none is idle new ones are refused. Zero means 1000.
	MaxClients int
	// IdleClient is how long a client without a session may be idle until its server and
	// connections end. Zero means 10 minutes.
	IdleClient time.Duration
	// IdleServers is how long a client with a session over HTTP may be idle, without a
	// request or an open stream, until its connections to the backends end. They are made
	// anew for its next request; Server.HTTP.SessionTTL bounds the session. Zero means 2 minutes,
	// negative keeps them as long as the session.
	IdleServers time.Duration
	// ListWait is how long a client's first list waits for the lists of backends that start.
	// It does not wait for backends that have failed, and later lists are notified as
	// changes. Zero means 30 seconds.
	ListWait time.Duration
	// Authorizer returns what authorizes the connections of a principal at servers over HTTP, so
	// that principals act with logins of their own. It is not called for anonymous clients; nil
	// there, or returned, is the runtime's: its logins are then those of all clients.
	Authorizer func(principal *mcpserver.Principal) (mcpclient.Authorizer, error)
	// Logger takes structured logs. Nil is that of Server, which may be nil, too.
	Logger *slog.Logger
}

func (o *Options) withDefaults(rt *agent.Runtime) (Options, error) {
	d := *cmp.Or(o, new(Options))
	d.Info.Name = cmp.Or(d.Info.Name, "troupe")
	d.Names = cmp.Or(d.Names, NamesQualified)
	if d.Unanswered == "" {
		d.Unanswered = FallbackDecline
		if rt.Store() != nil {
			d.Unanswered = FallbackInbox
		}
	}
	switch {
	case d.Names != NamesQualified && d.Names != NamesPlain:
		return d, fmt.Errorf("names %q: want %s or %s", d.Names, NamesQualified, NamesPlain)
	case d.Unanswered != FallbackInbox && d.Unanswered != FallbackDecline:
		return d, fmt.Errorf("unanswered %q: want %s or %s", d.Unanswered, FallbackInbox, FallbackDecline)
	case d.MaxClients < 0 || d.IdleClient < 0 || d.ListWait < 0:
		return d, errors.New("a MaxClients, IdleClient or ListWait below zero: it must not be negative, zero means its default")
	case d.Unanswered == FallbackInbox && rt.Store() == nil:
		return d, errors.New("unanswered questions cannot go to the inbox: the runtime has no store")
	}
	d.MaxClients = cmp.Or(d.MaxClients, 1000)
	d.IdleClient = cmp.Or(d.IdleClient, 10*time.Minute)
	d.IdleServers = cmp.Or(d.IdleServers, 2*time.Minute)
	d.ListWait = cmp.Or(d.ListWait, 30*time.Second)
	d.Logger = cmp.Or(d.Logger, d.Server.Logger, slog.New(slog.DiscardHandler))
	d.Agents, d.Servers = slices.Clone(d.Agents), slices.Clone(d.Servers)
	return d, nil
}
