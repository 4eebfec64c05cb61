package bench

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/bench"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

func compareCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	var failOver float64
	cmd := &cobra.Command{
		Use:   "compare BEFORE.json AFTER.json",
		Short: "Say what differs between two measurements, and whether that is chance",
		Long: `Compare two files of troupe bench --json. A difference is significant if chance alone makes one as large less than once in a
hundred times, by a rank test over pieces of the runs. With --fail-over it exits with 1 if something has become worse by more
than so many percent, and significantly so.`,
		Example: "  troupe bench compare before.json after.json\n  troupe bench compare before.json after.json --fail-over 10",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return env.Usagef("%s needs two files, got %d arguments\nSee %[1]s --help", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			before, err := readBench(args[0])
			if err != nil {
				return err
			}
			after, err := readBench(args[1])
			if err != nil {
				return err
			}
			all, err := bench.Compare(before, after)
			if err != nil {
				return env.Usagef("comparing: %w", err)
			}
			if err := printDifferences(e, all, asJSON); err != nil {
				return err
			}
			if worse := bench.Regressed(all, failOver); cmd.Flags().Changed("fail-over") && len(worse) > 0 {
				d := worse[0]
				return env.ExitWith(env.ExitFailed, fmt.Errorf("%d figures are worse by more than %g %%: %s of %s by %.1f %%", len(worse), failOver, d.Metric, d.Run, d.Change))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().Float64Var(&failOver, "fail-over", 0, "exit with 1 if something is worse by more than `PERCENT`")
	return cmd
}

// maxBenchFile bounds what is read of a file.
const maxBenchFile = 64 << 20

func readBench(path string) (*bench.File, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxBenchFile {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxBenchFile>>20)
	}
	if err != nil {
		return nil, env.Usagef("%w", err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, env.Usagef("%w", err)
	}
	var f bench.File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, env.Usagef("%s: %w", path, err)
	}
	if f.Schema != bench.FileSchema {
		return nil, env.Usagef("%s: its schema is %q, want %q: is it of troupe bench --json?", path, f.Schema, bench.FileSchema)
	}
	return &f, nil
}

func printDifferences(e *env.Env, all []bench.Difference, asJSON bool) error {
	if asJSON {
		return e.PrintJSON(all)
	}
	rows := [][]string{{"SERVER", "FIGURE", "BEFORE", "AFTER", "CHANGE", ""}}
	for _, d := range all {
		said := ""
		switch {
		case d.Significant && d.Change > 0:
			said = "worse"
		case d.Significant:
			said = "better"
		}
		change := "–"
		if d.Before != 0 {
			change = fmt.Sprintf("%+.1f%%", 100*(d.After-d.Before)/d.Before)
		}
		rows = append(rows, []string{d.Run, d.Metric, figure(d.Before), figure(d.After), change, said})
	}
	return e.Table(rows)
}
