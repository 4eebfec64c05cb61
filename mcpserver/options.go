package mcpserver

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
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
	// PageSize is how many tools a page of tools/list has. Zero means 100.
	PageSize int
	// CacheFor is how long clients of 2026-07-28 may keep a list (CACHE-02).
	// Zero means not at all.
	CacheFor time.Duration
	// Grace is how long calls may go on after the client has hung up. Zero means
	// 2 s.
	Grace time.Duration
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
	d.PageSize = cmp.Or(d.PageSize, 100)
	d.Grace = cmp.Or(d.Grace, 2*time.Second)
	return d
}
