// dispatch.go: the way of a message: it is scanned, admitted, throttled, and handed to its method.

package mcpserver

import (
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/pinging"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// startBatch handles an array of messages, each on its own.
func (s *session) startBatch(data []byte, from *Principal, to port.Port) {
	if h := s.legacy.Load(); h == nil || !h.version.Has(mcp.FeatureBatch) { // BASE-23
		s.fail(to, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "this revision has no batches"))
		return
	}
	if err := permitBatch(s, from, data); err != nil {
		s.fail(to, mcp.ID{}, err)
		return
	}
	b := port.NewBatch(to)
	var m mcp.Message
	err := mcp.ScanBatch(data, maxBatch, func(raw []byte) error {
		a := arrival{Message: &m, principal: from, port: b}
		b.Expect()
		s.message(raw, &a)
		return nil
	})
	if err != nil {
		s.fail(to, mcp.ID{}, err)
		return
	}
	b.Drop()
}

// message scans a frame into a.Message and handles it.
func (s *session) message(data []byte, a *arrival) (lost bool) {
	m := a.Message
	err := mcp.Scan(data, m)
	switch {
	case err != nil:
		s.server.log.Debug("a malformed message", "session", s.ref.Path(), "error", err)
		if m.Kind == mcp.KindRequest || m.Kind == mcp.KindInvalid { // BASE-09, BASE-16
			s.fail(a.port, m.ID, err)
			return false
		}
	case m.Kind == mcp.KindRequest:
		return s.handle(a)
	case m.Kind == mcp.KindNotification:
		s.notification(m)
	default:
		s.response(m)
	}
	a.port.Drop()
	return false
}

// handle answers one request or starts its call.
func (s *session) handle(a *arrival) (lost bool) {
	if err := s.admit(a); err != nil {
		s.fail(a.port, a.ID, err)
		return false
	}
	return s.proceed(a)
}

// proceed is handle for a request that is admitted.
func (s *session) proceed(a *arrival) (lost bool) {
	err := throttle(s, a)
	if err == nil {
		row := methods[a.Method]
		if deferred := s.server.opts.middlewareWaits; len(s.server.rules) > 0 && (deferred || row.find == nil) { // else begin does it
			err = permit(s, a, a.Method, a.label(), nil)
		}
		switch {
		case err != nil:
		case s.server.opts.middlewareWaits && (row.waits || row.find != nil):
			err = beginDeferred(s, a, row)
		case row.start != nil:
			lost, err = row.start(s, a)
		default:
			err = s.answerNow(a, row)
		}
	}
	if err != nil { // then the reader is not lost
		s.fail(a.port, a.ID, err)
	}
	return lost
}

// CodeRateLimited is the error of a request beyond [Limits].RatePerSecond. Its data
// is {"retryAfterMs": n}. It lies outside of the codes that the protocol reserves.
const CodeRateLimited = web.CodeRateLimited

// throttle refuses a request that comes too soon. Pings are free: they cost nothing,
// and a client without an answer to one hangs up.
func throttle(s *session, a *arrival) error {
	l := s.server.limits
	if l == nil || a.Method == mcp.MethodPing {
		return nil
	}
	limit := s.limit
	if a.principal != nil && a.principal.ID != "" {
		limit = l.Of(a.principal.ID)
	}
	wait := l.Take(limit)
	if wait == 0 {
		return nil
	}
	return mcp.Errorf(CodeRateLimited, "too many requests: try again in %v", wait.Round(time.Millisecond)).
		WithData(struct {
			RetryAfterMs int64 `json:"retryAfterMs"`
		}{max(1, wait.Milliseconds())})
}

func (s *session) admit(a *arrival) error {
	if a.Modern {
		if _, ok := a.port.(*port.Batch); ok { // over HTTP it would come without its headers, too (SHM-03, HDR-05)
			return mcp.Errorf(mcp.CodeInvalidRequest, "2026-07-28 has no batches") // BASE-23
		}
		return admitModern(s, a)
	}
	return admitLegacy(s, a)
}

// notification handles a message without a response (BASE-09). It ignores unknown ones
// (BASE-14).
func (s *session) notification(m *mcp.Message) {
	switch m.Method {
	case mcp.NotificationCancelled:
		var p mcp.CancelledParams
		if m.DecodeParams(&p) == nil && !p.RequestID.IsZero() { // CANC-07
			s.calls.Cancel(p.RequestID, p.Reason)
		}
	case mcp.NotificationInitialized:
		if s.legacy.Load() != nil { // LIFE-07: before initialize it means nothing
			s.ready.Store(true)
			s.server.notices.CatchUp(s) // of what changed since initialize
			if s.server.opts.Limits.PingEvery > 0 {
				s.ref.Send(pinging.Start{})
			}
		}
	case mcp.NotificationRootsChanged:
		noteRoots(s)
	}
}
