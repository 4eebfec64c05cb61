// Package worker has the command "troupe worker", which works off the queue of jobs.
package worker

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/admin"
	"github.com/troupe-dev/troupe/internal/cli/console"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/jobs"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
)

// workerFlags are the flags of "troupe worker".
type workerFlags struct {
	setup.Flags
	concurrency int
	parked      int
	parkAfter   time.Duration
	giveUp      time.Duration
	attempts    int
	lease       time.Duration
	drain       time.Duration
	http        string
	httpGiven   bool // "" too: then the configuration does not count
	behindProxy bool
	console     string
	stdin       bool
	events      string
	keep        time.Duration
	keepRuns    int
	keepRules   []worker.KeepRule
	onUnknown   string
	unknown     agent.UnknownPolicy
}

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	var f workerFlags
	f.Service = true
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work off the queue of jobs",
		Long: `Work off the queue of jobs in the store, several at a time. Any number of workers may share a store: each job is one
worker's. What needs a human waits in "troupe inbox" and holds up nothing else.

Jobs come from "troupe jobs add", from schedules of the configuration, with --stdin from stdin (one JSON object a line,
as in POST /v1/jobs; the worker ends when they have), and with --http over HTTP (the token is worker.token of the
configuration, or $TROUPE_WORKER_TOKEN). What happens goes to stdout, one JSON object a line; the log goes to stderr.

SIGTERM and SIGINT drain: no more jobs are taken, those under way have --drain-timeout, and what has not ended by then is
left to others; a second one leaves at once. SIGHUP reads the schedules again. A worker that has drained exits with 0.`,
		Example: `  troupe worker
  troupe worker --concurrency 32 --http 127.0.0.1:8090 --mcp-config .mcp.json
  troupe worker --stdin < jobs.ndjson > results.ndjson`,
		Args: env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.LogFrom("info", cmd)
			f.httpGiven = cmd.Flags().Changed("http")
			return work(cmd.Context(), e, &f)
		},
	}
	f.Flags.Add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.concurrency, "concurrency", 0, "work on so many `JOBS` at once; those that wait for a human do not count (default 8)")
	flags.IntVar(&f.parked, "max-parked", 0, "claim nothing while so many `JOBS` wait for a human; each takes about 10 KB of memory until it is parked (default 100000)")
	flags.DurationVar(&f.parkAfter, "park-after", 0, "park a job that has waited for a human for this `TIME`: it takes no memory then, and any worker goes on with it when it is answered (default 1m)")
	flags.DurationVar(&f.giveUp, "give-up", 0, "a job that has waited for its model's provider for this `TIME` asks in the inbox whether to go on (default 24h)")
	flags.IntVar(&f.attempts, "attempts", 0, "give a job up after so many failures, where it does not say it (default 3)")
	flags.DurationVar(&f.lease, "lease", 0, "a job is another worker's after this time without a sign of life (default 30s)")
	flags.DurationVar(&f.AskExpiry, "ask-expiry", 7*24*time.Hour, "decline a question of the inbox without an answer after this `TIME`")
	flags.StringVar(&f.onUnknown, "on-unknown", "", setup.UnknownUsage+" (default ask)")
	flags.DurationVar(&f.drain, "drain-timeout", 0, "jobs under way have this time when the worker ends (default 30s)")
	flags.StringVar(&f.http, "http", "", "take jobs over HTTP at this `ADDRESS`; without a host it is that of this machine only; \"\" undoes the configuration's")
	flags.BoolVar(&f.behindProxy, "behind-proxy", false, "clients of --http come through a proxy on this machine or in a private network: one address may have any number of connections then")
	flags.StringVar(&f.console, "console", "", "serve the console at this `ADDRESS` of this machine; the log has a login link")
	flags.BoolVar(&f.stdin, "stdin", false, "take jobs from stdin, one JSON object a line, and end with them")
	flags.StringVar(&f.events, "events", "ends", "`WHAT` goes to stdout: ends (of jobs), all, none")
	return cmd
}

// settle refuses what is wrong before anything is opened, and fills in what the
// configuration says.
func (f *workerFlags) settle(c *config.Worker, kept *config.Store) error {
	switch {
	case f.concurrency < 0, f.parked < 0, f.parkAfter < 0, f.giveUp < 0, f.attempts < 0, f.lease < 0, f.drain < 0, f.AskExpiry <= 0:
		return env.Usagef("--concurrency, --max-parked, --park-after, --give-up, --attempts, --lease and --drain-timeout are not below zero, and --ask-expiry is above it")
	case f.events != "ends" && f.events != "all" && f.events != "none":
		return env.Usagef("--events %q: want ends, all or none", f.events)
	}
	f.concurrency, f.attempts = cmp.Or(f.concurrency, c.Concurrency), cmp.Or(f.attempts, c.Attempts)
	f.parked, f.parkAfter = cmp.Or(f.parked, c.MaxParked), cmp.Or(f.parkAfter, c.ParkAfter)
	f.giveUp = cmp.Or(f.giveUp, c.GiveUp)
	var err error
	if f.unknown, err = setup.UnknownPolicy(cmp.Or(f.onUnknown, c.OnUnknown)); err != nil {
		return err
	}
	f.keep, f.keepRuns = kept.Keep, kept.KeepRuns
	for _, r := range kept.Rules {
		f.keepRules = append(f.keepRules, worker.KeepRule{Selection: store.Selection{Agent: r.Agent, States: r.States}, Keep: r.Keep})
	}
	f.lease, f.drain = cmp.Or(f.lease, c.Lease, 30*time.Second), cmp.Or(f.drain, c.Drain)
	if f.lease < time.Second {
		return env.Usagef("--lease %v: want at least 1s", f.lease)
	}
	if !f.httpGiven {
		f.http = c.HTTP
	}
	f.behindProxy = f.behindProxy || c.BehindProxy != nil && *c.BehindProxy
	return nil
}

// DryRun reports what the start of "troupe worker" would refuse of the configuration and of the variables of the
// environment. E is one for dry runs.
func DryRun(ctx context.Context, e *env.Env) error {
	cmd := Command(e)
	if err := e.FromEnvironment(cmd, nil); err != nil {
		return err
	}
	cmd.SetContext(ctx)
	return cmd.RunE(cmd, nil)
}

func work(ctx context.Context, e *env.Env, f *workerFlags) (err error) {
	if e.NoStore && !f.stdin && f.http == "" {
		return env.Usagef("the queue is in the store: with --no-store jobs only come by --stdin or --http")
	}
	settings, err := e.Section("worker")
	if err != nil {
		return err
	}
	outbound, err := jobs.OutboundOf(e)
	if err := errors.Join(f.settle(&settings.Worker, &settings.Store), err, checkSchedules(settings.Worker.Schedules)); err != nil {
		return err
	}
	intake, err := listenIntake(e, f, settings) // first: an address that cannot be had is known before servers start
	if err != nil {
		return err
	}
	log, err := e.Logger()
	if err != nil {
		return err
	}
	start := &patience{log: log}
	if intake != nil {
		intake.serve(jobapi.Starting("worker", start.ready), log)
		defer func() { err = errors.Join(err, intake.close()) }() // it may be closed already
	}
	var at net.Listener
	if f.console != "" && !e.DryRun {
		if at, err = console.Listen("--console", f.console); err != nil {
			return err
		}
		defer at.Close() // it may be closed already
	}
	f.All = true
	f.WithOptions = func(o *agent.Options) {
		// The person who answers opens a page, on another screen.
		o.Host.OpenURL = func(context.Context, string) error { return nil }
		// A job that is taken over has to wait for the lease of its run.
		o.Lease = f.lease
		o.OnClose, o.OnUnknown = agent.ParkRuns, f.unknown
	}
	var o *setup.Opened
	err = start.until(ctx, func() (err error) { o, err = setup.Open(ctx, e, &f.Flags); return err })
	if err != nil {
		return start.leave(ctx, err)
	}
	defer o.Close(&err)
	d, err := newDaemon(ctx, e, o, f, &settings.Worker, outbound, intake, start)
	if err != nil {
		return start.leave(ctx, err)
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if e.DryRun {
		return nil
	}
	if at != nil {
		web, err := console.Serve(e, at, o.Store, o.Log, &d.admin)
		if err != nil {
			return err
		}
		d.closes = append([]func(){web.Close}, d.closes...)
		web.Announce(e)
	}
	return d.run(ctx)
}

// daemon is a worker with what belongs to it.
type daemon struct {
	env    *env.Env
	o      *setup.Opened
	flags  *workerFlags
	worker *worker.Worker
	hooks  *jobapi.Hooks // nil without a secret
	probe  *jobapi.StoreProbe
	metric *jobapi.Metrics
	admin  admin.Options
	out    *jobLines
	stdin  *stdinJobs // nil without --stdin
	intake *intake    // nil without --http
	closes []func()
}

func newDaemon(ctx context.Context, e *env.Env, o *setup.Opened, f *workerFlags, c *config.Worker, out *jobs.Outbound, in *intake, start *patience) (_ *daemon, err error) {
	d := &daemon{env: e, o: o, flags: f, intake: in, out: newJobLines(e.Stdout, f.events)}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	agents := slices.Collect(maps.Values(o.Agents))
	d.worker, err = worker.New(o.Runtime, &worker.Options{Agents: agents, Store: o.Store, Concurrency: f.concurrency, MaxParked: f.parked, ParkAfter: f.parkAfter, GiveUp: f.giveUp, Lease: f.lease,
		Drain: f.drain, Keep: f.keep, KeepRuns: f.keepRuns, KeepRules: f.keepRules, Retry: worker.Retry{MaxAttempts: f.attempts}, OnEvent: d.heard, Logger: o.Log})
	if err != nil {
		return nil, env.Usagef("%w", err)
	}
	shown := setup.MetricsOptions(o)
	shown.Now = func() jobapi.Places {
		s := d.worker.Counts()
		return jobapi.Places{Running: s.Running, Waiting: s.Parked, Aside: s.Aside, MaxWaiting: s.MaxParked}
	}
	d.probe, d.metric = shown.Probe, jobapi.NewMetrics(shown)
	var guard *netguard.Guard
	if out.Secret != nil { // else a receiver could not verify our webhooks
		guard = out.Guard
		d.hooks, err = jobapi.StartHooks(o.Runtime.System(), jobapi.HooksOptions{Store: o.Store, Guard: guard, Secret: *out.Secret, OnEnd: d.metric.Hook, Logger: o.Log})
		if err != nil {
			return nil, err
		}
	}
	if err := out.StartNotices(o.Runtime.System(), o.Store, d.hooks, o.Log); err != nil {
		return nil, err
	}
	if err := start.until(ctx, func() error { return putSchedules(ctx, o, c.Schedules) }); err != nil {
		return nil, err
	}
	if f.stdin && !e.DryRun {
		d.stdin = newStdinJobs(e.Stdin, o.Store, guard, d.out, d.worker.Wake)
	}
	if e.DryRun {
		return d, nil
	}
	d.admin = setup.AdminOptions(o, "worker", d.wake, d.worker.WaitsFor, func() any { return d.worker.Status() })
	d.closes = append(d.closes, setup.OpenAdmin(e, o, d.admin))
	if in != nil {
		return d, d.takeJobs(guard)
	}
	return d, nil
}

// wake has everything looked at that others may have changed in the store.
func (d *daemon) wake() {
	d.worker.Wake()
	if d.hooks != nil {
		d.hooks.Look()
	}
}

// takeJobs takes jobs over HTTP.
func (d *daemon) takeJobs(guard *netguard.Guard) error {
	in, err := jobapi.NewIntake(jobapi.IntakeOptions{Jobs: d.o.Store, Token: d.intake.token, Guard: guard,
		Warning: d.warning, Metrics: d.metric.Handler(), Logger: d.o.Log, Ready: d.ready,
		Providers: func() []jobapi.Provider { return setup.ModelProviders(d.o) },
		Added:     func(store.Job) { d.worker.Wake() }, Cancelled: func(store.Job) { d.wake() }})
	if err != nil {
		return env.Usagef("%w", err)
	}
	d.intake.answerWith(in)
	d.env.Note("jobs are taken at http://%s/v1/jobs", d.intake.listener.Addr())
	return nil
}

// warning says so of a new job whose agent is not known here; empty for none.
func (d *daemon) warning(ctx context.Context, j *store.Job) string {
	if d.o.Agents[j.Agent] != nil {
		return ""
	}
	return jobs.AgentWarning(ctx, d.env, j.Agent)
}

// ready says why no jobs are taken.
func (d *daemon) ready(ctx context.Context) error {
	if d.worker.Counts().Draining {
		return errors.New("the worker is draining")
	}
	return setup.StoreReady(ctx, d.o.Store, d.probe)
}

// heard passes on what happens to jobs. It is called for one event after the other.
func (d *daemon) heard(ev worker.Event) {
	d.metric.Event(string(ev.Type))
	switch ev.Type {
	case worker.JobStarted:
		d.metric.Started(ev.Job, ev.Time.Sub(ev.Job.Due()))
		d.out.begun(ev)
	case worker.JobEnded:
		d.metric.Ended(ev.Job, d.out.took(ev))
		if ev.Job.Hook != "" && d.hooks == nil {
			d.o.Log.Warn("a webhook is not sent: worker.hook_secret is not set", "job", ev.Job.ID)
		} else if d.hooks != nil {
			d.hooks.Tell(ev.Job)
		}
	}
	d.metric.Spent(ev.Job, ev.Attempt)
	d.out.event(ev)
	log := d.o.Log.With("job", ev.Job.ID, "agent", ev.Job.Agent, "state", ev.Job.State, "run", ev.Job.Run)
	if ev.Error != "" {
		log = log.With("error", ev.Error)
	}
	if ev.For != "" {
		log = log.With("for", ev.For)
	}
	log.Info(string(ev.Type))
}

// run works until ctx ends, or the jobs of stdin have.
func (d *daemon) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	hups := make(chan os.Signal, 1)
	signal.Notify(hups, syscall.SIGHUP)
	defer signal.Stop(hups)
	go d.reloads(ctx, hups) // ends with ctx
	if d.stdin != nil {
		go d.stdin.read(ctx) // ends with the input, which cannot be taken from it
		go func() {          // ends with ctx
			if d.stdin.follow(ctx) {
				stop(nil)
			}
		}()
	}
	d.o.Log.Info("the worker is ready", "owner", d.worker.Owner(), "agents", slices.Sorted(maps.Keys(d.o.Agents)))
	err := d.worker.Run(ctx)
	if d.hooks != nil {
		flush, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if d.hooks.Flush(flush) != nil {
			d.o.Log.Warn("webhooks are left to the next worker")
		}
	}
	if err == nil && d.stdin != nil {
		err = d.stdin.outcome()
	}
	return errors.Join(err, d.out.failure())
}

// close ends what is around the worker.
func (d *daemon) close() error {
	var err error
	if d.intake != nil {
		err = d.intake.close()
	}
	for _, c := range d.closes {
		c()
	}
	if d.hooks != nil {
		d.hooks.Stop()
	}
	return err
}

// reloads reads the configuration again at each SIGHUP. One that is wrong changes
// nothing.
func (d *daemon) reloads(ctx context.Context, hups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hups:
		}
		again := &env.Env{Stdin: d.env.Stdin, Stdout: d.env.Stdout, Stderr: d.env.Stderr, ConfigPath: d.env.ConfigPath}
		settings, err := again.Section("worker")
		if err == nil {
			err = putSchedules(ctx, d.o, settings.Worker.Schedules)
		}
		if err != nil {
			d.o.Log.Error("the configuration was not taken over", "error", err)
			continue
		}
		d.o.Log.Info("the schedules were read again", "schedules", len(settings.Worker.Schedules))
		d.worker.Wake()
	}
}

// checkSchedules reports what is wrong with the times of schedules, of all of them.
func checkSchedules(all map[string]config.Schedule) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if err := worker.Check(all[name].Cron, all[name].Timezone); err != nil {
			errs = append(errs, env.Usagef("%s: the schedule %s: %w", all[name].Source, name, err))
		}
	}
	return errors.Join(errs...)
}

// putSchedules makes the schedules of the store those of the configuration. Without any
// there, those of the store stay: another worker's configuration has them.
func putSchedules(ctx context.Context, o *setup.Opened, all map[string]config.Schedule) error {
	if len(all) == 0 {
		return nil
	}
	if err := checkSchedules(all); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if who := cmp.Or(all[name].Agent, jobapi.MainAgent); o.Agents[who] == nil {
			return env.Usagef("%s: the schedule %s: there is no agent %q", all[name].Source, name, who)
		}
	}
	old, err := o.Store.Schedules(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		who := cmp.Or(s.Agent, jobapi.MainAgent)
		if _, err := worker.PutSchedule(ctx, o.Store, store.Schedule{Name: name, Cron: s.Cron, Zone: s.Timezone, Agent: who, Prompt: s.Prompt}); err != nil {
			return env.Usagef("%s: %w", s.Source, err)
		}
	}
	for _, s := range old {
		if _, there := all[s.Name]; there {
			continue
		}
		if err := o.Store.DeleteSchedule(ctx, s.Name); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		o.Log.Info("a schedule that the configuration does not have any more was removed", "schedule", s.Name)
	}
	return nil
}
