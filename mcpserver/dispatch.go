package mcpserver

import (
	"bytes"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/actors/inbound"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/buffer"
	"github.com/troupe-dev/troupe/mcpserver/internal/clients"
	"github.com/troupe-dev/troupe/mcpserver/internal/port"
	"github.com/troupe-dev/troupe/mcpserver/internal/web"
)

// arrival is one message on its way to its method. It belongs to the goroutine that has
// read it: work that outlives the goroutine's turn copies its parts.
type arrival struct {
	*mcp.Message
	version   mcp.Version
	client    *clients.Client
	principal *Principal
	port      port.Port

	reader *reader // whose goroutine this is; nil elsewhere
	here   bool    // its work may run on this goroutine, for which no other request waits
}

// laterPort returns the port of a response that may come after the reader has gone on.
func (a *arrival) laterPort(s *session) port.Port {
	if a.reader != nil {
		return s
	}
	return a.port
}

// method is a row of the method table.
type method struct {
	// quick answers the request where it is read: the request is never in flight. The
	// result is encoded for the request's revision.
	quick func(s *session, a *arrival) (result []byte, err error)
	// start begins a call, which responds itself, and reports whether the goroutine has
	// lost its reader.
	start func(s *session, a *arrival) (lost bool, err error)
	// find returns the work of a call; nil for methods whose call begins otherwise. The
	// arguments are those of a.
	find func(s *session, a *arrival) (work, error)
	// waits makes the method a call if the middleware may wait.
	waits bool
	// declared reports whether the server declares the capability of the method; nil is
	// always (CAP-07).
	declared func(s *Server) bool
}

// methods are the methods of the server. Package mcp knows which revision has which; the
// server declares the capabilities of these methods (CAP-08).
var methods map[string]method

func init() { // not a literal: the methods refer to the table
	methods = map[string]method{
		mcp.MethodInitialize:  {quick: initialize},
		mcp.MethodPing:        {quick: ping},
		mcp.MethodSetLevel:    {quick: setLevel},
		mcp.MethodDiscover:    {quick: discover},
		mcp.MethodListen:      {start: startListen},
		mcp.MethodSubscribe:   {quick: subscribe, waits: true},
		mcp.MethodUnsubscribe: {quick: unsubscribe, waits: true},

		mcp.MethodListTools:             {quick: listTools, waits: true, declared: (*Server).hasTools},
		mcp.MethodCallTool:              {start: callTool, find: findTool, declared: (*Server).hasTools},
		mcp.MethodListResources:         {quick: listResources, waits: true, declared: (*Server).hasResources},
		mcp.MethodListResourceTemplates: {quick: listTemplates, waits: true, declared: (*Server).hasResources},
		mcp.MethodReadResource:          {start: readResource, find: findResource, declared: (*Server).hasResources},
		mcp.MethodListPrompts:           {quick: listPrompts, waits: true, declared: (*Server).hasPrompts},
		mcp.MethodGetPrompt:             {start: getPrompt, find: findPrompt, declared: (*Server).hasPrompts},
		mcp.MethodComplete:              {start: startComplete, find: findCompleter, declared: (*Server).hasCompletions},
		mcp.MethodGetTask:               {start: getTask, declared: (*Server).hasTasks},
		mcp.MethodTaskResult:            {start: resultOfTask, declared: (*Server).hasTasks},
		mcp.MethodListTasks:             {start: listTasks, declared: (*Server).hasTasks},
		mcp.MethodCancelTask:            {start: cancelTask, declared: (*Server).hasTasks},
		mcp.MethodUpdateTask:            {start: updateTask, declared: (*Server).hasTasks},
		mcp.MethodListSkills:            {quick: listSkills, waits: true, declared: (*Server).hasSkills},
		mcp.MethodGetSkill:              {quick: getSkill, waits: true, declared: (*Server).hasSkills},
		mcp.MethodReadDirectory:         {quick: readDirectory, waits: true, declared: (*Server).hasSkills},
	}
}

// frame handles a frame of a pipe, a message or a batch, and reports whether the goroutine
// has lost its reader meanwhile.
func (s *session) frame(data []byte, r *reader) (lost bool) {
	if mcp.IsBatch(data) {
		s.startBatch(data, s) // its last response may come from any goroutine
		return false
	}
	r.arrival = arrival{Message: &r.message, port: r, reader: r}
	return s.message(data, &r.arrival)
}

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// startBatch handles an array of messages, each on its own.
func (s *session) startBatch(data []byte, to port.Port) {
	if h := s.legacy.Load(); h == nil || !h.version.Has(mcp.FeatureBatch) { // BASE-23
		s.fail(to, mcp.ID{}, mcp.Errorf(mcp.CodeInvalidRequest, "this revision has no batches"))
		return
	}
	b := port.NewBatch(to)
	var m mcp.Message
	err := mcp.ScanBatch(data, maxBatch, func(raw []byte) error {
		a := arrival{Message: &m, port: b}
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
		a.principal = s.principal
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
		switch row := methods[a.Method]; {
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

// answerNow answers a request that was never in flight.
func (s *session) answerNow(a *arrival, row method) error {
	quick := row.quick
	if len(s.server.opts.Middleware) > 0 {
		quick = row.throughMiddleware
	}
	result, err := quick(s, a)
	if err != nil {
		return err
	}
	out := buffer.Take()
	frame := mcp.AppendResult((*out)[:0], a.ID, result)
	a.port.Respond(frame, nil)
	buffer.Give(out, frame)
	return nil
}

// offers returns an error unless the revision and the server have the method (BASE-14, CAP-07).
func (s *Server) offers(v mcp.Version, name string) error {
	if name == mcp.MethodCallTool && s.hasTools() { // every revision has it, and it is the most frequent one
		return nil
	}
	row, ok := methods[name]
	if !ok || !v.Method(name, mcp.Client) || row.declared != nil && !row.declared(s) {
		return mcp.Errorf(mcp.CodeMethodNotFound, "method not found")
	}
	return nil
}

// fail answers with an error; the zero id is left out (BASE-08).
func (s *session) fail(to port.Port, id mcp.ID, err error) {
	wire := mcp.ErrorOf(err)
	if _, told := errors.AsType[*mcp.Error](err); !told {
		s.server.log.Error("a request failed", "session", s.ref.Path(), "id", id.String(), "error", err)
	}
	to.Respond(mcp.AppendError(nil, id, wire), wire)
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
				s.ref.Send(startPings{})
			}
		}
	case mcp.NotificationRootsChanged:
		noteRoots(s)
	}
}

// ping responds in every state (PING-01).
func ping(s *session, _ *arrival) ([]byte, error) { return []byte("{}"), nil }

// callTool begins a call (TOOL-07).
func callTool(s *session, a *arrival) (lost bool, err error) {
	w, err := findTool(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.Arguments)
}

// findTool finds the tool of a call, or the task that the call becomes.
func findTool(s *session, a *arrival) (work, error) {
	t, ok := s.toolNamed(a)
	if string(a.Arguments) == "null" { // clients write an absent map so
		a.Arguments = nil
	}
	if !ok || a.Arguments != nil && a.Arguments[0] != '{' {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "a tool call takes a name and an object of arguments") // TOOL-08
	}
	if t == nil {
		name, _ := a.NameString()
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown tool %q", clip.Name(name))
	}
	if a.Arguments == nil {
		a.Arguments = []byte("{}")
	}
	if t.Def.Execution != nil || a.Task != nil {
		return asTask(s, a, t)
	}
	return t, nil
}

// begin makes the call of an arrival. It runs on this goroutine if it may, and then loses
// the reader if it is slow all the same; else on a goroutine of its own.
func (s *session) begin(a *arrival, w work, arguments []byte) (lost bool, err error) {
	r := &request{
		session: s, port: a.port, work: w, version: a.version, client: a.client, principal: a.principal,
		arguments: arguments, optional: &noOptional,
	}
	if !a.Progress.IsZero() || a.InputResponses != nil || a.RequestState != nil {
		r.optional = &optional{token: a.Progress, responses: a.InputResponses, state: a.RequestState}
	}
	if a.reader != nil {
		r.port = s
	}
	if !a.mayRun(w) {
		return false, s.beginElsewhere(r, a, 0)
	}
	if cost := a.size(); a.reader != nil && cost > maxUncounted {
		if !s.budget.Hold(cost) {
			return false, inbound.ErrBusy
		}
		defer s.budget.Release(cost)
	}
	r.reader = a.reader
	if err := s.calls.Serve(&r.Call, r, s.inboundRequest(a)); err != nil {
		return false, err
	}
	r.leave() // if the handler has panicked
	return r.lost, nil
}

// mayRun reports whether work may be done on the goroutine of its arrival.
func (a *arrival) mayRun(w work) bool {
	switch {
	case w.asks(), a.reader != nil && len(a.reader.session.server.opts.Middleware) > 0:
		return false
	case a.reader != nil:
		return w.speed().Quick() && a.size() <= maxInline
	}
	return a.here
}

// size returns the bytes that a call keeps of its request: _meta is kept three times, raw and
// decoded.
func (a *arrival) size() int64 {
	return int64(len(a.Arguments) + len(a.InputResponses) + len(a.RequestState) + 3*len(a.Meta) + len(a.ID.String()) + len(a.Progress.String()))
}

// toolNamed finds the tool of a call, nil if it is unknown; false if the name is not a
// string. It does not copy a name without escapes.
func (s *session) toolNamed(a *arrival) (*tool, bool) {
	tools, raw := s.server.tools.Now(), a.Name
	if len(raw) >= 2 && raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 {
		t, _ := tools.GetBytes(raw[1 : len(raw)-1])
		return t, true
	}
	name, ok := a.NameString()
	t, _ := tools.Get(name)
	return t, ok
}

// beginElsewhere runs a call on a goroutine of its own, with copies of its parts of the
// frame. further is the number of bytes that the call keeps beside them.
func (s *session) beginElsewhere(r *request, a *arrival, further int64) error {
	cost := a.size() + further
	if !s.budget.Hold(cost) {
		return inbound.ErrBusy
	}
	if a.Meta != nil {
		r.own().meta = r.client.Meta(a.Meta)
	}
	own := make([]byte, 0, len(r.arguments)+len(r.meta.Own)+len(r.responses)+len(r.state))
	for _, part := range []*[]byte{(*[]byte)(&r.arguments), (*[]byte)(&r.responses), (*[]byte)(&r.state), &r.meta.Own} {
		own = buffer.Keep(own, part)
	}
	if err := s.calls.Begin(&r.Call, r, s.inboundRequest(a)); err != nil {
		s.budget.Release(cost)
		return err
	}
	if x, ok := a.port.(*web.Exchange); ok {
		x.Began(&r.Call)
	}
	s.server.sys.GoBlocking(s.ref.Path(), func() {
		defer s.budget.Release(cost)
		r.Run()
	})
	return nil
}

// Bounds on the bytes that the server keeps for the calls of one client: large calls would
// fill the memory long before they are too many (ROB-3).
//
// A small call that runs where the pipe is read does not count. A large one does not run
// there: reading its arguments would delay others.
const (
	maxHeldSession   = 16 << 20
	maxHeldStateless = 256 << 20 // of all clients: each has its own bound before it
	maxUncounted     = 16 << 10
	maxInline        = 256 << 10
)
