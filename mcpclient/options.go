package mcpclient

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
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
	// ProbeTimeout is how long the first question may take (ERA-03). Zero means 5 s.
	ProbeTimeout time.Duration
	// LogLevel asks the server for log messages at or above a level (LOG-03,
	// LOG-05). Empty leaves it to the server.
	LogLevel mcp.LogLevel
	// OnLog takes the server's log messages, OnToolsChanged hears that its tools
	// may have changed. They are called one at a time and may block; when more
	// than 256 calls wait, further ones are dropped.
	OnLog          func(mcp.LogParams)
	OnToolsChanged func()
	// OnState hears of each change of the connection. It must not block.
	OnState func(Status)
	// MaxCalls bounds the calls under way. Zero means 4096.
	MaxCalls int
	// Lazy connects when it is first needed. [Dial] then returns at once.
	Lazy bool

	eras  *eraCache // shared in a host
	start starter   // a fake in tests
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.ProbeTimeout = cmp.Or(d.ProbeTimeout, defaultProbe)
	if d.Info.Name == "" {
		d.Info = mcp.Implementation{Name: "troupe", Version: version}
	}
	if d.eras == nil {
		d.eras = new(eraCache)
	}
	if d.start == nil {
		d.start = startProcess
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
}

// Progress is one report of how far a call has come.
type Progress = call.Progress
