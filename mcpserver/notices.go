// notices.go: notifications of changed lists, resources and tasks.

package mcpserver

import (
	"slices"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
	"github.com/troupe-dev/troupe/mcpserver/internal/subscriptions"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// taskNews is the part of the server that has the tasks (XTASK-14).
type taskNews interface {
	// mayWatch returns those of the tasks that the sender may subscribe to. The error is
	// -32021 if it has not declared the extension.
	mayWatch(a *arrival, ids []string) (accepted []string, err error)
	// Announce is called when a stream has subscribed to a task: it notifies the stream of the
	// status, which may have changed before.
	Announce(id string)
}

// newNotices returns the server's notices.
func newNotices(s *Server) *subscriptions.Notices {
	return subscriptions.New(subscriptions.Options{
		Pace: s.opts.Lists.NoticePace, QuietUntilListed: s.opts.Lists.QuietUntilListed, OnWatched: s.opts.Events.OnWatched,
		MaxListens: s.opts.Limits.MaxListens, MaxSubscriptions: s.opts.Limits.MaxSubscriptions,
		MaxShared:  (s.opts.HTTP.MaxConcurrent + 1) / 2, // of the requests in flight
		ServerMeta: s.identity.Raw,
		Logger:     s.log,
		Wake:       func(news any) { s.ref.Send(news) },
		Announce:   func(task string) { s.taskNews.Announce(task) },
		Sessions: func(yield func(subscriptions.Session) bool) {
			for _, n := range s.live() {
				if !yield(n) {
					return
				}
			}
		},
	})
}

// The methods of [subscriptions.Session].

func (s *session) Subscriptions() *subscriptions.Client { return &s.notified }
func (s *session) Stateless() bool                      { return s.stateless }
func (s *session) Ready() bool                          { return s.ready.Load() }
func (s *session) Go(f func())                          { s.server.sys.Go(s.ref.Path(), f) }

func (s *session) Offered() *mcp.ServerCapabilities {
	if h := s.legacy.Load(); h != nil {
		return &h.offered
	}
	return nil
}

func (s *session) Reachable() bool {
	streams, ok := s.out.(interface{ Listening() bool }) // of an HTTP session
	return !ok || streams.Listening()
}

func (s *session) Updated(uri string) {
	if !s.ready.Load() { // LIFE-07
		return
	}
	raw, err := mcp.Marshal(&mcp.ResourceParams{URI: uri})
	if err != nil {
		s.server.log.Warn("a notification cannot be encoded", "session", s.ref.Path(), "error", err)
		return
	}
	s.Notify(mcp.AppendNotification(nil, mcp.NotificationResourceUpdated, raw))
}

// startListen begins subscriptions/listen, which has no deadline (SUB-12).
func startListen(s *session, a *arrival) (lost bool, err error) {
	if _, ok := a.port.(*port.Batch); ok {
		return false, mcp.Errorf(mcp.CodeInvalidRequest, "a subscription cannot be part of a batch: it is answered when it ends")
	}
	var p mcp.ListenParams
	if err := a.DecodeParams(&p); err != nil {
		return false, err
	}
	if err := passMiddleware(s, a); err != nil {
		return false, err
	}
	n, wish := s.server.notices, p.Notifications
	offered := s.server.capabilities(a.version)
	accepted := n.Accept(wish, &offered)
	accepted.ResourceSubscriptions = slices.DeleteFunc(accepted.ResourceSubscriptions, func(uri string) bool { return permitReading(s, a, uri) != nil })
	if len(wish.TaskIDs) > 0 {
		accepted.TaskIDs, err = s.server.taskNews.mayWatch(a, wish.TaskIDs[:min(len(wish.TaskIDs), s.server.opts.Limits.MaxSubscriptions)])
		if err != nil {
			return false, err
		}
	}
	l, err := n.Open(s, a.laterPort(s), a.principal.id(), accepted)
	if err != nil {
		return false, err
	}
	r := s.inboundRequest(a)
	r.Deadline = -1
	if until := a.principal.expiry(); !until.IsZero() && s.in == nil { // the subscription ends with the token
		r.Deadline = max(time.Until(until), time.Second)
	}
	if err := s.calls.Begin(&l.Call, l, r); err != nil {
		l.Leave()
		return false, err
	}
	if x, ok := a.port.(*web.Exchange); ok { // it ends the call when the client has gone (SUB-07)
		x.Began(&l.Call)
	}
	l.Run()
	return false, nil
}

// subscribe and unsubscribe are resources/subscribe and resources/unsubscribe.
func subscribe(s *session, a *arrival) ([]byte, error) {
	uri, err := subscriptionOf(s, a)
	if err != nil {
		return nil, err
	}
	if err := permitReading(s, a, uri); err != nil {
		return nil, err
	}
	if err := s.server.notices.Subscribe(s, uri); err != nil {
		return nil, err
	}
	return []byte("{}"), nil
}

func unsubscribe(s *session, a *arrival) ([]byte, error) {
	uri, err := subscriptionOf(s, a)
	if err != nil {
		return nil, err
	}
	s.server.notices.Unsubscribe(s, uri)
	return []byte("{}"), nil
}

// subscriptionOf returns the URI of a request. It is for clients to which the server has
// declared subscriptions, and for no others (CAP-03).
func subscriptionOf(s *session, a *arrival) (string, error) {
	if offered := s.Offered(); offered == nil || offered.Resources == nil || !offered.Resources.Subscribe {
		return "", mcp.Errorf(mcp.CodeMethodNotFound, "method not found")
	}
	var p mcp.ResourceParams
	if err := a.DecodeParams(&p); err != nil {
		return "", err
	}
	if err := subscriptions.CheckURI(p.URI); err != nil {
		return "", mcp.Errorf(mcp.CodeInvalidParams, "%s", err.Error())
	}
	return p.URI, nil
}

// ResourceUpdated notifies the clients that have subscribed to a resource, or to one above
// it, that the resource has changed. It does not block: the notifications follow soon, one
// for several updates at short intervals.
func (s *Server) ResourceUpdated(uri string) { s.notices.Updated(uri) }
