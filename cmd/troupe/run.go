package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// runFlags are the flags of "troupe run".
type runFlags struct {
	openFlags
	output string
	runID  string
}

func (p *program) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [PROMPT | -]",
		Short: "Run an agent once",
		Long: `Run an agent once: the model is given the prompt and the tools of the MCP servers, and its answer goes to stdout.

The prompt is the argument, and what is piped to stdin is added to it. Without --mcp or --mcp-config the
servers of ./.mcp.json are used, those of them that were approved with "troupe mcp approve".
Tools that may change something ask first, on the terminal, even where something is piped to stdin; "always" there holds for
exactly this tool in this folder, see "troupe mcp approvals". Without a terminal to ask on the run is left waiting: the exit
code is 3, and what is printed says how to go on.`,
		Example: `  troupe run --mcp "npx -y @modelcontextprotocol/server-filesystem ." "Which Go files are largest?"
  git diff | troupe run -m ollama/qwen3:8b "Write a commit message for this."
  troupe run --mcp-config .mcp.json --approve all --output-format json "Tidy up my notes."`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("the prompt is one argument, got %d: put it in quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return p.runOnce(cmd.Context(), &f, args) },
	}
	flags := cmd.Flags()
	f.openFlags.add(cmd)
	flags.StringVar(&f.output, "output-format", "text", "`FORMAT` of stdout: text, json (one object), stream-json (one event a line)")
	flags.StringVar(&f.runID, "run-id", "", "name the run; the same `ID` and prompt again give the same run")
	return cmd
}

// check refuses what is wrong before anything is started.
func (f *runFlags) check() error {
	if err := f.openFlags.check(); err != nil {
		return err
	}
	switch {
	case f.output != "text" && f.output != "json" && f.output != "stream-json":
		return usagef("--output-format %q: want text, json or stream-json", f.output)
	case f.runID != "":
		if err := store.CheckID("--run-id", f.runID); err != nil {
			return usagef("%w", err)
		}
	}
	return nil
}

// maxPrompt bounds what is read from stdin, in bytes.
const maxPrompt = 1 << 20

// readPrompt joins the argument with what is piped to stdin.
func (p *program) readPrompt(args []string) (string, error) {
	prompt := ""
	if len(args) == 1 && args[0] != "-" {
		prompt = args[0]
	}
	if info, err := p.stdin.Stat(); (len(args) == 1 && args[0] == "-") || (err == nil && info.Mode()&os.ModeCharDevice == 0) {
		data, err := io.ReadAll(io.LimitReader(p.stdin, maxPrompt+1))
		if err != nil {
			return "", usagef("reading stdin: %w", err)
		}
		if len(data) > maxPrompt {
			return "", usagef("stdin is larger than %d bytes: give the agent a file and a tool to read it", maxPrompt)
		}
		prompt = strings.TrimSpace(prompt + "\n\n" + strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usagef("there is no prompt: give one as argument or on stdin")
	}
	return prompt, nil
}

func (p *program) runOnce(ctx context.Context, f *runFlags, args []string) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	prompt, err := p.readPrompt(args)
	if err != nil {
		return err
	}
	settings, err := p.config()
	if err != nil {
		return err
	}
	def, err := settings.agent(f.agent)
	if err != nil {
		return err
	}
	// The wait for servers counts too.
	ctx, cancel := context.WithTimeoutCause(ctx, f.wall(def.Limits.Or(settings.Limits)), errTimeout)
	defer cancel()
	f.heldOutside, f.remember = true, true
	if !p.canAsk() {
		f.askExpiry = waitExpiry
	}
	o, err := p.open(ctx, &f.openFlags)
	if err != nil {
		return err
	}
	defer o.close(&err)
	return p.follow(ctx, o, prompt, f)
}

// follow starts the run and shows it until it has ended.
func (p *program) follow(ctx context.Context, o *opened, prompt string, f *runFlags) error {
	run, err := o.main.Start(ctx, prompt, &agent.RunOptions{ID: f.runID})
	if err != nil {
		return startError(err)
	}
	stop := context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })
	defer stop()

	view := p.newView(f.output)
	defer view.close()
	view.local, view.tools = localFilesOf(o.servers), o.allowed
	waiting, err := view.watch(ctx, run)
	if err != nil {
		run.Cancel(err)
	}
	view.clear()
	// The run has ended, or ends within its grace.
	res, runErr := run.Wait(context.WithoutCancel(ctx))
	if err := p.answer(f.output, run.ID(), res, runErr, waiting, view.speak); err != nil {
		return err
	}
	p.bill(res, o.main.Priced())
	if waiting != nil {
		return exitWith(exitWaiting, errors.New(p.nextStep(run.ID(), f.runID != "", waiting)))
	}
	if errors.Is(runErr, agent.ErrSuspended) {
		return exitWith(exitWaiting, fmt.Errorf("run %s was left to wait for a human and does not go on by itself: answer what it asks "+
			"(see troupe inbox), and run the same command again with another --run-id", run.ID()))
	}
	return runError(cmp.Or(runErr, err))
}

func startError(err error) error {
	if errors.Is(err, agent.ErrRunExists) {
		return usagef("--run-id: %w", err)
	}
	return err
}

// runError gives the error of a run the exit code for its kind.
func runError(err error) error {
	if err == nil {
		return nil
	}
	code := exitFailed
	var (
		limit  *agent.LimitError
		signal *signalError
		past   *agent.RunError
	)
	switch {
	case errors.As(err, &signal):
		code = signal.code()
	case errors.Is(err, errTimeout):
		code = exitTimeout
	case errors.Is(err, agent.ErrSuspended):
		code = exitWaiting
	case errors.As(err, &limit), errors.As(err, &past) && past.State == store.Limited:
		code = exitLimit
	case unreachable(err):
		code = exitUnreachable
	}
	return exitWith(code, err)
}

// unreachable reports errors that say that there is no such model, or none for us.
func unreachable(err error) bool {
	for _, kind := range []error{llm.ErrUnreachable, llm.ErrAuth, llm.ErrQuota, llm.ErrRateLimit, llm.ErrNotFound, llm.ErrIdle, llm.ErrStreamCut} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}
