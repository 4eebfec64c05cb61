package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/store"
)

// forkFlags are the flags of "troupe runs fork".
type forkFlags struct {
	runFlags
	at     int64
	prompt string
	say    string
	edits  []string
}

// ForkCommand is "troupe runs fork".
func ForkCommand(e *env.Env) *cobra.Command {
	var f forkFlags
	cmd := &cobra.Command{
		Use:   "fork RUN",
		Short: "Start a run that goes on from a step of another one",
		Long: `Start a run that takes over the events of another one up to a number that "troupe runs show" prints, and goes on from there: with
another model (-m), another prompt, another result of a call, or one more message. The other run stays as it is.

Calls that were sent by then are not made again: the fork has their results. A KEY of --edit is that of a call, as
"troupe runs show RUN --json" has it. The servers, the model and the agent are those that the run was started with, and its
limits, where no flag changes them; what it has spent by then counts.

RUN is its id, an unambiguous beginning of it, or -1 for the newest ("last" too), -2 for the one before it.`,
		Example: `  troupe runs fork last --at 12 -m ollama/qwen3:8b
  troupe runs fork last --say "Now write a summary."
  troupe runs fork 0197c1 --at 9 --edit 6f1c-1-0=result.txt`,
		Args: env.OneArg("a run"),
		RunE: func(cmd *cobra.Command, args []string) error { return fork(cmd.Context(), e, &f, args[0]) },
	}
	f.Flags.Add(cmd)
	flags := cmd.Flags()
	flags.Int64Var(&f.at, "at", 0, "the `NUMBER` of the last event to take over (default: all)")
	flags.StringVar(&f.prompt, "prompt", "", "replace the `TEXT` of the prompt")
	flags.StringVar(&f.say, "say", "", "go on with this `TEXT` to the model")
	flags.StringArrayVar(&f.edits, "edit", nil, "`KEY=FILE`: the model reads the file, or stdin for -, as the result of that call; may be repeated")
	flags.StringVar(&f.output, "output-format", "text", "`FORMAT` of stdout: text, json (one object), stream-json (one event a line)")
	flags.StringVar(&f.runID, "run-id", "", "name the fork by this `ID`")
	return cmd
}

// maxEdit bounds a result that is read from a file.
const maxEdit = 4 << 20

// options reads what is to be changed.
func (f *forkFlags) options(e *env.Env) (*agent.ForkOptions, error) {
	limits, err := f.Stated()
	o := &agent.ForkOptions{ID: f.runID, Prompt: f.prompt, Say: f.say, Limits: limits, Results: make(map[string]string)}
	for _, edit := range f.edits {
		key, file, ok := strings.Cut(edit, "=")
		if !ok || key == "" || file == "" {
			return nil, env.Usagef("--edit %q: want KEY=FILE", edit)
		}
		var in io.Reader = e.Stdin
		if file != "-" {
			opened, err := os.Open(file)
			if err != nil {
				return nil, env.Usagef("--edit %s: %w", key, err)
			}
			defer opened.Close()
			in = opened
		}
		text, err := io.ReadAll(io.LimitReader(in, maxEdit+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("--edit %s: %w", key, err)
		case len(text) > maxEdit:
			return nil, env.Usagef("--edit %s: %s has more than %d bytes", key, file, maxEdit)
		}
		o.Results[key] = string(text)
	}
	return o, err
}

func fork(ctx context.Context, e *env.Env, f *forkFlags, name string) error {
	opts, err := f.options(e)
	if err != nil {
		return err
	}
	return goOn(ctx, e, &f.runFlags, name, func(store.Run) error { return nil }, func(o *setup.Opened, head store.Run) (*agent.Run, error) {
		run, err := o.Runtime.Fork(ctx, head.ID, f.at, opts)
		if errors.Is(err, store.ErrExists) {
			return nil, env.Usagef("there is a run %s already: choose another --run-id", f.runID)
		}
		if refused, ok := errors.AsType[*agent.NotResumableError](err); ok {
			return nil, env.Usagef("%w", refused)
		}
		if err == nil {
			e.Note("run %s, a fork of %s", run.ID(), head.ID)
		}
		return run, err
	})
}
