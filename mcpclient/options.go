package mcpclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/asks"
	"github.com/troupe-dev/troupe/mcpclient/internal/negotiate"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// version is what we call ourselves in the handshake.
const version = "0.1.0"

// Options changes how a client works; nil is the same as the zero value.
type Options struct {
	// System is where the client's actors live. Nil makes one that ends with the client.
	System *actors.System
	// Logger takes structured logs. Nil means the system's.
	Logger *slog.Logger
	// Info is what servers are told about this program. Zero is Troupe's own.
	Info mcp.Implementation
	// Consent is asked before a command that comes from a file is started; its
	// error refuses. Nil refuses all of those: see [ErrNotApproved].
	Consent func(context.Context, Server) error
	// ProbeTimeout is how long a server may take to answer the first question before a
	// legacy handshake is sent: on a pipe in addition, over HTTP instead. Zero means 5
	// s.
	ProbeTimeout time.Duration
	// LogLevel asks the server for log messages at or above a level. Empty
	// leaves it to the server.
	LogLevel mcp.LogLevel
	// OnLog takes the server's log messages, of which more than 100 a second are
	// dropped after the first 1000. OnToolsChanged, OnResourcesChanged and
	// OnPromptsChanged hear that its lists may have changed. They are called one at
	// a time and may block; when more than 256 calls wait, further ones are dropped.
	OnLog              func(server string, p mcp.LogParams)
	OnToolsChanged     func()
	OnResourcesChanged func() // or the templates
	OnPromptsChanged   func()
	// Principal says for whom the client acts at a server now, such as the subject and
	// issuer of its token: what the server calls private is kept for that one alone.
	// Nil is one and the same for the client's life. It must not block.
	Principal func(server string) string
	// TraceContext returns the members traceparent, tracestate and baggage of the
	// context that a request is made in. Nil sends none.
	TraceContext func(context.Context) map[string]string
	// Trace is told of each request to the server. Nil is not called.
	Trace TraceFunc
	// Extensions are the settings of the extensions that the program understands, by
	// id: they are declared to the server. Nil declares none.
	Extensions map[string]json.RawMessage
	// Authorizer authorizes the program at servers over HTTP that have no header Authorization
	// and no HeadersFunc of their own. Nil leaves a refusal an error.
	Authorizer Authorizer
	// OnState hears of each change of the connection. It must not block.
	OnState func(Status)
	Observers
	AskOptions
	// MaxCalls bounds the calls under way. Zero means 4096.
	MaxCalls int
	// NoListen keeps no stream open for changes of a server's lists. Otherwise, once a
	// list was asked for that a server of 2026-07-28 announces changes of, the client
	// listens for them with subscriptions/listen.
	NoListen bool
	// ListenForTasks has a server of 2026-07-28 tell of changes of the tasks that are
	// waited for: those that it announces are seldom asked for.
	ListenForTasks bool
	// Lazy connects when it is first needed. [Dial] then returns at once. The lists of a
	// host need all its servers.
	Lazy bool
	// PingEvery asks a legacy server for a sign of life now and then: after two in a
	// row that it does not answer within 10 s, or within PingEvery if that is shorter,
	// the connection is given up and made anew. Zero means never: processes and HTTP
	// requests tell of their end themselves. In 2026-07-28 there is no ping.
	PingEvery time.Duration

	main       *Client                // whose further instance this is; nil if it is the first
	number     int                    // of the instance; 0 for the first
	spawn      func(*conn.Conn) error // starts the connection of an instance; nil is below the runtime
	eras       *negotiate.Eras        // shared in a host
	pool       *asks.HostLimit        // shared in a host
	start      starter                // a fake in tests
	httpClient *http.Client           // of tests; nil is that of all servers
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.ProbeTimeout = cmp.Or(d.ProbeTimeout, negotiate.DefaultProbe)
	if d.Info.Name == "" {
		d.Info = mcp.Implementation{Name: "troupe", Version: version}
	}
	d.AskOptions = d.AskOptions.withDefaults()
	if d.start == nil {
		d.start = startProcess
	}
	if d.spawn == nil {
		d.spawn = (*conn.Conn).Start
	}
	return d
}

// CallOptions changes one call; nil is the same as the zero value.
type CallOptions struct {
	// Progress asks for progress and takes it, on the caller's goroutine. Nil asks
	// for none.
	Progress func(Progress)
	// Idle and Max are the limits of this call. Zero means the server's.
	Idle, Max time.Duration
	// Safe says that the call may be carried out twice: it is repeated if the
	// connection is lost.
	Safe bool
	// Meta is added to the request's _meta.
	Meta mcp.Meta
	// LogLevel asks a server of 2026-07-28 for the log messages of this request at or
	// above a level. Empty is the client's.
	LogLevel mcp.LogLevel
	// ResultTypes are the values of resultType beyond the protocol's that
	// [Client.Request] may return, because their extension was declared.
	ResultTypes []string
	// Fresh asks the server also where an answer is kept that could be used.
	Fresh bool
	// AnyOutput takes a tool's result as it is, without a look at its output schema.
	AnyOutput bool

	// Human decides the server's questions that belong to this call. Nil is the
	// client's. Where it cannot be known which of several calls a question belongs
	// to, the client's decides, unless all of them have the same Human (== holds).
	Human Human
	// Sampler answers the requests for a model's answer that belong to this call. Nil
	// is the client's, without which none are declared. Where it cannot be known which
	// of several calls a request belongs to, the client's answers, unless all of them
	// have the same: == holds, or their methods Owner() any, if they have one, return
	// the same.
	Sampler Sampler
	// Roots tells the places that belong to this call, where roots are declared at all;
	// it is asked each time the server asks. Nil is the client's. Where it cannot be
	// known which of several calls the server asks for, the client's are told.
	Roots func(ctx context.Context) ([]mcp.Root, error)
	// NoAsk declines the questions that belong to this call.
	NoAsk bool
	// Path leads from the run's agent to this call; a question of it shows that.
	Path []string
	// OnWait hears when the call begins to wait for a person, and when it goes on. It
	// must not block.
	OnWait func(waiting bool)

	// Keep says that the owner of this call has more calls to make: the instance of the
	// server that it is given, see [Server].Instances, is kept for them, until
	// [Host.ForgetOwner], or until it has had none for ten seconds and another owner waits.
	Keep bool
	// OnInstance hears when the call begins to wait for an instance of its server, and with
	// nil when it has one; not when the call ends before. It must not block, nor call the
	// client or its host.
	OnInstance func(*InstanceWait)
	// OnSend, if set, is called when the call has all that it needs, its instance and
	// a connection, and nothing of it is written yet: it is written after proceed(nil), and
	// ends unsent with an error. Proceed may come before OnSend returns, which must not
	// block. The limits of the call run meanwhile.
	OnSend func(proceed func(error))

	// OnRound hears what a server of 2026-07-28 wants to know before it carries out the call, with
	// the size of its answer in bytes, before a person is asked. OnSend is called again before
	// the next round is written. It must not block.
	OnRound func(round *mcp.InputRequiredResult, size int)
	// Round goes on with a call that another process has left in this round: its questions are
	// asked, and the request is sent with their answers. [Host.Start] and [Client.StartTool] do
	// not look at it.
	Round *mcp.InputRequiredResult

	// Task asks a server of 2025-11-25 to run the tool as a task also where the tool
	// leaves the choice to us. The call waits for the task in any case.
	Task bool
	// OnTask hears that the server has made a task of the call, whose id is then to be
	// kept by who wants to find it after a crash. It may block.
	OnTask func(*Task)
	// KeepTask reports whether the server's task of a call goes on that is cancelled with this
	// cause, as another process waits for it. Nil cancels the task.
	KeepTask func(cause error) bool

	// Definition is [Tool.Hash] of the tool that the caller has decided to call; see [Host.Call]. A host that
	// knows another definition by then asks the call's Human whether that one may be called in its place, and
	// refuses without one, with a [*ToolChangedError]. Empty is the definition that the tool is pinned to alone.
	Definition string

	task      *taskWish    // of CallToolTask
	unchanged func() error // says that the tool is not the one that was checked any more; nil if that is not looked at
	listed    bool         // no call: a list, whose reader shows by itself that a login is missing
}

// Progress is one report of how far a call has come.
type Progress struct {
	Progress float64
	Total    *float64 // nil when it is not known
	Message  string   // for people; cut off after 1 KiB
}

// onProgress is what takes the reports of the call; nil asks for none.
func (o *CallOptions) onProgress() func(call.Progress) {
	if o == nil || o.Progress == nil {
		return nil
	}
	return func(p call.Progress) { o.Progress(Progress(p)) }
}

// Extension returns the settings with which the server declares an extension, and
// whether it does. They are the server's word: a program validates them. Without
// it the core protocol is what there is.
func (i *Info) Extension(id string) (settings json.RawMessage, ok bool) {
	if i == nil {
		return nil, false
	}
	return i.Capabilities.Extension(id)
}

// Observers see what a server sends on its own account, before anything is done with
// it, for programs that show the wire. They are called at once, on the goroutine that
// reads, in the order of what came: they must not block, and what came before an
// answer has been seen when the call returns. The parameters are the observer's.
type Observers struct {
	// OnNotification sees every notification of the server, known or not, progress
	// included. Nil sees none.
	OnNotification func(server, method string, params json.RawMessage)
	// OnRequest sees every request of the server, answered or refused; in 2026-07-28,
	// which has none, what a result asks for instead. Nil sees none.
	OnRequest func(server, method string, params json.RawMessage)
}

// Operation is a request to a server as its caller sees it: with all attempts, rounds of
// questions and the wait for its task. It must not be changed, nor kept.
type Operation struct {
	Server string // its configured name
	Method string
	Name   string // of the tool or prompt, or the resource's URI; empty where there is none
	// Version is the revision that is spoken.
	Version mcp.Version
	// Transport is "pipe", "tcp" (HTTP and streams) or "inproc".
	Transport string
	Address   string // scheme and host of a URL; empty for other servers
}

// TraceFunc is told of each operation as it begins, and by the function that it returns of how it ended. The context that it
// returns is the one the operation is made in, and must be derived from the one it is given: [Options].TraceContext finds there
// what goes into the request. Both are called in pairs, on the caller's goroutine, but that of how it ended on another one
// where the caller does not wait, and must not block. ToolError says that a tool ran and failed.
type TraceFunc func(ctx context.Context, op *Operation) (_ context.Context, end func(toolError bool, err error))

// starter starts the process of a server.
type starter func(*Server) (pipe.Process, error)

func startProcess(s *Server) (pipe.Process, error) {
	return pipe.Start(&pipe.Command{Path: s.Command, Args: s.Args, Env: s.Env, Dir: s.Dir})
}

// InstanceWait is what a call waits for that has no instance of its server yet.
type InstanceWait struct {
	Server string
	// InUse is how many instances other owners have, Of how many there may be.
	InUse, Of int
	// Held is how many more there are whose calls wait for a person, see [Server].HeldInstances.
	Held int
}

func (w *InstanceWait) String() string {
	if w.Held > 0 {
		return fmt.Sprintf("an instance of server %q (%d of %d in use, %d more wait for people)", w.Server, w.InUse, w.Of, w.Held)
	}
	return fmt.Sprintf("an instance of server %q (%d of %d in use)", w.Server, w.InUse, w.Of)
}
