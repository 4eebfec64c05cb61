package expose

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// ErrClosed is returned once Close or Shutdown was called.
var ErrClosed = errors.New("expose: the front is closed")

// Fallback says what becomes of a question that the client can not be asked.
type Fallback string

// The fallbacks.
const (
	// FallbackInbox leaves the question in the store, for `troupe inbox` or another
	// process, until somebody answers it or it expires.
	FallbackInbox Fallback = "inbox"
	// FallbackDecline declines it at once.
	FallbackDecline Fallback = "decline"
)

// Options says what a front offers and to whom; nil is the same as the zero value, and
// offers nothing.
type Options struct {
	// Info is what the server says it is. An empty name is "troupe".
	Info mcp.Implementation
	// Instructions tell the model how to use the server. They may be empty.
	Instructions string
	// Agents are tools under their names; their instructions are prompts, and what they
	// are asked to do becomes runs, which are resources.
	Agents []*agent.Agent
	// Gateway offers what the runtime's servers have: tools, resources and prompts.
	Gateway bool
	// Servers are those of the gateway. Nil means all.
	Servers []string
	// Names says how the gateway names tools and prompts. Empty means qualified.
	Names NameMode
	// Server changes how clients are served: who is authenticated, the allowed hosts and
	// origins, versions, limits. What the front needs itself takes the place of what is
	// said here: System, Waits, DeclareAll, OnClose, OnLogLevel and OnRootsChanged;
	// Middleware is put around the front's own. A zero CallTimeout is no bound here: runs
	// and downstream calls have their own.
	Server mcpserver.Options
	// Unanswered is what becomes of questions that the client can not be asked. Empty
	// means the inbox if the runtime keeps a store, else decline.
	Unanswered Fallback
	// MaxClients bounds the clients at once, pipes, sessions and principals; those that
	// are idle give way to new ones, and more are refused. Zero means 1000.
	MaxClients int
	// IdleClient is how long a client without a session may be quiet before what is kept
	// for it is given up. Zero means 10 minutes.
	IdleClient time.Duration
	// IdleServers is how long the connections to servers are kept for a client that has a
	// session over HTTP, sends nothing and has no stream open. They are made anew when it
	// comes back; how long it may stay away is Server.SessionTTL. Zero means 2 minutes,
	// negative is as long as the session lasts.
	IdleServers time.Duration
	// ListWait is how long the first list that a client asks for waits for the lists of
	// servers that are starting; those that have failed are not waited for. What comes later
	// is told as a change. Zero means 30 seconds.
	ListWait time.Duration
	// Logger takes structured logs. Nil is that of Server, which may be nil, too.
	Logger *slog.Logger
}

func (o *Options) withDefaults(rt *agent.Runtime) (Options, error) {
	var d Options
	if o != nil {
		d = *o
	}
	d.Info.Name = cmp.Or(d.Info.Name, "troupe")
	d.Names = cmp.Or(d.Names, NamesQualified)
	if d.Names != NamesQualified && d.Names != NamesPlain {
		return d, fmt.Errorf("names %q: want %s or %s", d.Names, NamesQualified, NamesPlain)
	}
	if d.Unanswered == "" {
		d.Unanswered = FallbackDecline
		if rt.Store() != nil {
			d.Unanswered = FallbackInbox
		}
	}
	if d.Unanswered != FallbackInbox && d.Unanswered != FallbackDecline {
		return d, fmt.Errorf("unanswered %q: want %s or %s", d.Unanswered, FallbackInbox, FallbackDecline)
	}
	if d.MaxClients < 0 || d.IdleClient < 0 || d.ListWait < 0 {
		return d, errors.New("a MaxClients, IdleClient or ListWait below zero: it must not be negative, zero means its default")
	}
	if d.Unanswered == FallbackInbox && rt.Store() == nil {
		return d, errors.New("unanswered questions can not go to the inbox: the runtime has no store")
	}
	d.MaxClients = cmp.Or(d.MaxClients, 1000)
	d.IdleClient = cmp.Or(d.IdleClient, 10*time.Minute)
	d.IdleServers = cmp.Or(d.IdleServers, 2*time.Minute)
	d.ListWait = cmp.Or(d.ListWait, 30*time.Second)
	if d.Logger == nil {
		d.Logger = cmp.Or(d.Server.Logger, slog.New(slog.DiscardHandler))
	}
	d.Agents, d.Servers = slices.Clone(d.Agents), slices.Clone(d.Servers)
	return d, nil
}

// Front offers agents and servers to clients. Its methods may be used from any goroutine.
type Front struct {
	rt        *agent.Runtime
	opts      Options
	log       *slog.Logger
	fallback  mcpclient.Human   // decides what the client can not be asked
	reserved  map[string]bool   // names of agents' tools and prompts
	lobby     *mcpserver.Server // answers what is no upstream's
	nobody    *upstream         // the lobby's, which has nothing
	errands   errands
	records   store.Records // of clients without sessions
	taskAfter time.Duration // see the constant
	history   history       // of the runs that clients have started
	warned    warned

	making sync.Mutex // held while an upstream is made: nobody finds half of one; before mu

	mu       sync.Mutex
	all      map[*upstream]struct{} // that are not closed
	ending   map[*upstream]struct{} // that are closed and have not ended
	keyed    map[string]*upstream   // stateless clients
	sessions map[string]*upstream   // legacy sessions over HTTP, by id
	streams  map[string]*upstream   // those of HTTP+SSE, by our key
	clock    *time.Timer            // runs while there are clients that may be idle
	closed   bool
}

// New returns a front of the runtime. It serves nobody until its Handler, Serve or
// ServeStdio is used, and ends with Close; the runtime is closed after it, by whoever has
// opened it.
func New(rt *agent.Runtime, opts *Options) (*Front, error) {
	o, err := opts.withDefaults(rt)
	if err != nil {
		return nil, fmt.Errorf("expose: %w", err)
	}
	f := &Front{rt: rt, opts: o, log: o.Logger, fallback: mcpclient.Nobody, reserved: make(map[string]bool),
		all: make(map[*upstream]struct{}), ending: make(map[*upstream]struct{}),
		keyed: make(map[string]*upstream), sessions: make(map[string]*upstream), streams: make(map[string]*upstream)}
	f.taskAfter, f.records = taskAfter, memstore.New(nil)
	f.errands.keep = cmp.Or(o.Server.TicketTTL, time.Hour)
	if o.Unanswered == FallbackInbox {
		f.fallback = agent.InboxHuman(rt.Store(), &agent.InboxOptions{By: o.Info.Name})
	}
	if err := f.shared(); err != nil {
		return nil, fmt.Errorf("expose: %w", err)
	}
	for _, a := range o.Agents {
		if f.reserved[toolName(a.Name())] {
			return nil, fmt.Errorf("expose: two agents would be the tool %q", toolName(a.Name()))
		}
		f.reserved[toolName(a.Name())] = true
	}
	f.nobody = &upstream{front: f, log: f.log, ctx: context.Background()}
	if f.lobby, err = f.newServer(f.nobody); err != nil {
		return nil, fmt.Errorf("expose: %w", err)
	}
	return f, nil
}

// shared makes what all servers share: a client that comes back to another server of the
// front, because its own was idle, finds its tasks there and can prove what it was asked.
func (f *Front) shared() error {
	o := &f.opts.Server
	if o.TicketKeys == nil {
		key := make([]byte, 32)
		if _, err := rand.Read(key); err != nil {
			return fmt.Errorf("making a key: %w", err)
		}
		o.TicketKeys = [][]byte{key}
	}
	return nil
}

// newServer makes the server of an upstream.
func (f *Front) newServer(u *upstream) (*mcpserver.Server, error) {
	o := f.opts.Server
	o.System, o.Logger = f.rt.System(), f.log
	if u.key != "" && o.Records == nil {
		o.Records = f.records // who has no session may come back to another server
	}
	o.Instructions = f.opts.Instructions
	o.CallTimeout = cmp.Or(o.CallTimeout, -1)
	o.Authenticate = known
	o.DeclareAll = f.opts.Gateway
	o.Waits = true
	o.Middleware = append(slices.Clone(o.Middleware), u.around)
	o.OnRootsChanged = u.rootsChanged
	o.OnClose = func(*mcpserver.Peer) { u.close(errHungUp) }
	o.OnLogLevel = u.levelSet
	if f.opts.Gateway {
		o.NoticePace, o.QuietUntilListed = cmp.Or(o.NoticePace, noticePace), true
		u.gate = newGateway(u)
		o.OnWatched = u.gate.watched
	}
	o.Tasks = f.taskOptions()
	s, err := mcpserver.New(f.opts.Info, &o)
	if err != nil {
		return nil, err
	}
	u.server = s
	for _, a := range f.opts.Agents {
		if err := u.offer(a); err != nil {
			return nil, errors.Join(fmt.Errorf("agent %q: %w", a.Name(), err), s.Close())
		}
	}
	if len(f.opts.Agents) > 0 {
		if err := u.offerRuns(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// noticePace is how often a client hears that one list has changed, while servers start or
// change it all the time.
const noticePace = time.Second

var errHungUp = errors.New("the client has hung up")

// open makes an upstream, busy. If there are too many, one that is idle gives way.
func (f *Front) open(p *mcpserver.Principal, key string) (*upstream, error) {
	f.making.Lock()
	defer f.making.Unlock()
	return f.make(p, key)
}

// make is open, called under the lock of making.
func (f *Front) make(p *mcpserver.Principal, key string) (*upstream, error) {
	u := &upstream{front: f, principal: p, key: key, over: make(chan struct{}), log: f.log,
		errands: make(map[*errand]struct{}), pages: make(map[pageKey][]string)}
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	if err := f.admit(u); err != nil {
		u.cancel(err)
		return nil, err
	}
	if _, err := f.newServer(u); err != nil {
		f.forget(u)
		u.cancel(err)
		f.gone(u)
		return nil, err
	}
	return u, nil
}
