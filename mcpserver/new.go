// new.go: how a server is made of its options.

package mcpserver

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/ratelimit"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/pages"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
	"github.com/troupe-dev/troupe/mcpserver/internal/ticket"
)

// New returns a server without tools. It serves no client until Serve, ServeStdio or
// Connect is called.
func New(info mcp.Implementation, opts *Options) (*Server, error) {
	s := &Server{opts: opts.withDefaults(), info: info}
	if info.Name == "" {
		return nil, errors.New("mcpserver: the implementation has no name")
	}
	for _, v := range s.opts.Versions {
		if !v.Known() {
			return nil, fmt.Errorf("mcpserver: unknown protocol revision %q", v)
		}
	}
	// Newest first, as clients get them.
	s.opts.Versions = slices.DeleteFunc(mcp.Versions(), func(v mcp.Version) bool { return !slices.Contains(s.opts.Versions, v) })
	if len(s.opts.Versions) == 0 {
		return nil, errors.New("mcpserver: no protocol revision is left to speak")
	}
	s.rules = s.opts.HTTP.rules()
	var err error
	if s.identity, err = offered.NewIdentity(info); err != nil {
		return nil, err
	}
	s.log = s.opts.Logger
	if s.web, err = newWeb(s); err != nil {
		return nil, err
	}
	sealer, err := ticket.New(s.opts.Rounds.TicketKeys)
	if err != nil {
		return nil, err
	}
	if s.opts.Model != nil {
		if err := s.opts.Model.Check(); err != nil {
			return nil, err
		}
	}
	s.common.Store(s.nextShared())
	s.notices = newNotices(s)
	var durable bool
	s.records, durable = recordsIn(s.opts.Records)
	s.pages = pages.New(pages.Options{Spawn: s.spawnChild, Expiry: s.opts.Rounds.TicketTTL, Log: s.log, Records: s.records, Shared: durable})
	s.dialogues = s.newDialogues(sealer)
	s.tasks = newTasks(s, durable)
	s.taskNews = s.tasks
	s.lists.declareAll = s.opts.Lists.DeclareAll
	s.lists.init(&registry.Paging{
		Versions: s.opts.Versions, Entries: s.opts.Lists.PageSize, Bytes: s.opts.Lists.PageBytes,
		TTL: s.opts.Lists.CacheFor, Scope: s.listScope(), Finish: s.identity.Finish,
	}, s.notices.Changed)
	s.limits = ratelimit.New(s.opts.Limits.RatePerSecond, s.opts.Limits.RateBurst)
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	s.sys = s.opts.System
	if s.sys == nil {
		sys, err := actors.NewSystem(&actors.Options{Logger: s.log})
		if err != nil {
			return fmt.Errorf("starting the server: %w", err)
		}
		s.sys, s.own = sys, true
	}
	ref, err := s.sys.Spawn(actors.Spec{Kind: actors.KindServer, New: func() actors.Actor { return &serverActor{subscriptions.Notifier{Of: s.notices}} }})
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	s.ref = ref
	if s.opts.Model == nil {
		return nil
	}
	if s.model, err = s.opts.Model.Open(s.sys, "model-"+path.Base(ref.Path())); err != nil {
		ref.Stop()
	}
	return err
}

// serverActor is the parent of the sessions.
type serverActor struct{ notifier subscriptions.Notifier }

// Receive implements [actors.Actor].
func (a *serverActor) Receive(c *actors.Context, msg any) {
	switch m := msg.(type) {
	case *open:
		n := m.session // the actor keeps what it is made with: not the message
		ref, err := c.Spawn(actors.Spec{
			Kind:   actors.KindSession,
			New:    func() actors.Actor { return n },
			OnStop: n.stopped,
		})
		if !m.reply.Complete(ref, err) { // the caller does not wait any more
			ref.Stop()
		}
	case *startLoop:
		m.start(c)
	default:
		a.notifier.Receive(c, msg)
	}
}
