// Package doctor has the command "troupe doctor", which checks configuration, store, models
// and servers.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	var (
		f      setup.ServerFlags
		asJSON bool
		each   time.Duration
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything that runs need, and say how to mend what is wrong",
		Long: `Look at the configuration, the models, the MCP servers with the era and revision they speak, the logins at them, the store, the
disk, the clock and the folders, and at what waits for a provider of models that is away, all at the same time, and say of each failure exactly how to mend it.

Servers are started if they may be: one that waits for your approval is shown with the command that gives it. The exit
code is 2 if something is wrong on this computer, 6 if a model or a server cannot be reached, else 0.`,
		Example: "  troupe doctor\n  troupe doctor --json | jq '.checks[] | select(.status != \"ok\")'",
		Args:    env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if each <= 0 {
				return env.Usagef("--timeout %v: want a time such as 10s", each)
			}
			d := &doctor{env: e, f: &f, each: each}
			checks := d.run(cmd.Context())
			if err := context.Cause(cmd.Context()); err != nil {
				return err
			}
			if err := printChecks(e, checks, asJSON); err != nil {
				return err
			}
			return verdict(checks)
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: ok, and checks with area, name, status, text, fix and detail")
	cmd.Flags().DurationVar(&each, "timeout", 15*time.Second, "give each check this `TIME`")
	return cmd
}

// run makes all checks at once, and returns them in the order of the areas.
func (d *doctor) run(ctx context.Context) []check {
	first := checkConfig(ctx, d)
	if first[0].Status == checkFailed { // all others need it
		return first
	}
	_, _ = d.env.Config() // once, for all of them: what is wrong with it was said
	areas := []checkArea{checkState, checkStore, checkDisk, checkClock, checkModels, checkServers, checkLogins, checkOutages}
	results := make([][]check, len(areas))
	var all sync.WaitGroup
	for i, area := range areas {
		all.Go(func() {
			ctx, cancel := context.WithTimeoutCause(ctx, d.each+time.Second, env.ErrTimeout)
			defer cancel()
			results[i] = area(ctx, d)
		})
	}
	all.Wait()
	return slices.Concat(first, slices.Concat(results...))
}

// verdict is the error of the command.
func verdict(checks []check) error {
	failed, code := 0, env.ExitOK
	for i := range checks {
		c := &checks[i]
		if c.Status != checkFailed {
			continue
		}
		failed++
		if code == env.ExitOK || c.code == env.ExitUsage {
			code = c.code
		}
	}
	switch failed {
	case 0:
		return nil
	case 1:
		return env.ExitWith(code, errors.New("one check failed"))
	}
	return env.ExitWith(code, fmt.Errorf("%d checks failed", failed))
}

func printChecks(e *env.Env, checks []check, asJSON bool) error {
	if asJSON {
		ok := !slices.ContainsFunc(checks, func(c check) bool { return c.Status == checkFailed })
		return e.PrintJSON(map[string]any{"ok": ok, "checks": checks})
	}
	var b strings.Builder
	marks := map[string]string{checkOK: "ok", checkWarning: "note", checkFailed: "FAIL"}
	for i := range checks {
		c := &checks[i]
		what := strings.TrimSpace(c.Area + " " + env.Plain(c.Name))
		lines := strings.Split(env.PlainLines(c.Text), "\n")
		fmt.Fprintf(&b, "%-4s  %s: %s\n", marks[c.Status], what, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&b, "        %s\n", line)
		}
		if c.Fix == "" {
			continue
		}
		for n, line := range strings.Split(env.PlainLines(c.Fix), "\n") {
			lead := "      to mend it: "
			if n > 0 {
				lead = "                  "
			}
			fmt.Fprintf(&b, "%s%s\n", lead, line)
		}
	}
	_, err := io.WriteString(e.Stdout, b.String())
	return err
}
