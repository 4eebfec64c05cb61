package streamable

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"weak"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// Link is a [mcp.Link] to one endpoint. All its methods may be used from any
// goroutine.
type Link struct {
	endpoint
	sink    mcp.CallSink
	trouble func(text string)

	mu      sync.Mutex    // guards the fields below it, nothing is sent under it: each request has its goroutine, and Send starts it without a message in between
	tasks   int32         // goroutines
	running int32         // of them, those of requests
	idle    chan struct{} // closed when there are none; nil if no goroutine waits
	closed  chan struct{} // closed when Close is done; nil before it is called

	version mcp.Version // "" before it is agreed on
	session string
	headers weak.Pointer[headers] // of both; an idle link does without them

	posts posts // requests that have no answer yet
	line  *line // nil if nothing is in line

	own     *ownStream  // nil before and after
	opening *time.Timer // until held requests go, though the stream is not open; else nil

	lost      sync.Once
	closing   bool // nothing more is taken
	old       bool // as closing, but Close is not called yet
	over      bool // nothing more is passed on
	held      bool // requests wait: the server has not taken initialized yet
	listening bool
	wantsGET  bool // once nothing is held
}

// line is what a link does not send yet.
type line struct {
	waiting []*post       // requests, in order
	queue   []*post       // notifications and answers, in order
	sending *post         // the one that was taken from the queue; nil without a goroutine
	drained chan struct{} // closed when it is empty; nil if no goroutine waits
	bytes   int           // of all that is in line
}

// inLine returns what is in line. The lock is held.
func (l *Link) inLine() *line {
	if l.line == nil {
		l.line = new(line)
	}
	return l.line
}

// tidy is called when a line may be empty. The lock is held.
func (l *Link) tidy() {
	if n := l.line; len(n.waiting) == 0 && n.sending == nil {
		l.line = nil
	}
}

// New returns a link. Nothing is sent before the first message.
func New(opts Options) *Link { return NewServer(opts).Link(opts) }

// Server is what the links to one server have in common.
type Server struct {
	Options // filled in, without those of a link
	owner   string
}

// NewServer returns the server of links with the options, but for those that [Server.Link] takes.
func NewServer(opts Options) *Server {
	opts.Sink, opts.Log, opts.Auth, opts.Trouble = nil, nil, nil, nil
	return &Server{opts.withDefaults(), "HTTP of " + opts.Name}
}

// Link is [New], but of the options takes only Sink, Log, Auth and Trouble.
func (s *Server) Link(opts Options) *Link {
	l := &Link{endpoint: endpoint{s, opts.Log, opts.Auth}, sink: opts.Sink, trouble: opts.Trouble}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	if l.trouble == nil {
		l.trouble = func(string) {}
	}
	return l
}

// header returns the headers of messages as the link speaks now. The lock is held.
func (l *Link) header() *headers {
	h := l.headers.Value()
	if h == nil {
		h = newHeaders(l.opts.Header, l.version, l.session)
		l.headers = weak.Make(h)
	}
	return h
}

// speak makes the link speak v in a session. The lock is held.
func (l *Link) speak(v mcp.Version, session string) {
	l.version, l.session, l.headers = v, session, weak.Pointer[headers]{}
}

// Speak says which version the messages that follow are of: a modern one changes how
// the link works, a legacy one from 2025-06-18 on is named in a header (SHL-61), ""
// is a handshake that is to come.
func (l *Link) Speak(v mcp.Version) {
	l.mu.Lock()
	defer l.mu.Unlock()
	session := l.session
	if v.Era() == mcp.EraModern {
		session = "" // of a handshake that was refused
	}
	l.speak(v, session)
}

// SessionID returns the session's id, which is a secret; "" if there is none.
func (l *Link) SessionID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// begun keeps the id of a session that has begun (SHL-50).
func (l *Link) begun(id string) error {
	if id == "" {
		return nil
	}
	if len(id) > maxSession {
		return fmt.Errorf("the session id has more than %d bytes", maxSession)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return errors.New("the session id has characters that it may not have")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speak(l.version, id)
	return nil
}

func (l *Link) modern() bool { return l.version.Era() == mcp.EraModern } // under the lock

func (l *Link) speaks() mcp.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Send implements [mcp.Link]. Requests may overtake each other; notifications and
// answers keep their order, and no request overtakes notifications/initialized. The
// cancellation of a modern request ends its stream (SHM-09).
func (l *Link) Send(m mcp.Outgoing) error {
	if len(m.Frame) > l.opts.MaxMessage {
		return fmt.Errorf("%w: %d bytes, %d are allowed", call.ErrTooLong, len(m.Frame), l.opts.MaxMessage)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closing || l.old:
		return errClosed
	case !m.Cancels.IsZero():
		return l.cancelled(m)
	case m.Kind == mcp.KindRequest:
		return l.request(m)
	case m.Kind != mcp.KindNotification && l.modern():
		return errors.New("a modern server is sent no responses") // MOD-07, SHM-03
	}
	return l.enqueue(newPost(l, m))
}

// request starts a request, or puts it in line.
func (l *Link) request(m mcp.Outgoing) error {
	if m.Method == mcp.MethodInitialize {
		for p := range l.posts.all { // a probe without an answer: it would never be cancelled (ERA-08)
			l.posts.remove(p.id)
			p.end(errCancel)
		}
		l.speak(l.version, "") // the session is of a handshake that was refused: each begins without one (SHL-52)
	}
	p := newPost(l, m)
	now := int(l.running) < l.opts.MaxRequests && !l.held
	if !now {
		if n := l.inLine(); len(n.waiting) >= maxWaiting || n.bytes+len(p.body.frame) > maxQueuedBytes {
			p.end(errClosed)
			return fmt.Errorf("%w: the server does not answer", call.ErrBusy)
		}
	}
	l.posts.add(p)
	if now {
		l.running++
		l.task(p.work)
		return nil
	}
	l.line.bytes += len(p.body.frame)
	l.line.waiting = append(l.line.waiting, p)
	return nil
}

// cancelled takes a request back. In 2026-07-28 that is the end of its stream (SHM-09,
// CANC-09); before, a disconnect means nothing (SHL-15) and the server is told. A
// request that has not left is just not sent. The lock is held.
func (l *Link) cancelled(m mcp.Outgoing) error {
	p := l.posts.of(m.Cancels)
	if p == nil {
		return nil // it has its end
	}
	l.posts.remove(p.id)
	if l.modern() || p.body.withdraw() {
		p.end(errCancel)
		return nil
	}
	note := newPost(l, m)
	note.taken = p
	err := l.enqueue(note)
	if err != nil {
		p.end(errCancel)
	}
	return err
}

// next returns the request that the goroutine of one that has ended goes on with.
func (l *Link) next() *post {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.first(); p != nil {
		return p
	}
	l.running--
	return nil
}

// first takes the first request out of the line, if it may go.
func (l *Link) first() *post {
	n := l.line
	if n == nil || len(n.waiting) == 0 || l.held {
		return nil
	}
	p := n.waiting[0]
	n.waiting[0] = nil
	if n.waiting = n.waiting[1:]; len(n.waiting) == 0 {
		n.waiting = nil
	}
	n.bytes -= len(p.body.frame)
	l.tidy()
	return p
}

// release lets go what waited for notifications/initialized.
func (l *Link) release() {
	l.mu.Lock()
	opens := l.wantsGET && !l.closing
	if opens {
		l.openOwn()
	}
	l.mu.Unlock()
	if !opens {
		l.letGo()
	}
}

// openOwn opens the server's own stream. Requests wait for it: there are servers that
// ask on it during the first call, and drop a question that no stream can carry. They wait a
// moment only. The lock is held.
func (l *Link) openOwn() {
	l.wantsGET, l.held = false, true
	l.opening = time.AfterFunc(openTime, l.letGo)
	l.task(l.own.listen)
}

// letGo lets requests go. Only the first call counts.
func (l *Link) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opening != nil {
		l.opening.Stop()
		l.opening = nil
	}
	if !l.held {
		return
	}
	l.held = false
	for int(l.running) < l.opts.MaxRequests && !l.closing {
		p := l.first()
		if p == nil {
			return
		}
		l.running++
		l.task(p.work)
	}
}

// forget says that a request has its end, and reports whether it had none before.
func (l *Link) forget(p *post) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.posts.of(p.id) != p || l.over {
		return false
	}
	l.posts.remove(p.id)
	return true
}

// fail ends a request without an answer.
func (l *Link) fail(p *post, err error) {
	if l.forget(p) {
		l.sink.Failed(p.id, err)
	}
}

// lose ends the link for the connection. Close is still to come.
func (l *Link) lose(err error) {
	l.lost.Do(func() { l.sink.Lost(err) })
}

// sessionLost is a 404 to something that named the session: the connection begins a
// new one (SHL-52).
func (l *Link) sessionLost() {
	l.mu.Lock()
	l.speak(l.version, "")
	l.mu.Unlock()
	l.lose(conn.Redial(ErrSession))
}

// outdated takes no more messages, because of what p was answered with, so that they
// wait for a new connection. It does nothing, and reports false, while there are other
// requests that would be lost with this one: then the next refusal will do. Streams of
// notices are no such requests, they are opened again.
func (l *Link) outdated(p *post) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.posts.all {
		if other != p && other.method != mcp.MethodListen {
			return false
		}
	}
	l.old = true
	return true
}

// task runs f on a goroutine that Close waits for. The lock is held.
func (l *Link) task(f func()) {
	l.tasks++
	l.opts.Go(l.opts.owner, f)
}

// done is the end of a task.
func (l *Link) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks--; l.tasks == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// passes reports whether messages are still passed on.
func (l *Link) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over
}
