package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/pause"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Agents measures agent sessions of this process: first the memory of such as wait,
// half of them for the model, half for a tool, and then how many pass, and what the
// runtime adds to a turn. It ends by itself a bounded time after Duration; if ctx ends
// before, the report has what was measured by then, and says that it was cut short.
func Agents(ctx context.Context, opts *AgentsOptions) (*AgentsReport, error) {
	o := opts.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	f, err := newFleet(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("benchmarking agents: %w", err)
	}
	rep := &AgentsReport{Schema: AgentsSchema, Machine: thisMachine(), Sessions: o.Sessions, Turns: o.Turns, History: o.History, Tools: o.Tools,
		ThinkMS: millis(o.Think), WorkMS: millis(o.Work), Journal: "memory"}
	if o.Store != nil {
		rep.Journal = "store"
	}
	if !o.SkipMemory {
		err = f.hold(ctx, rep)
	}
	if err == nil {
		err = f.pass(ctx, rep)
	}
	if ctx.Err() != nil {
		rep.Cut, err = true, nil
	}
	return rep, errors.Join(err, f.close())
}

// fleet is a runtime with everything the sessions need.
type fleet struct {
	opts   *AgentsOptions
	rt     *agent.Runtime
	server *mcpserver.Server
	model  *player
	base   Memory // before there was a runtime
	waits  *gate  // where the tool waits; nil lets it pass
}

func newFleet(ctx context.Context, o *AgentsOptions) (_ *fleet, err error) {
	f := &fleet{opts: o, base: ownMemory(), waits: new(gate)}
	f.model = newPlayer(o)
	if f.server, err = f.newServer(); err != nil {
		return nil, err
	}
	f.rt, err = agent.Open(ctx, &agent.Options{
		Model:   f.model,
		Servers: []mcpclient.Server{mcpclient.InProcess("tools", f.server)},
		// Nothing of ours is to hold up a session: that would be measured as its own time.
		Host:      &mcpclient.HostOptions{Options: mcpclient.Options{MaxCalls: o.Sessions + 16}},
		Providers: map[string]agent.ProviderOptions{"": {Concurrency: o.Sessions, Queue: o.Sessions + 16}},
		MaxRuns:   o.Sessions + 16,
		Approve:   agent.NeverAsk,
		Polls:     []string{"*"}, // its tools answer the same in each turn
		Store:     o.Store,
		Logger:    o.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, f.server.Close())
	}
	if _, err := f.rt.Servers(ctx); err != nil { // connected before anything is measured
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *fleet) close() error { return errors.Join(f.rt.Close(), f.server.Close()) }

type toolIn struct {
	Size int  `json:"size" jsonschema:"how many bytes to answer"`
	Wait bool `json:"wait,omitempty"`
}

func (f *fleet) newServer() (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "tools", Version: "1"}, &mcpserver.Options{
		Limits: mcpserver.Limits{MaxInFlight: f.opts.Sessions + 16}, Logger: f.opts.Logger,
		Lists: mcpserver.ListOptions{CacheFor: time.Hour}, // its list does not change: a turn does not ask for it again
	})
	if err != nil {
		return nil, err
	}
	for i := range f.opts.Tools {
		tool := &mcp.Tool{Name: fmt.Sprintf("tool_%d", i), Description: "Answers as many bytes as it is asked for, and waits where it is told to."}
		err = errors.Join(err, mcpserver.AddTool(s, tool, func(ctx context.Context, _ *mcpserver.ToolRequest, in toolIn) (string, error) {
			if in.Wait {
				if err := f.waits.pass(ctx); err != nil {
					return "", err
				}
			}
			if err := pause.For(ctx, f.opts.Work); err != nil {
				return "", err
			}
			return strings.Repeat("r", min(max(in.Size, 0), 1<<20)), nil
		}))
	}
	return s, err
}

// prompt is what session n begins with. Each has a text of its own, as real ones do.
func (f *fleet) prompt(n int) string {
	head := fmt.Sprintf("session %d ", n)
	return head + strings.Repeat("p", max(f.opts.History/2-len(head), 0))
}

// hold starts all sessions and looks at them while every second one waits for its
// model, the others for a tool.
func (f *fleet) hold(ctx context.Context, rep *AgentsReport) error {
	f.model.hold(true)
	f.waits.shut()
	defer f.model.hold(false)
	defer f.waits.open()
	begun := time.Now()
	runs, err := f.startAll(ctx)
	if err != nil {
		return err
	}
	half := int64(f.opts.Sessions / 2)
	if err := f.await(ctx, "sessions wait", begun, f.waiting, int64(f.opts.Sessions)); err != nil {
		return err
	}
	m := ownMemory()
	for range 10 { // what it settles to, and no less than the most of it
		if err := pause.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		m = m.atLeast(ownMemory())
	}
	rep.Live = &Live{Base: f.base, Memory: m, ForModel: f.model.waiting(), ForTool: f.waits.waiting(), OpenSeconds: time.Since(begun).Seconds()}
	if f.opts.Settle > 0 {
		if err := f.settle(ctx, rep.Live); err != nil {
			return err
		}
	}
	rep.Live.PerSession = math.Round(float64(m.Resident-f.base.Resident) / float64(f.opts.Sessions))
	if rep.Live.ForModel < half || rep.Live.ForTool < half {
		return fmt.Errorf("%d sessions wait for the model and %d for a tool, and should be %d each", rep.Live.ForModel, rep.Live.ForTool, half)
	}
	f.model.hold(false)
	f.waits.open()
	for _, run := range runs {
		if _, err := run.Wait(ctx); err != nil {
			return fmt.Errorf("a session that had waited: %w", err)
		}
	}
	return nil
}

// settle looks at the memory once more, nothing having happened for a while.
func (f *fleet) settle(ctx context.Context, l *Live) error {
	begun := time.Now()
	stop := every(progressTime, func() {
		f.progress(Progress{Phase: "sessions wait on", Elapsed: time.Since(begun), Of: f.opts.Settle, Done: int64(f.opts.Sessions)})
	})
	err := pause.For(ctx, f.opts.Settle)
	stop()
	if err != nil {
		return err
	}
	m := ownMemory()
	l.Settled, l.SettleSeconds = &m, time.Since(begun).Seconds()
	return nil
}

// startAll starts all sessions: some at a time, for what is live is to be measured and
// not what comes all at once.
func (f *fleet) startAll(ctx context.Context) ([]*agent.Run, error) {
	runs := make([]*agent.Run, f.opts.Sessions)
	var next atomic.Int64
	var failed firstError
	var all sync.WaitGroup
	for range min(starters, f.opts.Sessions) {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(runs) && failed.get() == nil; n = int(next.Add(1)) - 1 {
				run, err := f.rt.Start(ctx, f.prompt(n), nil)
				failed.set(err)
				runs[n] = run
				for err == nil && int64(n)-f.waiting() > starters { // those before are on their way
					err = pause.For(ctx, time.Millisecond)
				}
				failed.set(err)
			}
		})
	}
	all.Wait()
	return runs, failed.get()
}

// waiting is how many sessions wait.
func (f *fleet) waiting() int64 { return f.model.waiting() + f.waits.waiting() }

// starters is how many sessions are being started at once.
const starters = 64

// holdTime bounds the wait until all sessions wait.
const holdTime = 5 * time.Minute

// await looks until count has come to want.
func (f *fleet) await(ctx context.Context, what string, begun time.Time, count func() int64, want int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, holdTime, fmt.Errorf("not all %s within %v", what, holdTime))
	defer cancel()
	for {
		n := count()
		f.progress(Progress{Phase: what, Elapsed: time.Since(begun), Done: n, Total: want})
		if n >= want {
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (f *fleet) progress(p Progress) {
	if f.opts.Progress != nil {
		f.opts.Progress(p)
	}
}

// pass keeps the sessions coming, and measures what a turn takes beside its model.
func (f *fleet) pass(ctx context.Context, rep *AgentsReport) error {
	alone, err := f.alone(ctx)
	if err != nil {
		return err
	}
	turns, whole := newLatencies(), newLatencies()
	f.model.record(turns)
	defer f.model.record(nil)
	limit, cancel := context.WithTimeoutCause(ctx, max(f.opts.Duration, 0)+holdTime, errTooLong)
	defer cancel()
	var done, failed atomic.Int64
	var first firstError
	begun := time.Now()
	cpu := ownCPU()
	watching := f.watch(begun, &done)
	var all sync.WaitGroup
	for n := range f.opts.Sessions {
		all.Go(func() {
			for again := true; again; again = time.Since(begun) < f.opts.Duration && limit.Err() == nil {
				at := time.Now()
				if _, err := f.rt.Run(limit, f.prompt(n)); err != nil {
					failed.Add(1)
					first.set(err)
					if ctx.Err() != nil {
						return
					}
					continue
				}
				whole.add(time.Since(at))
				done.Add(1)
			}
		})
	}
	all.Wait()
	watching()
	took := time.Since(begun)
	rep.Passed = &Passed{Seconds: took.Seconds(), Sessions: done.Load(), Failed: failed.Load(),
		Rate:     float64(done.Load()) / took.Seconds(),
		Overhead: turns.report(), Alone: alone, Session: whole.report()}
	rep.Passed.QueueingMicros = max(rep.Passed.Overhead.Mean-alone.Mean, 0)
	if turns := done.Load() * int64(f.opts.Turns); turns > 0 {
		rep.Passed.CPUMicros = float64((ownCPU() - cpu).Microseconds()) / float64(turns)
	}
	if err := first.get(); err != nil && ctx.Err() == nil {
		rep.Passed.Error = err.Error()
	}
	return nil
}

// Bounds of the sessions that run alone.
const (
	aloneSessions = 50
	aloneTime     = 2 * time.Second
)

// alone measures turns of one session at a time: what they take where nothing queues.
func (f *fleet) alone(ctx context.Context) (Latency, error) {
	turns := newLatencies()
	f.model.record(turns)
	defer f.model.record(nil)
	begun := time.Now()
	for n := range aloneSessions {
		f.progress(Progress{Phase: "one session at a time", Elapsed: time.Since(begun), Done: int64(n), Total: aloneSessions})
		if _, err := f.rt.Run(ctx, f.prompt(n%f.opts.Sessions)); err != nil {
			return turns.report(), fmt.Errorf("a session alone: %w", err)
		}
		if time.Since(begun) > aloneTime {
			break
		}
	}
	return turns.report(), nil
}

var errTooLong = errors.New("the sessions did not end")

// watch tells of the progress until what it returns is called.
func (f *fleet) watch(begun time.Time, done *atomic.Int64) (stop func()) {
	return every(progressTime, func() {
		f.progress(Progress{Phase: "sessions pass", Elapsed: time.Since(begun), Of: max(f.opts.Duration, 0), Done: done.Load()})
	})
}
