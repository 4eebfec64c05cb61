package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcpclient"
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

// Bounds of [Options].
const (
	maxSessions = 10_000
	maxInFlight = 100_000
	maxPayload  = 64 << 20
	maxDuration = 24 * time.Hour
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
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
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
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

// ErrOptions is for options that no measurement fits.
var ErrOptions = errors.New("benchmarking")

// Server measures an MCP server. It ends by itself, at the latest a timeout after the
// last call was begun. If ctx ends before, the report has what was measured by then and
// says that it was cut short. Calls that fail are part of the report; the error is of
// what kept it from being made, such as a server that is not reachable.
func Server(ctx context.Context, server mcpclient.Server, opts *Options) (rep *Report, err error) {
	o := opts.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	sys, err := actors.NewSystem(&actors.Options{Logger: o.Logger})
	if err != nil {
		return nil, fmt.Errorf("benchmarking: %w", err)
	}
	l := &load{opts: &o, sys: sys, server: server, before: descendants()}
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.connect(ctx); err != nil {
		return nil, fmt.Errorf("benchmarking %s: %w", server.Name, err)
	}
	return l.measure(ctx)
}

// load is one measurement.
type load struct {
	opts    *Options
	sys     *actors.System
	server  mcpclient.Server
	clients []*mcpclient.Client
	before  []int // what had been started before
	do      *operation
}

// connect opens the sessions, some at a time.
func (l *load) connect(ctx context.Context) error {
	l.clients = make([]*mcpclient.Client, l.opts.Sessions)
	var next atomic.Int64
	var failed firstError
	var all sync.WaitGroup
	for range min(starters, len(l.clients)) {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(l.clients) && failed.get() == nil; n = int(next.Add(1)) - 1 {
				c, err := mcpclient.Dial(ctx, l.server, &mcpclient.Options{System: l.sys, Logger: l.opts.Logger,
					MaxCalls: l.opts.InFlight + 16, NoListen: true, Consent: func(context.Context, mcpclient.Server) error { return nil }})
				if err == nil {
					l.clients[n] = c
					_, err = c.Info(ctx)
				}
				failed.set(err)
			}
		})
	}
	all.Wait()
	if err := failed.get(); err != nil {
		return err
	}
	var err error
	l.do, err = newOperation(ctx, l.clients[0], l.opts)
	return err
}

// closeTime bounds the end of the sessions.
const closeTime = 10 * time.Second

func (l *load) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range l.clients {
		if c != nil {
			all.Go(func() { _ = c.Shutdown(ctx) }) // a server that does not end is not what is measured; its process is killed
		}
	}
	all.Wait()
	if err := l.sys.Shutdown(ctx); err != nil {
		return fmt.Errorf("ending the sessions: %w", err)
	}
	return nil
}

// measure makes the load and reports.
func (l *load) measure(ctx context.Context) (*Report, error) {
	rep := newReport(l)
	rep.Ping, rep.Alone = l.roundTrips(ctx)
	if l.opts.WarmUp > 0 && ctx.Err() == nil {
		l.run(ctx, newRecorder(), "warm-up", schedule{length: l.opts.WarmUp, rate: l.opts.Rate})
	}
	rec := newRecorder()
	watch := l.watchServer(rec)
	length, count := l.opts.Duration, l.opts.Count
	begun := time.Now()
	unsent := l.run(ctx, rec, "measuring", schedule{length: length, count: count, rate: l.opts.Rate})
	took := time.Since(begun)
	rep.Server = watch.end()
	rep.fill(rec, took, unsent)
	rep.Cut = ctx.Err() != nil
	rep.judge()
	return rep, nil
}

// roundTrips measures single calls with nothing else going on: signs of life, and calls.
func (l *load) roundTrips(ctx context.Context) (ping, alone Latency) {
	limit, cancel := context.WithTimeout(ctx, 2*l.opts.Timeout)
	defer cancel()
	c, pings, calls := l.clients[0], newLatencies(), newLatencies()
	sample := func(to *latencies, do func() error) {
		end := time.Now().Add(trialTime)
		for n := 0; n < maxTrials && limit.Err() == nil && (n < 3 || time.Now().Before(end)); n++ {
			if at := time.Now(); do() == nil && n > 0 { // the first warms up
				to.add(time.Since(at))
			}
		}
	}
	sample(pings, func() error { return c.Ping(limit) })
	sample(calls, func() error { return l.do.call(limit, c) })
	return pings.report(), calls.report()
}

// A look at single calls takes so many and so long, at the most, each way.
const (
	maxTrials = 200
	trialTime = 300 * time.Millisecond
)

// schedule says when calls begin.
type schedule struct {
	length time.Duration // for how long; 0: until count
	count  int64         // how many; 0: until length is over
	rate   float64       // a second; 0: when one has ended
}

// due is when the n-th call is to begin, and whether there is one.
func (s schedule) due(begun time.Time, n int64) (at time.Time, ok bool) {
	if s.count > 0 && n >= s.count {
		return at, false
	}
	if s.rate > 0 {
		at = begun.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
	} else {
		at = time.Now()
	}
	return at, s.length <= 0 || at.Sub(begun) < s.length
}

// missed is how many of the calls that were due by now were never begun, the next one
// being n.
func (s schedule) missed(begun, now time.Time, n int64) int64 {
	if s.rate <= 0 {
		return 0
	}
	span := now.Sub(begun)
	if s.length > 0 {
		span = min(span, s.length)
	}
	due := int64(span.Seconds() * s.rate)
	if s.count > 0 {
		due = min(due, s.count)
	}
	return max(due-n, 0)
}

// run makes calls by the schedule. It returns how many were due and were not made,
// because as many as there may be were out.
func (l *load) run(ctx context.Context, rec *recorder, phase string, s schedule) (unsent int64) {
	// When the time is over what is out may end, and no more than that.
	limit, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := time.Now()
	over := make(chan struct{}) // closed when no more calls are to begin
	if s.length > 0 {
		stop := time.AfterFunc(s.length, func() { close(over) })
		defer stop.Stop()
		late := time.AfterFunc(s.length+l.opts.Timeout, func() { cancel(errTooLong) })
		defer late.Stop()
	}
	var next atomic.Int64
	stopped := every(progressTime, func() {
		p := Progress{Phase: phase, Elapsed: time.Since(begun), Of: s.length, Total: s.count}
		p.Done, p.Failed = rec.counts()
		if l.opts.Progress != nil {
			l.opts.Progress(p)
		}
	})
	windows := every(windowTime(s), rec.turn)
	var all sync.WaitGroup
	for i := range l.opts.InFlight {
		all.Go(func() { l.caller(limit, l.clients[i%len(l.clients)], rec, s, begun, &next, over) })
	}
	all.Wait()
	windows()
	stopped()
	return s.missed(begun, time.Now(), next.Load())
}

// caller makes one call after the other.
func (l *load) caller(ctx context.Context, c *mcpclient.Client, rec *recorder, s schedule, begun time.Time, next *atomic.Int64, over <-chan struct{}) {
	failures := 0
	for ctx.Err() == nil {
		select {
		case <-over:
			return
		default:
		}
		n := next.Add(1) - 1
		due, ok := s.due(begun, n)
		if !ok || pauseUntil(ctx, due, over) != nil {
			next.Add(-1)
			return
		}
		at := time.Now()
		if s.rate <= 0 {
			due = at
		}
		kind, err := l.once(ctx, c)
		now := time.Now()
		rec.add(now.Sub(due), now.Sub(at), kind, err)
		if failures++; kind == "" {
			failures = 0
		} else if pause(ctx, min(time.Duration(failures)*time.Millisecond, maxRest)) != nil {
			return
		}
	}
}

// maxRest is how long a caller rests after failures, at the most: it does not
// hammer a server that is not reachable.
const maxRest = 100 * time.Millisecond

func pauseUntil(ctx context.Context, at time.Time, over <-chan struct{}) error {
	d := time.Until(at)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-over:
		return errTooLong
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// once makes one call, and says what kind of failure it was, "" for none.
func (l *load) once(ctx context.Context, c *mcpclient.Client) (kind string, err error) {
	err = l.do.call(ctx, c)
	return kindOf(ctx, err), err
}
