// Package bench has the commands "troupe bench", which load an MCP server or the runtime
// and print what was measured.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [URL | -- COMMAND [ARGS...]]",
		Short: "Load an MCP server, and say how fast it is, what slows it down and whether it leaks",
		Long: `Load an MCP server with calls of a tool, and report latencies, failures, and the server's CPU time and memory where it runs on
this machine. The server is a command after --, --mcp as elsewhere, or a URL; without any of them it is Troupe's own echo server,
over --transport stdio, http or memory.

Without --rate the loop is closed: --in-flight callers each wait for an answer before the next call. With it calls begin at that
rate whatever the server does, and latencies count from the moment a call was due.

What stands out is said at the end: a slow tool, calls that wait for each other, memory, files or threads that grow with the calls,
failures, a rate that is too much. With --floor, and --beside as often as you like, the servers take turns, and each is shown as a
multiple of the floor.

It ends by itself; Ctrl-C prints what was measured by then. Exit codes: 0 measured, whatever the figures; 6 the server cannot be
reached; see troupe help exit-codes.`,
		Example: `  troupe bench -- npx -y @modelcontextprotocol/server-everything
  troupe bench --sessions 100 --in-flight 64 --duration 30s https://mcp.example/mcp
  troupe bench --tool search --args '{"q":"go"}' --rate 200 --json http://127.0.0.1:8080/mcp > after.json
  troupe bench compare before.json after.json --fail-over 10
  troupe bench --floor './floor -mode stdio' --beside 'other=./other' -- ./mine
  troupe bench agents --sessions 1000`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return measureAll(e, cmd, &f, args) },
	}
	f.add(cmd)
	cmd.AddCommand(agentsCommand(e), compareCommand(e), echoCommand(e))
	return cmd
}

func (f *benchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.mcp, "mcp", "", "measure this server: `[NAME=]COMMAND` with its arguments, no shell, or [NAME=]URL")
	flags.StringVar(&f.protocol, "protocol", "", "speak this `REVISION` of MCP: auto (default), legacy, modern, or a date")
	flags.StringVar(&f.transport, "transport", "", "`TRANSPORT`: of a URL auto, http or sse; of Troupe's own server stdio (default), http or memory")
	flags.IntVar(&f.Sessions, "sessions", 1, "open `N` sessions; a command is started for each")
	flags.IntVar(&f.InFlight, "in-flight", 0, "have `N` calls out at once, of all sessions together (default: one for each session; with --rate 64)")
	flags.IntVar(&f.Payload, "payload", 100, "make the first text of the arguments `BYTES` long")
	flags.StringVar(&f.Tool, "tool", "", "call the tool `NAME` (default: echo if there is one, else a sign of life)")
	flags.StringVar(&f.args, "args", "", "call it with this `JSON` (default: made up by its schema)")
	flags.Float64Var(&f.Rate, "rate", 0, "begin `N` calls a second, whatever the server does (an open loop)")
	flags.DurationVar(&f.WarmUp, "warm-up", time.Second, "do not count this `TIME` at the begin")
	flags.DurationVar(&f.Duration, "duration", 0, "measure for this `TIME` (default 10s, or without bound with --count)")
	flags.Int64Var(&f.Count, "count", 0, "make `N` calls")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Second, "give up a call after this `TIME`")
	flags.IntVar(&f.PID, "pid", 0, "watch the process `PID` and what it starts (default: what was started, or who listens on the URL's port)")
	flags.StringVar(&f.Goroutines, "goroutines", "", "count goroutines by this `URL` of net/http/pprof, such as http://127.0.0.1:6060/debug/pprof/goroutine?debug=1")
	flags.StringVar(&f.floor, "floor", "", "compare with this `[NAME=]COMMAND|URL`, the least a server can do")
	flags.StringArrayVar(&f.beside, "beside", nil, "measure this `[NAME=]COMMAND|URL` in turn (repeat for more)")
	flags.IntVar(&f.reps, "reps", 1, "measure each server `N` times in turn, and show the one in the middle")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON, for troupe bench compare")
}

// measureAll measures all servers in turn.
func measureAll(e *env.Env, cmd *cobra.Command, f *benchFlags, args []string) error {
	log, err := e.Logger()
	if err != nil {
		return err
	}
	if f.args != "" {
		if f.Arguments = json.RawMessage(f.args); !json.Valid(f.Arguments) {
			return env.Usagef("--args: it is not JSON")
		}
		if f.Tool == "" {
			return env.Usagef("--args needs --tool")
		}
	}
	if f.reps < 1 || f.reps > 100 {
		return env.Usagef("--reps %d: want 1 to 100", f.reps)
	}
	if f.WarmUp == 0 {
		f.WarmUp = -1
	}
	targets, done, err := benchTargets(cmd.Context(), e, f, args)
	if err != nil {
		return err
	}
	defer done()
	show := benchProgress(e)
	f.Logger, f.Progress = log, show.show
	runs, err := benchTurns(cmd.Context(), e, f, targets)
	show.clear()
	if len(runs) > 0 {
		if err := printRuns(e, f, targets, runs); err != nil {
			return err
		}
	}
	if err == nil && cmd.Context().Err() != nil {
		err = context.Cause(cmd.Context())
	}
	return err
}

// benchTargets collects the servers: the one itself, the floor first.
func benchTargets(ctx context.Context, e *env.Env, f *benchFlags, args []string) (all []benchTarget, done func(), err error) {
	done = func() {}
	add := func(line string, name string) error {
		s, err := setup.ServerOf(line)
		if err != nil {
			return err
		}
		if !setup.NamePrefix.MatchString(line) && name != "" {
			s.Name = name
		}
		all = append(all, benchTarget{name: s.Name, server: s})
		return nil
	}
	if f.floor != "" {
		if err := add(f.floor, "floor"); err != nil {
			return nil, done, err
		}
	}
	switch {
	case f.mcp != "" && len(args) > 0:
		return nil, done, env.Usagef("--mcp and an argument both name a server")
	case f.mcp != "":
		err = add(f.mcp, "")
	case len(args) == 1 && setup.IsURL(args[0]):
		all = append(all, benchTarget{name: setup.HostName(args[0]), server: mcpclient.Server{Name: setup.HostName(args[0]), URL: args[0]}})
	case len(args) > 0:
		s := mcpclient.Command(args[0], args[1:]...)
		all = append(all, benchTarget{name: s.Name, server: s})
	default:
		var own benchTarget
		if own, done, err = ownServer(ctx, e, f); err == nil {
			all = append(all, own)
		}
	}
	for _, line := range f.beside {
		if err == nil {
			err = add(line, "")
		}
	}
	for i := range all {
		s := &all[i].server
		if f.protocol != "" {
			s.Protocol = f.protocol
		}
		if f.transport != "" && s.URL != "" && f.transport != "http" {
			s.Transport = f.transport
		}
		for k := range i {
			if all[k].name == all[i].name && err == nil {
				err = env.Usagef("two servers are called %q: name one of them, as in --beside NAME=COMMAND", all[i].name)
			}
		}
	}
	return all, done, err
}

// ownServer is Troupe's echo server.
func ownServer(ctx context.Context, e *env.Env, f *benchFlags) (benchTarget, func(), error) {
	t, done := benchTarget{name: "troupe"}, func() {}
	switch f.transport {
	case "", "stdio":
		exe, err := ownProgram()
		if err != nil {
			return t, done, err
		}
		t.server = mcpclient.Command(exe, "bench", "echo")
	case "http":
		address, stop, err := startEcho(ctx, e)
		if err != nil {
			return t, done, err
		}
		t.server, done = mcpclient.Server{URL: address}, stop
	case "memory":
		s, err := newEcho(&echoFlags{}, nil)
		if err != nil {
			return t, done, err
		}
		t.server, done = mcpclient.InProcess("troupe", s), func() { _ = s.Close() } // no client is connected any more
	default:
		return t, done, env.Usagef("--transport %q: of Troupe's own server it is stdio, http or memory", f.transport)
	}
	t.server.Name = t.name
	return t, done, nil
}

// benchTurns measures each target as often as was asked, in turn, and returns the reports
// by target.
func benchTurns(ctx context.Context, e *env.Env, f *benchFlags, targets []benchTarget) (map[string][]*bench.Report, error) {
	runs := make(map[string][]*bench.Report)
	var errs []error
	for range f.reps {
		for _, t := range targets {
			if ctx.Err() != nil {
				return runs, nil
			}
			o := f.Options
			o.Name = t.name
			rep, err := bench.Server(ctx, t.server, &o)
			if rep != nil {
				runs[t.name] = append(runs[t.name], rep)
			}
			if err != nil && ctx.Err() == nil {
				errs = append(errs, err)
			}
		}
	}
	err := errors.Join(errs...)
	if errors.Is(err, bench.ErrOptions) {
		return runs, env.ExitWith(env.ExitUsage, err)
	}
	return runs, env.ExitWith(env.ExitUnreachable, err)
}
