package mcpserver

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Options changes how a server works; nil is the same as the zero value.
type Options struct {
	// System is where the server's actors live. Nil makes one of its own, which
	// Close ends.
	System *actors.System
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
	// Instructions tell the model how to use the server. They may be empty.
	Instructions string
	// Versions are the revisions to speak, in any order. Nil means all.
	Versions []mcp.Version
	// CallTimeout bounds each call. Zero means 10 minutes (TIME-04), negative is
	// no bound.
	CallTimeout time.Duration
	// MaxInFlight bounds the calls in flight of one connection; more are answered
	// with an error at once. Zero means 1000.
	MaxInFlight int
	// MaxMessage bounds a message, in bytes. Zero means 4 MiB (WIRE-04).
	MaxMessage int
	// MaxConcurrent bounds the 2026-07-28 requests in flight over HTTP, of all clients
	// together. Zero means 10,000.
	MaxConcurrent int
	// PageSize is how many entries a page of a list has at most, and PageBytes how long the
	// page is at most, in bytes, unless one entry alone is longer. Zero means 5,000 and
	// 4,000,000: widely used clients read only the first page of a list.
	PageSize, PageBytes int
	// NoticePace is the least time between two notices that one list has changed, to one
	// client. The last change is always told. Zero means 20 ms.
	NoticePace time.Duration
	// QuietUntilListed tells a client of no change of a list that it has not asked for yet.
	// Clients of 2026-07-28 over HTTP count as one: it is for a server that has one client.
	QuietUntilListed bool
	// DeclareAll declares tools, resources, prompts and completions also before there
	// are any: for servers that add them while clients are connected. Otherwise the
	// capabilities are those of what was ever added (CAP-08).
	DeclareAll bool
	// CacheFor is how long clients of 2026-07-28 may keep a list (CACHE-02), and shared
	// caches too if there is neither Authenticate, Principal nor Middleware (CACHE-05).
	// Zero means not at all.
	CacheFor time.Duration
	// Grace is how long calls may go on after the client has hung up. Zero means
	// 2 s.
	Grace time.Duration

	// Principal is the sender of requests over pipes and in-memory links; nil for an anonymous one.
	Principal *Principal
	// Authenticate finds out who sends an HTTP request. An error refuses it: with 401,
	// or as an [*AuthError] says. Nil takes all senders as anonymous.
	Authenticate func(r *http.Request) (*Principal, error)
	// AllowedHosts are the values of Host that HTTP requests may have, beside loopback
	// names and addresses: a name, or a name and a port (SHL-02).
	AllowedHosts []string
	// AllowedOrigins are the values of Origin that HTTP requests may have, beside those
	// of loopback: scheme, host and, unless it is the scheme's own, port. Pages of these
	// origins, and no others, may also read the answers (CORS): a client in a browser,
	// such as the Inspector at http://localhost:6274, needs to be listed.
	AllowedOrigins []string

	// MaxListens bounds the streams of subscriptions/listen of one pipe, or of one
	// principal over HTTP; streams of anonymous clients are bounded by MaxConcurrent.
	// Zero means 64.
	MaxListens int
	// MaxSubscriptions bounds the resources that one pipe, session or principal is
	// subscribed to. Zero means 1000.
	MaxSubscriptions int
	// PingEvery asks legacy clients for a sign of life now and then (PING-02): one that
	// does not answer three times in a row is hung up on. HTTP sessions are only asked
	// while they have a stream. Zero means never.
	PingEvery time.Duration
	// OnRootsChanged hears that a legacy client's roots have changed, if the client has
	// declared that it says so (ROOT-02). It is called for one change at a time of each
	// client, and may ask for the roots as they are then; ctx ends with the session.
	OnRootsChanged func(ctx context.Context, p *Peer)
	// OnWatched hears that a resource has its first subscriber of all clients, or no
	// longer any, in whatever way their revision has. The resource need not be there. It
	// is called under a lock: it must not block, nor call the server.
	OnWatched func(uri string, on bool)

	// OnLogLevel hears that a legacy client has said which log messages it wants, by
	// logging/setLevel. It must not block.
	OnLogLevel func(p *Peer, level mcp.LogLevel)
	// OnClose hears of the end of each pipe, link and legacy HTTP session, once, after the
	// last answer. It may block.
	OnClose func(p *Peer)

	// Tasks says how tool calls become tasks. Nil is the same as the zero value; there are
	// tasks if it is not nil, or a tool may be one.
	Tasks *TaskOptions
	// Records keeps what outlives a request: tasks and their results, the answers of calls
	// that have many. Nil keeps them in memory; with a store finished tasks can be read
	// after the server was started anew.
	Records store.Records

	// SessionTTL is how long an idle legacy HTTP session is kept. Zero means 30 minutes.
	SessionTTL time.Duration
	// MaxSessions bounds the legacy HTTP sessions. Zero means 10,000.
	MaxSessions int
	// KeepAlive is how often a quiet stream says that it is alive (WIRE-13). Zero means
	// 15 s.
	KeepAlive time.Duration
	// RetryAfter is how long clients wait before they resume a stream. Zero means 1 s.
	RetryAfter time.Duration
	// NoResume turns off the event log by which broken streams of legacy HTTP sessions
	// are resumed (SHL-40).
	NoResume bool
	// MaxEvents and MaxEventBytes bound the event log of one session. Zero means 1,000
	// events and 1 MiB.
	MaxEvents, MaxEventBytes int

	// Middleware stands around every request, the first outermost.
	Middleware []Middleware
	// middlewareWaits is set by gatewayhook.Hooks.LetMiddlewareWait.
	middlewareWaits bool

	// RatePerSecond bounds the requests of one principal, and of each pipe or session
	// that has none; anonymous 2026-07-28 requests over HTTP share one bound. More
	// are answered with the error [CodeRateLimited]. RateBurst is how many may come at
	// once; zero is those of a second. Zero is no bound.
	RatePerSecond float64
	RateBurst     int

	// Model answers [Request.Sample] and sampling.Loop where the client has no model to
	// offer: no sampling, or none with tools where tools are needed (SAMP-04). It is made
	// by sampling.NewModel. Nil: such a question is refused.
	Model Model

	// NoParking lets handlers that ask clients of 2026-07-28 run again from the top in
	// each round, instead of being kept between rounds.
	NoParking bool
	// ParkFor is how long a handler is kept that waits for the client's answers. Zero
	// means 10 minutes.
	ParkFor time.Duration
	// MaxParked bounds the handlers kept for one principal. Zero means 64.
	MaxParked int
	// TicketKeys seal what travels through clients, 32 bytes each: the first seals, all
	// open. Nil makes one, which other instances do not know.
	TicketKeys [][]byte
	// TicketTTL is how long a client has for its answers. Zero means one hour.
	TicketTTL time.Duration
	// PageWait is how long a client of 2026-07-28 waits for a page that a person visits
	// before it is told to come again: less than it waits for an answer (TIME-04). Zero
	// means 45 seconds.
	PageWait time.Duration
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Versions == nil {
		d.Versions = mcp.Versions()
	}
	d.CallTimeout = cmp.Or(d.CallTimeout, 10*time.Minute)
	d.MaxInFlight = cmp.Or(d.MaxInFlight, 1000)
	d.MaxMessage = cmp.Or(d.MaxMessage, 4<<20)
	d.MaxConcurrent = cmp.Or(d.MaxConcurrent, 10_000)
	d.SessionTTL = cmp.Or(d.SessionTTL, 30*time.Minute)
	d.MaxSessions = cmp.Or(d.MaxSessions, 10_000)
	d.KeepAlive = cmp.Or(d.KeepAlive, 15*time.Second)
	d.RetryAfter = cmp.Or(d.RetryAfter, time.Second)
	d.MaxEvents = cmp.Or(d.MaxEvents, 1000)
	d.MaxEventBytes = cmp.Or(d.MaxEventBytes, 1<<20)
	d.MaxListens = cmp.Or(d.MaxListens, 64)
	d.MaxSubscriptions = cmp.Or(d.MaxSubscriptions, 1000)
	d.ParkFor = cmp.Or(d.ParkFor, 10*time.Minute)
	d.MaxParked = cmp.Or(max(d.MaxParked, 0), 64)
	d.TicketTTL = cmp.Or(d.TicketTTL, time.Hour)
	d.PageWait = cmp.Or(d.PageWait, 45*time.Second)
	d.PageSize = cmp.Or(max(d.PageSize, 0), 5000)
	d.PageBytes = cmp.Or(max(d.PageBytes, 0), 4_000_000)
	d.NoticePace = max(d.NoticePace, 0)
	d.Grace = cmp.Or(d.Grace, 2*time.Second)
	return d
}

// AuthError is what [Options].Authenticate returns to refuse a request in its own way.
type AuthError struct {
	Status    int    // 400, 401 or 403; zero is 401
	Challenge string // the value of WWW-Authenticate; may be empty (RFC 9110, 11.6.1)
	Err       error  // for logs; may be nil
}

func (e *AuthError) Error() string {
	if e.Err == nil {
		return "not authorized"
	}
	return "not authorized: " + e.Err.Error()
}

// Unwrap returns Err.
func (e *AuthError) Unwrap() error { return e.Err }
