// Command troupe runs agents that use the tools of MCP servers.
//
// It writes answers to stdout and everything else to stderr, and its exit codes
// are documented in package env and by "troupe help exit-codes".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/bench"
	"github.com/troupe-dev/troupe/internal/cli/completion"
	"github.com/troupe-dev/troupe/internal/cli/configcmd"
	"github.com/troupe-dev/troupe/internal/cli/console"
	"github.com/troupe-dev/troupe/internal/cli/doctor"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/gcpace"
	"github.com/troupe-dev/troupe/internal/cli/inbox"
	"github.com/troupe-dev/troupe/internal/cli/jobs"
	"github.com/troupe-dev/troupe/internal/cli/mcp"
	"github.com/troupe-dev/troupe/internal/cli/models"
	"github.com/troupe-dev/troupe/internal/cli/run"
	"github.com/troupe-dev/troupe/internal/cli/runs"
	"github.com/troupe-dev/troupe/internal/cli/serve"
	"github.com/troupe-dev/troupe/internal/cli/storecmd"
	"github.com/troupe-dev/troupe/internal/cli/version"
	"github.com/troupe-dev/troupe/internal/cli/worker"
	"github.com/troupe-dev/troupe/store"
)

func main() {
	gcpace.Start()
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute is main without the process: it returns the exit code.
func execute(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	e := &env.Env{Stdin: stdin, Stdout: stdout, Stderr: stderr, Errors: stderr}
	if env.WantsJSON(args) {
		e.Stderr = env.NewJSONLines(stderr)
	}
	ctx, stop := env.WithSignals(context.Background(), e.Stderr)
	defer stop()
	root := command(e)
	root.SetArgs(env.CountBack(args))
	err := root.ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		if s, ok := errors.AsType[*env.SignalError](cause); ok {
			err = s // whatever it led to
		}
	}
	if err != nil {
		fmt.Fprintf(e.Stderr, env.ErrorPrefix+"%v\n", err)
	}
	if errors.Is(err, store.ErrFull) {
		fmt.Fprintln(e.Stderr, "make room on the disk of the store, or name another file with --store")
	}
	return env.ExitCode(err)
}

// command is the program's root command with all command groups.
func command(e *env.Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Run agents that use the tools of MCP servers",
		Long:          "Troupe runs agents that use the tools of MCP servers, of every revision of the protocol.",
		Example:       "  troupe run --mcp \"npx -y @modelcontextprotocol/server-filesystem .\" \"Which Go files are largest?\"",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          env.SubcommandOnly,

		PersistentPreRunE: e.FromEnvironment,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if text := err.Error(); strings.Contains(text, env.Ago) { // as it was given
			err = errors.New(strings.ReplaceAll(text, env.Ago, "-"))
		}
		return env.Usagef("%w%s\nSee %s --help", err, env.FlagMeant(cmd, err), cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&e.ConfigPath, "config", "", "`FILE` with the configuration (default: $TROUPE_CONFIG, or else ./troupe.yaml over your own)")
	flags.StringVar(&e.StorePath, "store", "", "`FILE` that keeps runs and approvals (default: troupe.db in the state folder)")
	flags.BoolVar(&e.NoStore, "no-store", false, "keep nothing on disk")
	flags.StringVar(&e.LogLevel, "log-level", "error", "log to stderr from `LEVEL`: debug, info, warn, error")
	flags.StringVar(&e.LogFormat, "log-format", "text", "`FORMAT` of the log: text, json")
	flags.BoolVarP(&e.Quiet, "quiet", "q", false, "write nothing to stderr but errors")
	root.AddCommand(run.Command(e), run.ChatCommand(e), mcp.Command(e), runs.Command(e, run.ResumeCommand(e), run.ForkCommand(e)), runs.TreeCommand(e), models.Command(e),
		inbox.Command(e), console.Command(e), jobs.Command(e), worker.Command(e), serve.Command(e), bench.Command(e), storecmd.Command(e), configcmd.Command(e), doctor.Command(e),
		completion.Command(e), version.Command(e), exitCodesTopic())
	completion.CompleteAll(e, root)
	return root
}

// exitCodesTopic is "troupe help exit-codes".
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `What troupe exits with:

    0  it worked
    1  the run failed
    2  the command line or a configuration is wrong
    3  a human has to decide; the run's id was printed
    4  a limit was reached, or the model turned in circles, though it was told; what it answered all the same is on stdout
    5  a policy denied it
    6  a model or an MCP server cannot be reached, or the model's service fails: a status from 500 or 429, a key that it refuses (401, 403),
       a quota that is used up, a model that it does not have, an answer that breaks off or makes no sense
    7  a person has to log in at an MCP server first: troupe mcp login
    8  the run has an answer that is cut, by the limit of output tokens or by the provider's content filter, that is empty, or
       that is a call of a tool which the model wrote as text
  124  the time of --timeout was over
  130  SIGINT
  143  SIGTERM`,
	}
}
