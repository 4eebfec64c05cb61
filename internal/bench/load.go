package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcpclient"
)

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
		} else if pause.For(ctx, min(time.Duration(failures)*time.Millisecond, maxRest)) != nil {
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

func newReport(l *load) *Report {
	o := l.opts
	rep := &Report{Name: o.Name, Time: time.Now().UTC().Format(time.RFC3339), Machine: thisMachine(),
		Load: Load{Loop: "closed", Sessions: o.Sessions, InFlight: o.InFlight, Rate: o.Rate, Call: l.do.tool, Payload: len(l.do.args), Timeout: millis(o.Timeout)}}
	if o.Rate > 0 {
		rep.Load.Loop = "open"
	}
	if rep.Load.Call == "" {
		rep.Load.Call = "ping"
	}
	rep.Target = targetOf(&l.server, l.clients[0])
	if rep.Name == "" {
		rep.Name = l.server.Name
	}
	return rep
}

func targetOf(s *mcpclient.Server, c *mcpclient.Client) Target {
	t := Target{How: "in-process"}
	switch {
	case s.Command != "":
		t.How = "command"
	case s.URL != "":
		t.How = "url"
	}
	if info := c.Status().Info; info != nil {
		t.Era, t.Revision = info.Era.String(), string(info.Version)
		if info.Server != nil {
			t.Server = info.Server.Name
		}
	}
	return t
}

// fill takes over what was recorded.
func (rep *Report) fill(rec *recorder, took time.Duration, unsent int64) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rep.Seconds, rep.Calls, rep.Unsent = took.Seconds(), rec.done, unsent
	if took > 0 {
		rep.Rate = float64(rec.done) / took.Seconds()
	}
	rep.Latency, rep.Service, rep.Windows = latencyOf(rec.whole), latencyOf(rec.service), append([]Window{}, rec.windows...)
	rep.Failures = []Fail{}
	for _, kind := range []string{FailTimeout, FailConnection, FailProtocol, FailTool, FailCancelled} {
		if n := rec.failed[kind]; n > 0 {
			rep.Failed += n
			rep.Failures = append(rep.Failures, Fail{kind, n, rec.first[kind]})
		}
	}
	if p := rep.Server; p != nil && rep.Calls > 0 && len(p.Samples) > 0 {
		p.CPUMicros = p.Samples[len(p.Samples)-1].CPUSeconds * 1e6 / float64(rep.Calls+rep.Failed)
	}
}

// watchServer begins to look; where there is no process to be seen it does nothing.
func (l *load) watchServer(rec *recorder) *serverWatch {
	w := &serverWatch{load: l, rec: rec, roots: l.processes(), begun: time.Now(), stop: func() {}}
	if len(w.roots) == 0 {
		return w
	}
	w.seen = &Process{PIDs: w.roots}
	w.first = usageOf(w.all()).cpu
	w.stop = every(sampleTime, w.look)
	return w
}

// processes finds those of the server.
func (l *load) processes() []int {
	if l.opts.PID > 0 {
		return []int{l.opts.PID}
	}
	if l.server.Command != "" {
		return slices.DeleteFunc(descendants(), func(pid int) bool { return slices.Contains(l.before, pid) })
	}
	u, err := url.Parse(l.server.URL)
	if err != nil || u.Host == "" {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return nil
	}
	if pid := listener(port); pid > 0 && pid != os.Getpid() {
		return []int{pid}
	}
	return nil
}
