package conn

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds on what a peer may do wrong.
const (
	maxEarly     = 64      // messages before Dial has returned, and
	maxEarlySize = 8 << 20 // their bytes (ROB-3)
	maxMalformed = 1000    // in one session
	maxBatch     = 1000    // messages in a batch
	loggedFaults = 10      // those after are only counted
)

// Session is one generation of a connection, as [Options].Negotiate and
// [Options].Received see it. It is the [mcp.Sink] of its transport. Its methods may
// be used from any goroutine. It is an [mcp.CallSink].
type Session struct {
	conn *Conn
	gen  uint64
	done actors.Reply[struct{}] // nothing of the transport is left

	mu        sync.Mutex
	inbound   *inbound.Table // nil before the first request: most peers have none
	link      mcp.Link       // nil before Dial has returned
	version   mcp.Version
	early     *early // nil without any
	malformed int32
	open      bool // early has been worked off
	over      bool // nothing more is passed on
	dialed    bool // Dial has returned
}

// early are messages that came before the link.
type early struct {
	frames []frame
	size   int // in bytes
}

// frame is a message with the request of ours on whose stream it came.
type frame struct {
	bytes   []byte
	related mcp.ID
}

func newSession(k *Conn) *Session {
	return &Session{conn: k, gen: k.gens.Add(1)}
}

// Generation returns the number of the transport, from 1.
func (s *Session) Generation() uint64 { return s.gen }

// Version returns what was agreed on; "" before.
func (s *Session) Version() mcp.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// Do carries out a request of the negotiation: it goes out at once and is not
// sent again.
func (s *Session) Do(ctx context.Context, req *call.Request) (call.Result, error) {
	early := *req
	early.Early, early.Safe = true, false
	return s.conn.calls.Do(ctx, &early)
}

// Go is [Session.Do] for a caller that does not wait; see [call.Table.Go].
func (s *Session) Go(ctx context.Context, req *call.Request, done func(call.Result, error)) {
	early := *req
	early.Early, early.Safe = true, false
	s.conn.calls.Go(ctx, &early, done)
}

// Agree sets the version, and the members of every request's _meta; see
// [call.Table.Agree].
func (s *Session) Agree(version mcp.Version, members []byte) {
	s.mu.Lock()
	s.version = version
	s.mu.Unlock()
	s.conn.calls.Agree(s.gen, version, members)
}

// Notify sends a notification; params may be nil.
func (s *Session) Notify(method string, params []byte) error {
	return s.send(mcp.Outgoing{Frame: mcp.AppendNotification(nil, method, params), Kind: mcp.KindNotification, Method: method})
}

// Respond answers a request of the peer.
func (s *Session) Respond(id mcp.ID, result []byte) error {
	return s.send(mcp.Outgoing{Frame: mcp.AppendResult(nil, id, result), Kind: mcp.KindResult, ID: id})
}

// Refuse answers a request of the peer with an error.
func (s *Session) Refuse(id mcp.ID, e *mcp.Error) error {
	return s.send(mcp.Outgoing{Frame: mcp.AppendError(nil, id, e), Kind: mcp.KindError, ID: id})
}

func (s *Session) send(m mcp.Outgoing) error {
	s.mu.Lock()
	link, over := s.link, s.over
	s.mu.Unlock()
	if link == nil || over {
		return ErrNotReady
	}
	return link.Send(m)
}

// Fail ends this generation because of err; another follows.
func (s *Session) Fail(err error) { s.conn.send(&transportLost{s.gen, err}) }

// Lost implements [mcp.Sink].
func (s *Session) Lost(err error) {
	if err == nil {
		err = ErrClosedByPeer
	}
	s.Fail(err)
}

// Frame implements [mcp.Sink].
func (s *Session) Frame(frame []byte) { s.FrameOf(mcp.ID{}, frame) }

// FrameOf implements [mcp.CallSink].
func (s *Session) FrameOf(id mcp.ID, bytes []byte) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	if !s.open {
		defer s.mu.Unlock()
		if s.early == nil {
			s.early = new(early)
		}
		e := s.early
		if e.size += len(bytes); len(e.frames) < maxEarly && e.size <= maxEarlySize {
			e.frames = append(e.frames, frame{slices.Clone(bytes), id})
		}
		return
	}
	version := s.version
	s.mu.Unlock()
	s.receive(frame{bytes, id}, version)
}

// Failed implements [mcp.CallSink]; see [call.Table.Failed].
func (s *Session) Failed(id mcp.ID, err error) { s.conn.calls.Failed(s.gen, id, err) }

// Skipped implements [mcp.SkipSink].
func (s *Session) Skipped(head, tail []byte, err func(certain bool) error) {
	method, id := mcp.Outline(head, tail)
	log := s.conn.log.With("error", err(true), "start", string(head[:min(len(head), 80)]))
	switch {
	case method != "" && !id.IsZero():
		log.Warn("refusing a request that is too long", "method", method)
		if err := s.Refuse(id, mcp.Errorf(mcp.CodeInvalidRequest, "the message is too long: %v", err(true))); err != nil {
			log.Debug("the refusal was not sent", "reason", err)
		}
	case method != "":
		log.Warn("ignoring a notification that is too long", "method", method)
	case !id.IsZero():
		log.Warn("an answer is too long; its request ends with an error")
		s.conn.calls.Malformed(s.gen, id, err(true))
	default:
		out := s.Out()
		log.Warn("a message is too long, and it is not known whose answer it is; all requests under way end with an error", "requests", len(out))
		for _, o := range out {
			s.conn.calls.Malformed(s.gen, o.ID, err(false))
		}
	}
}

// Inbound returns the table for the peer's requests; nil without [Options].Inbound.
func (s *Session) Inbound() *inbound.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.conn.opts.Inbound; s.inbound == nil && o != nil {
		s.inbound = inbound.NewTable(o)
		s.inbound.Bind(s.conn.Ref())
		if s.over {
			s.inbound.Close(ErrGenerationOver)
		}
	}
	return s.inbound
}

// Hold keeps the clocks of a call of this generation still until release, or with
// the zero id those of all its calls; see [call.Table.Hold].
func (s *Session) Hold(id mcp.ID) (release func()) { return s.conn.calls.Hold(s.gen, id) }

// Out returns the calls that are out on this generation.
func (s *Session) Out() []call.OutCall { return s.conn.calls.Out(s.gen) }

// attach gives the session its link; it is closed at once if the session is over.
func (s *Session) attach(link mcp.Link, err error) {
	s.mu.Lock()
	s.dialed = true
	if err != nil || s.over {
		s.mu.Unlock()
		if link != nil {
			link.Close()
		}
		s.done.Complete(struct{}{}, nil)
		return
	}
	s.link = link
	s.mu.Unlock()
}

// begin passes on what came early, and from then on everything as it comes.
func (s *Session) begin() {
	for {
		s.mu.Lock()
		e := s.early
		s.early = nil
		if e == nil {
			s.open = true
			s.mu.Unlock()
			return
		}
		version := s.version
		s.mu.Unlock()
		for _, f := range e.frames {
			s.receive(f, version)
		}
	}
}

// end passes nothing more on and closes the link on a goroutine of the system.
func (s *Session) end() {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over, s.early = true, nil
	link, requests := s.link, s.inbound
	s.mu.Unlock()
	if requests != nil {
		requests.Close(ErrGenerationOver)
	}
	if link != nil {
		s.conn.sys.Go(s.conn.opts.Name+": closing the transport", func() {
			defer s.done.Complete(struct{}{}, nil)
			link.Close()
		})
	}
	// Otherwise Dial has failed, or is still to return: attach completes done.
}

var (
	_ mcp.CallSink = (*Session)(nil)
	_ mcp.SkipSink = (*Session)(nil)
)

// messages are used again: scanning needs some hundred bytes.
var messages = sync.Pool{New: func() any { return new(mcp.Message) }}

func (s *Session) receive(f frame, version mcp.Version) {
	if mcp.IsBatch(f.bytes) && version.Has(mcp.FeatureBatch) { // BASE-20
		err := mcp.ScanBatch(f.bytes, maxBatch, func(raw []byte) error {
			s.message(raw, f.related)
			return nil
		})
		if err != nil {
			s.fault(nil, f.bytes, err)
		}
		return
	}
	s.message(f.bytes, f.related)
}

func (s *Session) message(frame []byte, related mcp.ID) {
	m := messages.Get().(*mcp.Message)
	defer func() {
		*m = mcp.Message{}
		messages.Put(m)
	}()
	if err := mcp.Scan(frame, m); err != nil {
		s.fault(m, frame, err)
		return
	}
	switch {
	case m.Kind == mcp.KindError && m.ID.IsZero(): // BASE-08
		s.conn.log.Debug("the peer reported an error that belongs to no request", "error", m.Error)
	case m.Kind == mcp.KindResult || m.Kind == mcp.KindError:
		s.conn.calls.Deliver(s.gen, m)
	case m.Method == mcp.NotificationProgress && m.Kind == mcp.KindNotification:
		var p mcp.ProgressParams
		if err := m.DecodeParams(&p); err != nil {
			s.conn.log.Debug("dropping malformed progress", "error", err) // PROG-08
			return
		}
		s.conn.calls.Progress(s.gen, &p)
		s.received(m, related)
	default:
		s.received(m, related)
	}
}

func (s *Session) received(m *mcp.Message, related mcp.ID) {
	if s.conn.opts.Received != nil {
		s.conn.opts.Received(s, m, related)
	}
}

// fault is a message that cannot be read. A call that it seems to answer ends;
// a peer that sends nothing else is given up (WIRE-04).
func (s *Session) fault(m *mcp.Message, frame []byte, err error) {
	s.mu.Lock()
	s.malformed++
	n := s.malformed
	s.mu.Unlock()
	if n <= loggedFaults {
		s.conn.log.Warn("ignoring a message that cannot be read", "error", err, "bytes", len(frame), "start", string(frame[:min(len(frame), 80)]))
	}
	if m != nil && !m.ID.IsZero() && m.Kind != mcp.KindRequest && m.Method == "" {
		s.conn.calls.Malformed(s.gen, m.ID, err)
	}
	if n == maxMalformed {
		s.Fail(fmt.Errorf("the peer sent %d messages that cannot be read, the last: %w", n, err))
	}
}
