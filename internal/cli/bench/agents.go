package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/gcpace"
	"github.com/troupe-dev/troupe/store/sqlite"
)

func agentsCommand(e *env.Env) *cobra.Command {
	var o bench.AgentsOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Measure how many agent sessions this machine carries, and what each costs",
		Long: `Run agent sessions with a scripted model and the tools of an MCP server in this process: first as many as are asked for at once,
half of them waiting for the model and half for a tool, to see the memory; then one after the other in each place, to see how many
pass in a second and what the runtime adds to a turn: the time from the end of one turn of the model to the begin of the next, with
a tool call, its journal and its approval between them. That time is measured twice: of one session at a time, which is what a turn
costs, and of all of them at once, where turns also queue for the processors.

The journal is a SQLite file in a temporary folder, or with --no-store in memory. It ends by itself; Ctrl-C prints what was measured
by then.`,
		Example: "  troupe bench agents\n  troupe bench agents --sessions 10000\n  troupe bench agents --sessions 100 --think 200ms --no-store --json",
		Args:    env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Duration == 0 {
				o.Duration = -1
			}
			if o.Sessions >= 1000 && !cmd.Flags().Changed("settle") {
				o.Settle = 2 * gcpace.Quiet
			}
			return benchAgents(e, cmd, &o, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Sessions, "sessions", 100, "`N` sessions at once")
	flags.IntVar(&o.Turns, "turns", 3, "`N` turns of the model in each; all but the last call a tool")
	flags.IntVar(&o.History, "history", 4096, "`BYTES` of text in each session when it waits")
	flags.IntVar(&o.Tools, "tools", 10, "offer `N` tools")
	flags.DurationVar(&o.Think, "think", 0, "the model takes this `TIME` for a turn")
	flags.DurationVar(&o.Work, "work", 0, "the tool takes this `TIME` for a call")
	flags.DurationVar(&o.Duration, "duration", 10*time.Second, "begin new sessions for this `TIME`; with 0 each place has one")
	flags.DurationVar(&o.Settle, "settle", 0, "let the sessions wait this `TIME` before the memory is looked at once more, as a process left alone has it (default 6s from 1000 sessions on)")
	flags.BoolVar(&o.SkipMemory, "no-memory", false, "leave out the look at sessions that wait")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func benchAgents(e *env.Env, cmd *cobra.Command, o *bench.AgentsOptions, asJSON bool) (err error) {
	if o.Logger, err = e.Logger(); err != nil {
		return err
	}
	if e.StorePath != "" {
		return env.Usagef("--store: the journal of a measurement is a file of its own; --no-store keeps it in memory")
	}
	if !e.NoStore {
		folder, err := os.MkdirTemp("", "troupe-bench")
		if err != nil {
			return env.Usagef("making a folder for the journal: %w; use --no-store", err)
		}
		defer os.RemoveAll(folder)
		s, err := sqlite.Open(filepath.Join(folder, "bench.db"), &sqlite.Options{Logger: o.Logger})
		if err != nil {
			return env.Usagef("%w; use --no-store", err)
		}
		defer env.CloseStore(s, &err)
		o.Store = s
	}
	show := benchProgress(e)
	o.Progress = show.show
	rep, err := bench.Agents(cmd.Context(), o)
	show.clear()
	if errors.Is(err, bench.ErrOptions) {
		return env.ExitWith(env.ExitUsage, err)
	}
	if rep == nil {
		return err
	}
	if asJSON {
		err = errors.Join(err, e.PrintJSON(rep))
	} else {
		err = errors.Join(err, printAgents(e, rep))
	}
	if err == nil && cmd.Context().Err() != nil {
		err = context.Cause(cmd.Context())
	}
	return err
}

func printAgents(e *env.Env, r *bench.AgentsReport) error {
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
	rows := [][]string{{"sessions", fmt.Sprintf("%d at once, %d turns, %d bytes of history, %d tools, journal: %s", r.Sessions, r.Turns, r.History, r.Tools, r.Journal)}}
	if l := r.Live; l != nil {
		rows = append(rows,
			[]string{"waiting", fmt.Sprintf("%d for the model, %d for a tool; all there after %.1f s", l.ForModel, l.ForTool, l.OpenSeconds)},
			[]string{"resident", fmt.Sprintf("%s (%s before), %.1f KB a session", mb(l.Memory.Resident), mb(l.Base.Resident), l.PerSession/1e3)},
			[]string{"of it", fmt.Sprintf("heap %s, stacks %s of %d goroutines", mb(l.Memory.Heap), mb(l.Memory.Stacks), l.Memory.Goroutines)})
		if s := l.Settled; s != nil {
			rows = append(rows, []string{fmt.Sprintf("after %.0f s", l.SettleSeconds), fmt.Sprintf("%s resident, heap %s, stacks %s", mb(s.Resident), mb(s.Heap), mb(s.Stacks))})
		}
	}
	if s := r.Passed; s != nil {
		rows = append(rows,
			[]string{"passed", fmt.Sprintf("%d in %.1f s, %s a second; %d failed", s.Sessions, s.Seconds, figure(s.Rate), s.Failed)},
			[]string{"CPU", fmt.Sprintf("%s µs a turn", figure(s.CPUMicros))},
			[]string{"added to a turn, ms", lineOf(inMillis(s.Alone)) + " (one session at a time)"},
			[]string{"with queueing, ms", lineOf(inMillis(s.Overhead)) + fmt.Sprintf(" (all %d at once; on average %s of it is queueing)", r.Sessions, figure(s.QueueingMicros/1000))},
			[]string{"session, ms", lineOf(inMillis(s.Session))})
		if s.Error != "" {
			rows = append(rows, []string{"the first failure", s.Error})
		}
	}
	if r.Cut {
		rows = append(rows, []string{"interrupted", "this is what was measured by then"})
	}
	return e.Table(rows)
}

// inMillis are latencies in milliseconds in place of microseconds.
func inMillis(l bench.Latency) bench.Latency {
	for _, v := range []*float64{&l.Min, &l.Mean, &l.P50, &l.P90, &l.P99, &l.P999, &l.Max} {
		*v /= 1000
	}
	return l
}
