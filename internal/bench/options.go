package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Options says what load [Server] makes; the zero value of each field is its default.
type Options struct {
	// Name is the target's in reports. Empty is the server's own.
	Name string
	// Sessions are connections, each with a handshake of its own and, for a command, a
	// process. Zero means 1.
	Sessions int
	// InFlight are the calls out at once, of all sessions together. Zero means as many as
	// there are sessions; in an open loop, where it is the most there may be, 64.
	InFlight int
	// Rate makes the loop an open one, of so many calls a second.
	Rate float64
	// Tool is called with Arguments. Empty means echo, or else the server is only asked
	// for a sign of life. Without Arguments what the tool's schema requires is made up,
	// and the first text has Payload bytes.
	Tool      string
	Arguments json.RawMessage
	// Payload is in bytes. Zero means 100.
	Payload int
	// WarmUp is not counted. Zero means a second, negative none.
	WarmUp time.Duration
	// Duration is how long calls are begun, Count how many. Both zero mean 10 s.
	Duration time.Duration
	Count    int64
	// Timeout ends a call. Zero means 10 s.
	Timeout time.Duration
	// PID is the server's process. Zero looks for it: what this process has started, or
	// who listens on the port of a URL of this machine.
	PID int
	// Goroutines is the URL of net/http/pprof's goroutine profile of the server. Empty
	// counts none.
	Goroutines string
	// Progress hears of what is going on. Nil hears nothing.
	Progress func(Progress)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Sessions = cmp.Or(d.Sessions, 1)
	if d.InFlight == 0 {
		if d.InFlight = d.Sessions; d.Rate > 0 {
			d.InFlight = max(d.Sessions, 64)
		}
	}
	d.Payload = cmp.Or(d.Payload, 100)
	d.WarmUp = max(cmp.Or(d.WarmUp, time.Second), 0)
	if d.Duration == 0 && d.Count == 0 {
		d.Duration = 10 * time.Second
	}
	d.Timeout = cmp.Or(d.Timeout, 10*time.Second)
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	return d
}

func (o *Options) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > maxSessions:
		return fmt.Errorf("%d sessions: want 1 to %d", o.Sessions, maxSessions)
	case o.InFlight < 1 || o.InFlight > maxInFlight:
		return fmt.Errorf("%d calls in flight: want 1 to %d", o.InFlight, maxInFlight)
	case o.Payload < 0 || o.Payload > maxPayload:
		return fmt.Errorf("a payload of %d bytes: want 0 to %d", o.Payload, maxPayload)
	case o.Rate < 0 || o.Rate > 1e6:
		return fmt.Errorf("a rate of %g: want up to a million calls a second", o.Rate)
	case o.Duration < 0 || o.Duration > maxDuration || o.WarmUp > maxDuration:
		return fmt.Errorf("a duration of %v: want up to %v", max(o.Duration, o.WarmUp), maxDuration)
	case o.Count < 0 || o.Timeout < 0:
		return errors.New("a count or a timeout below zero")
	}
	return nil
}

// Bounds of [Options].
const (
	maxSessions = 10_000
	maxInFlight = 100_000
	maxPayload  = 64 << 20
	maxDuration = 24 * time.Hour
)

// ErrOptions is for options that no measurement fits.
var ErrOptions = errors.New("benchmarking")

// AgentsOptions says what load of agents [Agents] makes; nil is the same as the zero
// value. Each session is a run of its own, with a scripted model behind the runtime's
// provider and the tools of one MCP server in this process.
type AgentsOptions struct {
	// Sessions are live at once. Zero means 100.
	Sessions int
	// Turns are the model's in each session: all but the last call a tool. Zero means 3.
	Turns int
	// History is how many bytes of text a session has collected behind its first turn.
	// Zero means 4096.
	History int
	// Tools are how many the server has, and each session is offered. Zero means 10.
	Tools int
	// Think is how long the model takes for a turn, Work how long the tool for a call.
	Think, Work time.Duration
	// Duration is how long new sessions begin in place of those that have ended. Zero
	// means 10 s, negative none: each place has one session.
	Duration time.Duration
	// Store takes the journal. Nil keeps it in memory.
	Store store.Store
	// Settle is how long the sessions wait before their memory is looked at once more, as
	// the collector and the system have it who were left alone. Zero means no second look.
	Settle time.Duration
	// SkipMemory leaves out the look at sessions that wait.
	SkipMemory bool
	// Progress hears of what is going on. Nil hears nothing.
	Progress func(Progress)
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger
}

func (o *AgentsOptions) withDefaults() AgentsOptions {
	d := *cmp.Or(o, new(AgentsOptions))
	d.Sessions = cmp.Or(d.Sessions, 100)
	d.Turns = cmp.Or(d.Turns, 3)
	d.History = cmp.Or(d.History, 4096)
	d.Tools = cmp.Or(d.Tools, 10)
	d.Duration = cmp.Or(d.Duration, 10*time.Second)
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	return d
}

func (o *AgentsOptions) check() error {
	switch {
	case o.Sessions < 1 || o.Sessions > MaxAgents:
		return fmt.Errorf("%d sessions: want 1 to %d", o.Sessions, MaxAgents)
	case o.Turns < 2 || o.Turns > 64:
		return fmt.Errorf("%d turns: want 2 to 64", o.Turns)
	case o.History < 64 || o.History > 1<<20:
		return fmt.Errorf("a history of %d bytes: want 64 to %d", o.History, 1<<20)
	case o.Tools < 1 || o.Tools > 1000:
		return fmt.Errorf("%d tools: want 1 to 1000", o.Tools)
	case o.Think < 0 || o.Work < 0:
		return errors.New("the time that a model or a tool takes is negative")
	}
	return nil
}

// MaxAgents bounds [AgentsOptions].Sessions.
const MaxAgents = 100_000
