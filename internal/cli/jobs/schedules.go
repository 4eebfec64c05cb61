package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// scheduleView is a schedule as "jobs schedules --json" prints it.
type scheduleView struct {
	Name     string    `json:"name"`
	Cron     string    `json:"cron"`
	Timezone string    `json:"timezone"`
	Agent    string    `json:"agent"`
	Prompt   string    `json:"prompt"`
	Next     time.Time `json:"next,omitzero"`
	Last     time.Time `json:"last,omitzero"`
	LastJob  string    `json:"lastJob,omitempty"`
}

func schedulesCommand(e *env.Env) *cobra.Command {
	var (
		asJSON bool
		remove string
	)
	cmd := &cobra.Command{
		Use:   "schedules",
		Short: "List what adds jobs again and again",
		Long: `List what adds jobs again and again: the section worker.schedules of the configuration of the workers. A worker without
that section leaves the schedules of the store as they are: what none has any more is removed with --rm.`,
		Example: "  troupe jobs schedules\n  troupe jobs schedules --json\n  troupe jobs schedules --rm morning",
		Args:    env.NoArgs,
		RunE: storedJobs(e, func(cmd *cobra.Command, _ []string, s store.Store) error {
			if cmd.Flags().Changed("rm") {
				return removeSchedule(cmd.Context(), e, s, remove)
			}
			all, err := s.Schedules(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				views := make([]scheduleView, len(all))
				for i, e := range all {
					views[i] = scheduleView{e.Name, e.Cron, zoneOf(e), e.Agent, e.Prompt, e.Next, e.Last, e.LastJob}
				}
				return e.PrintJSON(views)
			}
			return env.PrintList(e, false, all, "SCHEDULE|CRON|TIMEZONE|AGENT|NEXT|LAST JOB|PROMPT", func(s store.Schedule) []string {
				next := "never"
				if !s.Next.IsZero() {
					next = env.When(s.Next, time.Now())
				}
				return []string{s.Name, s.Cron, zoneOf(s), s.Agent, next, env.OrNone(s.LastJob), env.Shorten(s.Prompt, 40)}
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&remove, "rm", "", "remove the schedule `NAME`; its jobs stay")
	return cmd
}

func removeSchedule(ctx context.Context, e *env.Env, s store.Jobs, name string) error {
	err := s.DeleteSchedule(ctx, name)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) {
		return env.Usagef("there is no schedule %q; troupe jobs schedules lists them", name)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Stdout, "removed", env.Plain(name))
	return err
}

func zoneOf(s store.Schedule) string {
	return cmp.Or(s.Zone, "UTC")
}
