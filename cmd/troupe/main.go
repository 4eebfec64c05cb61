// Command troupe runs agents that use the tools of MCP servers.
//
// It writes answers to stdout and everything else to stderr, and its exit codes
// are documented in exit.go and by "troupe help exit-codes".
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/store"
)

func main() {
	paceCollector()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// program is what the commands have in common.
type program struct {
	stdin          *os.File
	stdout, stderr io.Writer
	errors         io.Writer // what stderr was before lines of JSON were made of it
	tty            *os.File  // the terminal of the process, once it was needed; see keyboard
	noTTY          bool      // there is none

	configPath string
	fromEnv    map[string]bool // flags that a variable of the environment has set
	settings   *settings       // what the configuration says; nil until it has been read

	storePath string
	noStore   bool
	logLevel  string
	logFormat string
	quiet     bool
}

// run is main without the process: it returns the exit code.
func run(args []string, stdin *os.File, stdout, stderr io.Writer) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, errors: stderr}
	if wantsJSON(args) {
		p.stderr = newJSONLines(stderr)
	}
	ctx, stop := withSignals(context.Background(), p.stderr)
	defer stop()
	root := p.command()
	root.SetArgs(countBack(args))
	err := root.ExecuteContext(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		if s, ok := errors.AsType[*signalError](cause); ok {
			err = s // whatever it led to
		}
	}
	if err != nil {
		fmt.Fprintf(p.stderr, errorPrefix+"%v\n", err)
	}
	if errors.Is(err, store.ErrFull) {
		fmt.Fprintln(p.stderr, "make room on the disk of the store, or name another file with --store")
	}
	return exitCode(err)
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "troupe",
		Short:         "Run agents that use the tools of MCP servers",
		Long:          "Troupe runs agents that use the tools of MCP servers, of every revision of the protocol.",
		Example:       "  troupe run --mcp \"npx -y @modelcontextprotocol/server-filesystem .\" \"Which Go files are largest?\"",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          subcommandOnly,

		PersistentPreRunE: p.fromEnvironment,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if text := err.Error(); strings.Contains(text, ago) { // as it was given
			err = errors.New(strings.ReplaceAll(text, ago, "-"))
		}
		return usagef("%w%s\nSee %s --help", err, flagMeant(cmd, err), cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&p.configPath, "config", "", "`FILE` with the configuration (default: $TROUPE_CONFIG, or else ./troupe.yaml over your own)")
	flags.StringVar(&p.storePath, "store", "", "`FILE` that keeps runs and approvals (default: troupe.db in the state folder)")
	flags.BoolVar(&p.noStore, "no-store", false, "keep nothing on disk")
	flags.StringVar(&p.logLevel, "log-level", "error", "log to stderr from `LEVEL`: debug, info, warn, error")
	flags.StringVar(&p.logFormat, "log-format", "text", "`FORMAT` of the log: text, json")
	flags.BoolVarP(&p.quiet, "quiet", "q", false, "write nothing to stderr but errors")
	root.AddCommand(p.runCommand(), p.mcpCommand(), p.runsCommand(), p.modelsCommand(), p.versionCommand(), p.configCommand(), p.doctorCommand(), p.chatCommand(), p.completionCommand(), p.inboxCommand(), p.jobsCommand(), p.treeCommand(), p.workerCommand(), p.serveCommand(), p.benchCommand(), exitCodesTopic())
	p.completeAll(root)
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
    4  a limit was reached
    5  a policy denied it
    6  a model or an MCP server can not be reached
  124  the time of --timeout was over
  130  SIGINT
  143  SIGTERM`,
	}
}

// logger returns the logger of the flags.
func (p *program) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(p.logLevel)); err != nil {
		return nil, usagef("--log-level %q: want debug, info, warn or error", p.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch p.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(p.stderr, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.stderr, opts)), nil
	}
	return nil, usagef("--log-format %q: want text or json", p.logFormat)
}

// note tells the user something that is not the answer.
func (p *program) note(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.stderr, "  "+format+"\n", args...)
	}
}

// oneArg and noArgs turn cobra's complaints about arguments into usage errors.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef("%s needs %s, got %d arguments\nSee %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// subcommandOnly is for commands that do nothing but lead to others.
func subcommandOnly(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s has no command %q%s\nSee %[1]s --help", cmd.CommandPath(), args[0], commandMeant(cmd, args[0]))
	}
	return nil
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q\nSee %s --help", cmd.CommandPath(), args, cmd.CommandPath())
	}
	return nil
}
