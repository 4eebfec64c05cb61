package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/linediff"
	"github.com/troupe-dev/troupe/internal/replay"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

func exportCommand(e *env.Env) *cobra.Command {
	var (
		file  string
		plain bool
		names []string
	)
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run to a file, with the runs of its sub-agents",
		Long: `Write a run to a file, or to stdout, with the runs of its sub-agents: JSON, one value a line.

What looks like a secret is replaced by "[redacted]": known forms of keys and tokens, what follows "password=" and the like, and texts of
JSON members whose names tell of a secret, or that --redact names. That is a guess: read the file before you publish it.`,
		Example: "  troupe runs export last -o run.jsonl\n  troupe runs export 0197c1 --redact customer --redact email",
		Args:    env.OneArg("a run"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			all, err := load(cmd.Context(), s, args[0])
			if err == nil && !plain {
				all, err = runfile.Redact(all, names...)
			}
			if err != nil {
				return err
			}
			if file == "" {
				return runfile.Write(e.Stdout, all)
			}
			out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, os.ErrExist) {
				return env.Usagef("%s exists: choose another --output", file)
			}
			if err != nil {
				return err
			}
			return errors.Join(runfile.Write(out, all), out.Close())
		}),
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this new `FILE`, readable by you only (default: stdout)")
	cmd.Flags().StringArrayVar(&names, "redact", nil, "replace the texts of members of this `NAME` too; may be repeated")
	cmd.Flags().BoolVar(&plain, "plain", false, "replace nothing")
	return cmd
}

func load(ctx context.Context, s store.Store, name string) ([]runfile.Recording, error) {
	r, err := FindRun(ctx, s, name)
	if err != nil {
		return nil, err
	}
	return runfile.Load(ctx, s, r.ID)
}

func importCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Add the runs of a file to the store",
		Long: `Add the runs of a file that "troupe runs export" has written to the store, under the same ids; "-" is stdin. A run that had not ended can
be resumed here, if its agent and its servers are here.

A file can say anything, so what was decided in it does not count here, and what that is is printed: approvals, answers, raised limits, the limits
and the settings of the run. It goes on with its conversation, and with your limits. A call that it waits to be allowed is asked about in
the inbox.`,
		Example: "  troupe runs import run.jsonl",
		Args:    env.OneArg("a file"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			all, err := read(e, args[0])
			if err != nil {
				return err
			}
			if err := runfile.Import(cmd.Context(), s, all, "import-"+uuid.NewString()); errors.Is(err, store.ErrExists) {
				return env.Usagef("%w", err)
			} else if err != nil {
				return err
			}
			for i := range all {
				fmt.Fprintf(e.Stdout, "imported %s\n", env.Plain(all[i].Run.ID))
				dropped, err := all[i].Dropped()
				if err != nil {
					return err
				}
				if len(dropped) > 0 {
					fmt.Fprintf(e.Stdout, "  does not count here: %s\n", strings.Join(dropped, ", "))
				}
			}
			return nil
		}),
	}
}

func read(e *env.Env, file string) ([]runfile.Recording, error) {
	var in io.Reader = e.Stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, env.Usagef("%w", err)
		}
		defer opened.Close()
		in = opened
	}
	all, err := runfile.Read(in)
	if err != nil {
		return nil, env.Usagef("%s: %w", file, err)
	}
	return all, nil
}

func diffCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff RUN RUN",
		Short: "Compare two runs step by step",
		Long: `Compare two runs step by step: what the model said and called, results, questions, and how they ended; not times, costs and ids.
A RUN that ends in .jsonl is a file of "troupe runs export". The exit code is 1 if they differ.`,
		Example: "  troupe runs diff -- -2 -1\n  troupe runs diff good.jsonl last",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return env.Usagef("want two runs, got %d", len(args))
			}
			return nil
		},
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			var sides [2][]string
			for i, name := range args {
				all, err := either(cmd.Context(), e, s, name)
				if err != nil {
					return err
				}
				entries, err := all[0].Entries()
				if err != nil {
					return err
				}
				sides[i] = runfile.Steps(entries)
			}
			return printDiff(e, linediff.Lines(sides[0], sides[1]), asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one line of the comparison an entry")
	return cmd
}

func replayCommand(e *env.Env) *cobra.Command {
	var asJSON, onlyDiff bool
	var live string
	cmd := &cobra.Command{
		Use:   "replay RUN",
		Short: "Do a run again as it is recorded, and compare",
		Long: `Do a run again in this process: the model, the tools and the person say what the journal has, and nothing is called. What is printed is the
comparison with the recording; the exit code is 1 if they differ. It tells whether this version of the program does the same as the one that
recorded the run. Programs replay runs with their own agents in tests: see package agent/agenttest.

With --live-model another model is asked instead of the recorded one. Its calls have the results that the run has of the same calls; one that the
run did not make is refused, which the model reads, and is a difference. Of tools it knows the names, and arguments that were used. Nothing is called.

A RUN that ends in .jsonl is a file of "troupe runs export".`,
		Example: "  troupe runs replay last\n  troupe runs replay run.jsonl\n  troupe runs replay last --live-model ollama/qwen3:8b --diff",
		Args:    env.OneArg("a run"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			all, err := either(cmd.Context(), e, s, args[0])
			if err != nil {
				return err
			}
			var o replay.Options
			if live != "" {
				if o.Model, err = setup.ChooseModel(cmd.Context(), e, live); err != nil {
					return err
				}
			}
			rec, err := replay.New(&all[0])
			var want, got []string
			if err == nil {
				want, got, err = rec.Run(cmd.Context(), memstore.New(nil), &o)
			}
			if never, ok := errors.AsType[*replay.Unreplayable](err); ok {
				return env.Usagef("%s: %w", args[0], never)
			}
			if err != nil {
				return err
			}
			lines := linediff.Lines(want, got)
			if onlyDiff {
				lines = slices.DeleteFunc(lines, func(l linediff.Line) bool { return l.Mark == ' ' })
			}
			return printDiff(e, lines, asJSON)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one line of the comparison an entry")
	cmd.Flags().StringVar(&live, "live-model", "", "ask this `MODEL`, such as ollama/qwen3:8b, in place of the recorded one")
	cmd.Flags().BoolVar(&onlyDiff, "diff", false, "print the lines that differ only")
	return cmd
}

// either reads a run from a file or from the store.
func either(ctx context.Context, e *env.Env, s store.Store, name string) ([]runfile.Recording, error) {
	if strings.HasSuffix(name, ".jsonl") {
		return read(e, name)
	}
	return load(ctx, s, name)
}

// diffLine is a line of "runs diff --json".
type diffLine struct {
	Mark string `json:"mark"` // "-" is only in the first run, "+" only in the second
	Text string `json:"text"`
}

// printDiff prints a comparison, and reports a difference by the exit code.
func printDiff(e *env.Env, lines []linediff.Line, asJSON bool) error {
	differs := false
	out := make([]diffLine, len(lines))
	for i, l := range lines {
		differs = differs || l.Mark != ' '
		out[i] = diffLine{string(l.Mark), l.Text}
		if !asJSON {
			fmt.Fprintf(e.Stdout, "%c %s\n", l.Mark, env.Plain(env.Shorten(l.Text, 400)))
		}
	}
	if asJSON {
		if err := e.PrintJSON(out); err != nil {
			return err
		}
	}
	if differs {
		return env.ExitWith(env.ExitFailed, errors.New("the runs differ"))
	}
	return nil
}
