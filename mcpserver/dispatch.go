package mcpserver

import (
	"bytes"
	"errors"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/mcp"
)

// arrival is one request on its way to its method.
type arrival struct {
	*mcp.Message
	version mcp.Version
	client  *client
	reader  *reader
	batch   *batch // that it is part of, or nil
}

// method is a row of the method table.
type method struct {
	// quick methods are answered where they are read: they were never in flight.
	// The result is encoded for the request's revision.
	quick func(s *session, a *arrival) (result []byte, err error)
	// start begins a call, whose answer comes from elsewhere, and reports whether
	// the goroutine has lost its reader.
	start func(s *session, a *arrival) (lost bool, err error)
}

// methods are those that we offer. Which revision has which of them is known to
// package mcp; the capabilities we declare are those of these methods (CAP-08).
var methods map[string]method

func init() { // not a literal: the methods refer to the table
	methods = map[string]method{
		mcp.MethodInitialize: {quick: (*session).initialize},
		mcp.MethodPing:       {quick: (*session).ping},
		mcp.MethodSetLevel:   {quick: (*session).setLevel},
		mcp.MethodDiscover:   {quick: (*session).discover},
		mcp.MethodListTools:  {quick: (*session).listTools},
		mcp.MethodCallTool:   {start: (*session).callTool},
	}
}

// frame handles what came in as one message, and reports whether the goroutine
// has lost its reader meanwhile.
func (s *session) frame(data []byte, r *reader) (lost bool) {
	if mcp.IsBatch(data) {
		s.startBatch(data, r)
		return false
	}
	return s.message(data, r, nil)
}

func (s *session) message(data []byte, r *reader, b *batch) (lost bool) {
	m := &r.message
	err := mcp.Scan(data, m)
	switch {
	case err != nil:
		s.log.Debug("a malformed message", "error", err)
		if m.Kind == mcp.KindRequest || m.Kind == mcp.KindInvalid { // BASE-09, BASE-16
			s.fail(r, b, m.ID, err)
		}
	case m.Kind == mcp.KindRequest:
		r.arrival = arrival{Message: m, reader: r, batch: b}
		lost, err = s.request(&r.arrival)
		if err != nil { // then r is not lost
			s.fail(r, b, m.ID, err)
		}
	case m.Kind == mcp.KindNotification:
		s.notification(m)
	default: // we have asked nothing (BASE-15)
		s.log.Debug("an answer without a request", "id", m.ID.String())
	}
	return lost
}

// request answers one request or starts its call. An error is to be answered.
func (s *session) request(a *arrival) (lost bool, err error) {
	if a.Modern {
		err = s.admitModern(a)
	} else {
		err = s.admitLegacy(a)
	}
	if err != nil {
		return false, err
	}
	row := methods[a.Method]
	if row.start != nil {
		return row.start(s, a)
	}
	result, err := row.quick(s, a)
	if err != nil {
		return false, err
	}
	r := a.reader
	r.scratch = mcp.AppendResult(r.scratch[:0], a.ID, result)
	s.reply(r, a.batch, r.scratch)
	if cap(r.scratch) > keepBuffer {
		r.scratch = nil
	}
	return false, nil
}

// offers reports whether the revision has the method and we offer it (BASE-14).
func offers(v mcp.Version, name string) error {
	if name == mcp.MethodCallTool { // every revision has it, and nothing is asked for as often
		return nil
	}
	if _, ok := methods[name]; !ok || !v.Method(name, mcp.Client) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "method not found")
	}
	return nil
}

// fail answers with an error; the zero id is left out (BASE-08).
func (s *session) fail(r *reader, b *batch, id mcp.ID, err error) {
	wire := mcp.ErrorOf(err)
	if _, told := errors.AsType[*mcp.Error](err); !told {
		s.log.Error("a request failed", "id", id.String(), "error", err)
	}
	s.reply(r, b, mcp.AppendError(nil, id, wire))
}

// reply sends an answer from the goroutine of the reader.
func (s *session) reply(r *reader, b *batch, frame []byte) {
	if b != nil {
		b.add(frame)
		return
	}
	r.answer(frame)
}

// notification handles a message that is never answered (BASE-09). Those we do
// not know are ignored (BASE-14).
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
		}
	}
}

// ping is answered in every state (PING-01).
func (s *session) ping(*arrival) ([]byte, error) { return []byte("{}"), nil }

// listTools answers with a page of tools (TOOL-02).
func (s *session) listTools(a *arrival) ([]byte, error) {
	var p mcp.ListParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	return s.server.tools.Load().page(a.version, p.Cursor)
}

// callTool begins a call (TOOL-07).
func (s *session) callTool(a *arrival) (lost bool, err error) {
	t, ok := s.toolNamed(a)
	if !ok || a.Arguments != nil && a.Arguments[0] != '{' {
		return false, mcp.Errorf(mcp.CodeInvalidParams, "a tool call takes a name and an object of arguments") // TOOL-08
	}
	if t == nil {
		name, _ := a.NameString()
		return false, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool %q", shorten(name))
	}
	r := &request{session: s, def: t, version: a.version, client: a.client, token: a.Progress, batch: a.batch, arguments: a.Arguments}
	r.tool.r = r
	if r.arguments == nil {
		r.arguments = []byte("{}")
	}
	if t.asks || a.batch != nil || !t.speed.quick() || a.size() > maxInline {
		return false, s.callElsewhere(r, a)
	}
	r.reader = a.reader
	if err := s.calls.Serve(&r.Call, r, inboundRequest(a)); err != nil {
		return false, err
	}
	r.leave() // if the handler has panicked
	return r.lost, nil
}

// size is what a call keeps of its request, in bytes: what was read from _meta is
// there twice more.
func (a *arrival) size() int64 {
	return int64(len(a.Arguments) + 3*len(a.Meta) + len(a.ID.String()) + len(a.Progress.String()))
}

// toolNamed finds the tool of a call, nil if there is none; false if the name is
// not a name. It copies no name that is written plainly.
func (s *session) toolNamed(a *arrival) (*tool, bool) {
	tools, raw := s.server.tools.Load().tools, a.Name
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		return tools[string(raw[1:len(raw)-1])], true
	}
	name, ok := a.NameString()
	return tools[name], ok
}

// callElsewhere runs a call on a goroutine of its own, for which it keeps what it
// needs of the frame.
func (s *session) callElsewhere(r *request, a *arrival) error {
	cost := a.size()
	if held := s.held.Add(cost); held > maxHeld && held > cost {
		s.held.Add(-cost)
		return inbound.ErrBusy
	}
	own := make([]byte, 0, len(r.arguments)+len(a.Meta))
	own = append(append(own, r.arguments...), a.Meta...)
	n := len(r.arguments)
	r.arguments = own[:n:n]
	if a.Meta != nil {
		r.meta = own[n:]
	}
	if a.batch != nil {
		a.batch.expect()
	}
	if err := s.calls.Begin(&r.Call, r, inboundRequest(a)); err != nil {
		s.held.Add(-cost)
		if a.batch != nil {
			defer a.batch.done()
			a.batch.add(mcp.AppendError(nil, a.ID, mcp.ErrorOf(err)))
			return nil
		}
		return err
	}
	s.server.sys.Go(s.ref.Path(), func() {
		defer s.held.Add(-cost)
		r.Run()
	})
	return nil
}

// maxHeld bounds what the calls of one client make us keep, in bytes: many
// large calls would fill the memory long before there are too many (ROB-3).
//
// A call that runs where the pipe is read is not counted, so it must be small.
const (
	maxHeld   = 16 << 20
	maxInline = 16 << 10
)

// shorten bounds what is said of a peer's name.
func shorten(name string) string {
	if len(name) > 64 {
		return name[:64] + "…"
	}
	return name
}
