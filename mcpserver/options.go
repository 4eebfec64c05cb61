package mcpserver

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
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
	// Principal is the sender of requests over pipes and in-memory links; nil for an anonymous one.
	Principal *Principal
	// Middleware stands around every request, the first outermost.
	Middleware []Middleware
	// middlewareWaits is set by gatewayhook.Hooks.LetMiddlewareWait.
	middlewareWaits bool

	// HTTP is for clients over HTTP.
	HTTP HTTPOptions
	// Limits bound what a client may take.
	Limits Limits
	// Lists say how clients read lists, and when they are notified of changes.
	Lists ListOptions
	// Rounds are for handlers that ask the client and wait for its answers.
	Rounds RoundOptions
	// Events are called when clients subscribe, change their state or leave.
	Events Events

	// Tasks says how tool calls become tasks. Nil is the same as the zero value; there are
	// tasks if it is not nil, or a tool may be one.
	Tasks *TaskOptions
	// Records keeps data that outlives a request: tasks and their results, the answers of
	// calls that have many. Nil keeps them in memory; with a store finished tasks can be
	// read after a restart of the server.
	Records store.Records
	// Model answers [Request.Sample] and sampling.Loop where the client has no model to
	// offer: no sampling, or none with tools where tools are needed. It is made by
	// sampling.NewModel. With nil the server refuses such a question.
	Model Model
}

// HTTPOptions say who may send requests over HTTP, and how long the server keeps their
// sessions and streams.
type HTTPOptions struct {
	// Authenticate returns the sender of an HTTP request. An error refuses the request: with
	// 401, or with the status of an [*AuthError]. With nil all senders are anonymous. The
	// server removes the header Authorization of a request that it admits.
	Authenticate func(r *http.Request) (*Principal, error)
	// Authorize returns an error, an [*AuthError], unless the sender has all the scopes that
	// a request needs by [Scopes] or ScopeRules; nil compares them with those of the
	// principal. It must be quick. The request is refused before anything of it is carried
	// out.
	Authorize func(p *Principal, scopes []string) error
	// ScopeRules add scopes to requests by method and name.
	ScopeRules []ScopeRule
	// HideForbidden leaves out of the lists what the sender has no scopes for. Otherwise it
	// stays there, so that a client can ask for more scopes when it is used.
	HideForbidden bool
	// AllowedHosts are the values of Host that requests may have, beside loopback
	// names and addresses: a name, or a name and a port.
	AllowedHosts []string
	// AllowedOrigins are the values of Origin that requests may have, beside those
	// of loopback: scheme, host and, unless it is the scheme's own, port. Pages of these
	// origins, and no others, may also read the answers (CORS): a client in a browser,
	// such as the Inspector at http://localhost:6274, needs to be listed.
	AllowedOrigins []string

	// MaxConcurrent bounds the 2026-07-28 requests in flight, of all clients together.
	// Zero means 10,000.
	MaxConcurrent int
	// SessionTTL is how long an idle legacy session is kept. Zero means 30 minutes.
	SessionTTL time.Duration
	// MaxSessions bounds the legacy sessions. Zero means 10,000.
	MaxSessions int

	// KeepAlive is how often the server writes to a quiet stream, so that the client and
	// proxies keep it open. Zero means 15 s.
	KeepAlive time.Duration
	// RetryAfter is how long clients wait before they resume a stream. Zero means 1 s.
	RetryAfter time.Duration
	// NoResume turns off the event log by which broken streams of legacy sessions are resumed.
	NoResume bool
	// MaxEvents and MaxEventBytes bound the event log of one session. Zero means 1,000
	// events and 1 MiB.
	MaxEvents, MaxEventBytes int
}

// Limits bound what one client may take of the server, and for how long.
type Limits struct {
	// CallTimeout bounds each call. Zero means 10 minutes, negative is no bound.
	CallTimeout time.Duration
	// Grace is how long calls may go on after the client has hung up. Zero means
	// 2 s.
	Grace time.Duration
	// PingEvery is how often the server pings legacy clients. A client that does not answer
	// three pings in a row is disconnected. HTTP sessions are pinged only while they have a
	// stream. Zero means never.
	PingEvery time.Duration
	// MaxInFlight bounds the calls in flight of one connection; more are answered
	// with an error at once. Zero means 1000.
	MaxInFlight int
	// MaxMessage bounds a message, in bytes. Zero means 4 MiB.
	MaxMessage int
	// MaxListens bounds the streams of subscriptions/listen of one pipe, or of one
	// principal over HTTP; streams of anonymous clients are bounded by
	// [HTTPOptions].MaxConcurrent. Zero means 64.
	MaxListens int
	// MaxSubscriptions bounds the resources that one pipe, session or principal is
	// subscribed to. Zero means 1000.
	MaxSubscriptions int
	// RatePerSecond bounds the requests of one principal, and of each pipe or session
	// that has none; anonymous 2026-07-28 requests over HTTP share one bound. More
	// are answered with the error [CodeRateLimited]. RateBurst is how many may come at
	// once; zero is those of a second. Zero is no bound.
	RatePerSecond float64
	RateBurst     int
}

// ListOptions say how clients read the lists of tools, resources, prompts and skills, and
// when they are notified of changes.
type ListOptions struct {
	// PageSize is how many entries a page of a list has at most, and PageBytes how long the
	// page is at most, in bytes, unless one entry alone is longer. Zero means 5,000 and
	// 4,000,000: widely used clients read only the first page of a list.
	PageSize, PageBytes int
	// CacheFor is how long clients of 2026-07-28 may keep a list, and shared caches too if
	// there is neither [HTTPOptions].Authenticate, Principal nor Middleware. Zero means not
	// at all.
	CacheFor time.Duration
	// NoticePace is the least time between two notices that one list has changed, to one
	// client. The last change is always sent. Zero means 20 ms.
	NoticePace time.Duration
	// QuietUntilListed keeps changes of a list from a client that has not read it yet.
	// Clients of 2026-07-28 over HTTP count as one: it is for a server that has one client.
	QuietUntilListed bool
	// DeclareAll declares tools, resources, prompts and completions also before there
	// are any: for servers that add them while clients are connected. Otherwise the
	// capabilities are those of all entries that were ever added.
	DeclareAll bool
}

// RoundOptions say what becomes of a handler that asks a client of 2026-07-28 and waits: the
// client's answers come in a new request, the next round.
type RoundOptions struct {
	// NoParking lets a handler that asks run again from the top in each round, instead of
	// being kept between rounds.
	NoParking bool
	// ParkFor is how long a handler is kept that waits for the client's answers. Zero
	// means 10 minutes.
	ParkFor time.Duration
	// MaxParked bounds the handlers kept for one principal. Zero means 64.
	MaxParked int
	// TicketKeys seal the tickets, the state of a handler that travels through clients: 32
	// bytes each; the first seals, all open. Nil makes a key that other instances do not know.
	TicketKeys [][]byte
	// TicketTTL is how long a client has for its answers. Zero means one hour.
	TicketTTL time.Duration
	// PageWait is how long a client waits for a page that a person visits before the server
	// asks it to come again: less than the client waits for an answer. Zero means 45 seconds.
	PageWait time.Duration
}

// Events are functions that the server calls when clients subscribe, change their state or
// leave. Each may be nil.
type Events struct {
	// OnRootsChanged is called when a legacy client reports that its roots have changed, for
	// one change at a time of each client. It may ask for the roots; ctx ends with the
	// session.
	OnRootsChanged func(ctx context.Context, p *Peer)
	// OnWatched is called when a resource gets its first subscriber of all clients, and when
	// it loses its last, by whatever method of their revision. The resource need not exist.
	// It is called under a lock: it must not block, nor call the server.
	OnWatched func(uri string, on bool)
	// OnLogLevel is called when a legacy client has chosen its log messages by
	// logging/setLevel. It must not block.
	OnLogLevel func(p *Peer, level mcp.LogLevel)
	// OnClose is called at the end of each pipe, link and legacy HTTP session, once, after the
	// last answer. It may block.
	OnClose func(p *Peer)
}

// TaskOptions changes how tool calls become tasks; nil is the same as the zero value.
// [mcp.ToolExecution].TaskSupport in the definition of a tool decides whether its calls may:
// [mcp.TaskOptional] makes a task if the client wants or takes one, [mcp.TaskRequired]
// refuses clients without tasks, and the default is never. A client of a revision
// without tasks gets an ordinary call in each case.
//
// The limits are for one principal. Anonymous clients share one set of limits: only the ids
// of their tasks, which cannot be guessed, separate them.
type TaskOptions struct {
	// Working bounds the tasks in work at once, Limit all tasks that the server keeps.
	// Zero means 16 and 128 for a principal, 64 and 512 without one.
	Working, Limit int
	// MaxBytes bounds the bytes that tasks keep: results, and three times the length of
	// arguments, which are kept decoded, too. Zero means 32 MiB.
	MaxBytes int64
	// TTL is how long the server keeps a task from its creation if the client does not set a
	// time, MaxTTL how long at most. Then it cancels work that has not ended.
	// Zero means 30 min and 2 h, without a principal 5 min and 30 min.
	TTL, MaxTTL time.Duration
	// Poll is the interval at which clients should poll. Zero means 1 s.
	Poll time.Duration
	// Tools are exceptions for some tools, by their names.
	Tools map[string]TaskPolicy
}

// TaskPolicy says how calls of one tool become tasks.
type TaskPolicy struct {
	// ByHandler lets the handler decide when a call of 2026-07-28 becomes a task: with
	// [ToolRequest.BeginTask]. Its earlier questions are rounds of the call, and a call
	// without BeginTask ends as any other. False means at once.
	ByHandler bool
	// TTL replaces [TaskOptions].TTL for these tasks. Zero does not.
	TTL time.Duration
	// Immediate is a text with which the model of a 2025-11-25 client goes on meanwhile; it
	// may be empty.
	Immediate string
}

// Model is a model of the server's own, for [Options].Model: sampling.NewModel makes it.
type Model interface{ asking.Model }

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	if d.Versions == nil {
		d.Versions = mcp.Versions()
	}
	h := &d.HTTP
	h.MaxConcurrent = cmp.Or(h.MaxConcurrent, 10_000)
	h.SessionTTL = cmp.Or(h.SessionTTL, 30*time.Minute)
	h.MaxSessions = cmp.Or(h.MaxSessions, 10_000)
	h.KeepAlive = cmp.Or(h.KeepAlive, 15*time.Second)
	h.RetryAfter = cmp.Or(h.RetryAfter, time.Second)
	h.MaxEvents = cmp.Or(h.MaxEvents, 1000)
	h.MaxEventBytes = cmp.Or(h.MaxEventBytes, 1<<20)

	l := &d.Limits
	l.CallTimeout = cmp.Or(l.CallTimeout, 10*time.Minute)
	l.Grace = cmp.Or(l.Grace, 2*time.Second)
	l.MaxInFlight = cmp.Or(l.MaxInFlight, 1000)
	l.MaxMessage = cmp.Or(l.MaxMessage, 4<<20)
	l.MaxListens = cmp.Or(l.MaxListens, 64)
	l.MaxSubscriptions = cmp.Or(l.MaxSubscriptions, 1000)

	p := &d.Lists
	p.PageSize = cmp.Or(max(p.PageSize, 0), 5000)
	p.PageBytes = cmp.Or(max(p.PageBytes, 0), 4_000_000)
	p.NoticePace = max(p.NoticePace, 0)

	r := &d.Rounds
	r.ParkFor = cmp.Or(r.ParkFor, 10*time.Minute)
	r.MaxParked = cmp.Or(max(r.MaxParked, 0), 64)
	r.TicketTTL = cmp.Or(r.TicketTTL, time.Hour)
	r.PageWait = cmp.Or(r.PageWait, 45*time.Second)
	return d
}
