// Package run has the commands "troupe run" and "troupe chat", and the view that shows a
// run while it goes on and asks its questions.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// bill says on stderr what a run has cost, where that is known in money.
func bill(e *env.Env, res *agent.Result, priced bool) {
	if res == nil || !priced {
		return
	}
	calls := "calls"
	if res.Spent.ModelCalls == 1 {
		calls = "call"
	}
	text := fmt.Sprintf("cost %v (%d tokens, %d model %s", res.Spent.Cost, res.Spent.Tokens, res.Spent.ModelCalls, calls)
	if res.Usage.Estimated {
		text += ", partly estimated"
	}
	if res.Usage.Over > 0 {
		text += fmt.Sprintf(", %d over the limit", res.Usage.Over)
	}
	if res.Usage.OverCost > 0 {
		text += fmt.Sprintf(", %v over the limit", res.Usage.OverCost)
	}
	e.Note("%s)", text)
}

// runFlags are the flags of "troupe run".
type runFlags struct {
	setup.Flags
	output    string
	runID     string
	onUnknown string
}

// Command is "troupe run".
func Command(e *env.Env) *cobra.Command {
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
				return env.Usagef("the prompt is one argument, got %d: put it in quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runOnce(cmd.Context(), e, &f, args) },
	}
	flags := cmd.Flags()
	f.Flags.Add(cmd)
	flags.StringVar(&f.output, "output-format", "text", "`FORMAT` of stdout: text, json (one object), stream-json (one event a line)")
	flags.StringVar(&f.runID, "run-id", "", "name the run; the same `ID` and prompt again give the same run, which goes on here if its process is gone")
	flags.StringVar(&f.onUnknown, "on-unknown", "ask", setup.UnknownUsage)
	return cmd
}

// check refuses what is wrong before anything is started.
func (f *runFlags) check() error {
	if err := f.Flags.Check(); err != nil {
		return err
	}
	switch {
	case f.output != "text" && f.output != "json" && f.output != "stream-json":
		return env.Usagef("--output-format %q: want text, json or stream-json", f.output)
	case f.runID != "":
		if err := store.CheckID("--run-id", f.runID); err != nil {
			return env.Usagef("%w", err)
		}
	}
	_, err := setup.UnknownPolicy(f.onUnknown)
	return err
}

func runOnce(ctx context.Context, e *env.Env, f *runFlags, args []string) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	prompt, err := e.ReadPrompt(args)
	if err != nil {
		return err
	}
	if err := f.recallOwn(ctx, e); err != nil {
		return err
	}
	settings, err := e.Config()
	if err != nil {
		return err
	}
	def, err := settings.AgentNamed(f.Agent)
	if err != nil {
		return err
	}
	// The wait for servers counts too.
	ctx, cancel := context.WithTimeoutCause(ctx, f.Wall(def.Limits.Or(settings.Limits)), env.ErrTimeout)
	defer cancel()
	f.HeldOutside, f.Remember = true, true
	if !e.CanAsk() {
		f.AskExpiry = waitExpiry
	}
	o, err := setup.Open(ctx, e, &f.Flags)
	if err != nil {
		return err
	}
	defer o.Close(&err)
	defer openSocket(e, o)()
	return follow(ctx, e, o, prompt, f)
}

// recallOwn fills in what the run of --run-id was started with, if it is there and has not ended.
func (f *runFlags) recallOwn(ctx context.Context, e *env.Env) error {
	if f.runID == "" || e.NoStore {
		return nil
	}
	return e.WithStore(func(s store.Store) error {
		head, err := s.Run(ctx, f.runID)
		if errors.Is(err, store.ErrNotFound) || err == nil && head.State.Ended() {
			return nil
		} else if err != nil {
			return err
		}
		return f.Recall(ctx, e, s, &head)
	})
}

// openSocket has the console and troupe tree see what runs here; the console cancels and parks it.
func openSocket(e *env.Env, o *setup.Opened) (close func()) {
	if e.NoStore { // others know of no run
		return func() {}
	}
	return setup.OpenAdmin(e, o, setup.AdminOptions(o, "run", o.Runtime.Wake, nil, nil))
}

// follow starts the run and shows it until it has ended.
func follow(ctx context.Context, e *env.Env, o *setup.Opened, prompt string, f *runFlags) error {
	run, err := o.Main.Start(ctx, prompt, &agent.RunOptions{ID: f.runID, OnUnknown: agent.UnknownPolicy(f.onUnknown)})
	if err != nil {
		return startError(err)
	}
	return show(ctx, e, o, run, f)
}

// show shows a run until it has ended.
func show(ctx context.Context, e *env.Env, o *setup.Opened, run *agent.Run, f *runFlags) error {
	stop := context.AfterFunc(ctx, func() { run.Cancel(context.Cause(ctx)) })
	defer stop()

	view := newView(e, f.output)
	defer view.close()
	view.local, view.tools, view.asks = localFilesOf(o.Servers), o.Allowed, o.Store
	waiting, err := view.watch(ctx, run)
	if err != nil {
		run.Cancel(err)
	}
	view.clear()
	// The run has ended, or ends within its grace.
	res, runErr := run.Wait(context.WithoutCancel(ctx))
	if err := printAnswer(e, f.output, run.ID(), res, runErr, waiting, view.speak); err != nil {
		return err
	}
	bill(e, res, o.Main.Priced())
	if waiting != nil {
		return env.ExitWith(env.ExitWaiting, errors.New(nextStep(e, run.ID(), f.runID != "", waiting)))
	}
	if left := leftError(e, run.ID(), runErr); left != nil {
		return left
	}
	if errors.Is(runErr, agent.ErrSuspended) {
		return env.ExitWith(env.ExitWaiting, fmt.Errorf("run %s waits for a human, and no process works on it: answer what it asks "+
			"(see troupe inbox), then: %s", run.ID(), e.Command("runs", "resume", run.ID())))
	}
	if err := cmp.Or(runErr, err); err != nil {
		return runError(err)
	}
	return incomplete(res)
}

// incomplete is the error of an answer that does not pass for a whole one.
func incomplete(res *agent.Result) error {
	if res.Incomplete == "" {
		return nil
	}
	return env.ExitWith(env.ExitIncomplete, errors.New(res.Incomplete.Why()))
}

// leftError is the error of a run whose model cannot be asked at the moment, with what to do about it; nil for any other.
func leftError(e *env.Env, run string, err error) error {
	var away *agent.OutageError
	if !errors.As(err, &away) {
		return nil
	}
	if e.NoStore {
		return runError(fmt.Errorf("run %q: asking the model: %w", run, away.Err))
	}
	return runError(fmt.Errorf("%w\n  It is the provider's state (%s). To go on with the run where it is, once the model can be asked again: %s",
		err, away.Class, e.Command("runs", "resume", run)))
}

func startError(err error) error {
	if errors.Is(err, agent.ErrRunExists) {
		return env.Usagef("--run-id: %w", err)
	}
	return err
}

// tooLong is what to do about a conversation that is too long, although all was left out of it that can be.
const tooLong = "The instructions, the tools, the first prompt and the newest turn do not fit the model's window. Take a model with a longer one (--model), " +
	"or give it less: a shorter prompt, fewer tools (--tool, --no-tool). The window of Ollama is models.providers.ollama.context in troupe.yaml."

// runError gives the error of a run the exit code for its kind.
func runError(err error) error {
	if err == nil {
		return nil
	}
	code := env.ExitFailed
	var (
		limit  *agent.LimitError
		signal *env.SignalError
		past   *agent.RunError
		away   *agent.OutageError
	)
	if errors.As(err, &away) { // it counts, and not that the run waits
		return env.ExitWith(env.ExitUnreachable, err)
	}
	switch {
	case errors.As(err, &signal):
		code = signal.Code()
	case errors.Is(err, env.ErrTimeout):
		code = env.ExitTimeout
	case errors.Is(err, agent.ErrSuspended):
		code = env.ExitWaiting
	case errors.As(err, &limit), errors.As(err, &past) && past.State == store.Limited:
		code = env.ExitLimit
	case errors.Is(err, llm.ErrContextLength):
		err = fmt.Errorf("%w\n  %s", err, tooLong)
	case env.Unreachable(err):
		code = env.ExitUnreachable
	}
	return env.ExitWith(code, err)
}
