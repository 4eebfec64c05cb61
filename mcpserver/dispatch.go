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

// arrival is one message on its way to its method. It belongs to the goroutine that
// has read it: what outlives that copies what it needs.
type arrival struct {
	*mcp.Message
	version   mcp.Version
	client    *clients.Client
	principal *Principal
	port      port.Port

	reader *reader // whose goroutine this is; nil elsewhere
	here   bool    // its work may be done on this goroutine, which no other request waits for
}

// laterPort is the port of an answer that may come when the reader has gone on.
func (a *arrival) laterPort(s *session) port.Port {
	if a.reader != nil {
		return s
	}
	return a.port
}

// method is a row of the method table.
type method struct {
	// quick methods are answered where they are read: they were never in flight.
	// The result is encoded for the request's revision.
	quick func(s *session, a *arrival) (result []byte, err error)
	// start begins a call, whose answer comes from elsewhere, and reports whether
	// the goroutine has lost its reader.
	start func(s *session, a *arrival) (lost bool, err error)
	// find returns the work of a call; nil for methods whose call begins otherwise. The
	// arguments are those of a.
	find func(s *session, a *arrival) (work, error)
	// waits says that the method is a call if the middleware may wait.
	waits bool
	// declared reports whether the capability is declared that the method needs; nil
	// is always (CAP-07).
	declared func(s *Server) bool
}

// methods are those that we offer. Which revision has which of them is known to
// package mcp; the capabilities we declare are those of these methods (CAP-08).
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

// frame handles what came in on a pipe as one message, and reports whether the
// goroutine has lost its reader meanwhile.
func (s *session) frame(data []byte, r *reader) (lost bool) {
	if mcp.IsBatch(data) {
		s.startBatch(data, s) // its last answer may come from anywhere
		return false
	}
	r.arrival = arrival{Message: &r.message, port: r, reader: r}
	return s.message(data, &r.arrival)
}

// maxBatch bounds the messages of a batch.
const maxBatch = 100

// startBatch handles an array of messages, each on its own. The error is that of the
// array: none of it was handled.
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

// offers reports whether the revision has the method and we offer it (BASE-14, CAP-07).
func (s *Server) offers(v mcp.Version, name string) error {
	if name == mcp.MethodCallTool && s.hasTools() { // every revision has it, and nothing is asked for as often
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
			s.server.notices.CatchUp(s) // of what changed since initialize
			if s.server.opts.Limits.PingEvery > 0 {
				s.ref.Send(startPings{})
			}
		}
	case mcp.NotificationRootsChanged:
		noteRoots(s)
	}
}

// ping is answered in every state (PING-01).
func ping(s *session, _ *arrival) ([]byte, error) { return []byte("{}"), nil }

// callTool begins a call (TOOL-07).
func callTool(s *session, a *arrival) (lost bool, err error) {
	w, err := findTool(s, a)
	if err != nil {
		return false, err
	}
	return s.begin(a, w, a.Arguments)
}

// findTool finds the tool of a call, or the task that it is to be, and what it takes.
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

// begin makes the call of an arrival. It runs here if it may, which takes away the
// reader from one that is slow all the same; else as a task.
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

// size is what a call keeps of its request, in bytes: what was read from _meta is
// there twice more.
func (a *arrival) size() int64 {
	return int64(len(a.Arguments) + len(a.InputResponses) + len(a.RequestState) + 3*len(a.Meta) + len(a.ID.String()) + len(a.Progress.String()))
}

// toolNamed finds the tool of a call, nil if there is none; false if the name is
// not a name. It copies no name that is written plainly.
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

// beginElsewhere runs a call on a goroutine of its own, for which it keeps what it
// needs of the frame: that, and further bytes that it keeps.
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

// These bound the bytes that the server keeps for the calls of one client: many
// large calls would fill the memory long before there are too many (ROB-3).
//
// A small call that runs where the pipe is read is not counted, a large one does not
// run there: it would hold up others by being read.
const (
	maxHeldSession   = 16 << 20
	maxHeldStateless = 256 << 20 // of all clients: each has its own bound before it
	maxUncounted     = 16 << 10
	maxInline        = 256 << 10
)
