package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
)

// retryFlags say which jobs are queued again, and how.
type retryFlags struct {
	batch, agent, error string
	states              []string
	since               time.Duration
	fromStart, yes, dry bool
}

// Bounds of one retry.
const (
	maxRetried = 10_000
	maxShown   = 20  // of them, those that are named before it is done
	maxLooked  = 200 // of them, those whose journals are read for what is repeated
)

func retryCommand(e *env.Env) *cobra.Command {
	var f retryFlags
	cmd := &cobra.Command{
		Use:   "retry [JOB...]",
		Short: "Queue jobs again that have failed, were cancelled or whose outcome is unknown",
		Long: `Queue jobs again that have failed, were cancelled or limited, or whose outcome is unknown. One that waits has a run
that has not ended: it is looked at again at once, whatever it waits for.

A job goes on behind the last result that its run has recorded, with the same idempotency keys and with what it has spent by
then: the model is not asked again for what it has answered, and calls that have a result are not made again.
With --from-start it begins anew, with new keys and nothing spent: it repeats what it has done. The calls that may have changed
something are shown before, and need a yes on the terminal, or --yes.

JOB is an id, an unambiguous beginning of one, or -1 for the newest. In place of jobs, flags select them: all that they say
has to be so. Without --state these are jobs that have failed, with --batch alone all of the batch that it can be done to.`,
		Example: `  troupe jobs retry -1
  troupe jobs retry --state failed --since 1h --dry-run
  troupe jobs retry --state failed --state unknown --error "status 503"
  troupe jobs retry -1 --from-start`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 == !f.selects() {
				return env.Usagef("%s needs jobs, or one of --state, --since, --error, --agent, --batch, and not both\nSee %[1]s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: storedJobs(e, func(cmd *cobra.Command, args []string, s store.Store) error {
			if f.since < 0 {
				return env.Usagef("--since %v: want a time such as 1h", f.since)
			}
			return f.retry(cmd.Context(), e, s, args)
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.states, "state", nil, "jobs in this `STATE`: failed, cancelled, limited, unknown, waiting (repeat)")
	flags.DurationVar(&f.since, "since", 0, "jobs that came into their state within this `TIME`")
	flags.StringVar(&f.error, "error", "", "jobs whose error contains this `TEXT`, in upper or lower case")
	flags.StringVar(&f.agent, "agent", "", "jobs of this `AGENT`")
	flags.StringVar(&f.batch, "batch", "", "jobs of this `BATCH`")
	flags.BoolVar(&f.fromStart, "from-start", false, "begin anew, with new keys: what was done is repeated")
	flags.BoolVar(&f.yes, "yes", false, "with --from-start: repeat the calls without being asked")
	flags.BoolVar(&f.dry, "dry-run", false, "say what would be done, and change nothing")
	return cmd
}

// selects reports whether flags say which jobs.
func (f *retryFlags) selects() bool {
	return f.batch != "" || f.agent != "" || f.error != "" || len(f.states) > 0 || f.since != 0
}

// retry queues the jobs again.
func (f *retryFlags) retry(ctx context.Context, e *env.Env, s store.Store, names []string) error {
	jobs, err := f.jobs(ctx, s, names)
	if err != nil {
		return err
	}
	if len(jobs) == 0 && f.batch != "" && len(f.states) == 0 && f.agent == "" && f.error == "" && f.since == 0 {
		return env.Usagef("there are no jobs of the batch %q that can be queued again; troupe jobs ls lists them", f.batch)
	}
	if len(jobs) == 0 {
		e.Note("no job is so; troupe jobs ls lists them")
		return nil
	}
	if f.selects() || f.dry {
		f.show(e, jobs)
	}
	if f.fromStart {
		if err := f.permit(ctx, e, s, jobs); err != nil {
			return err
		}
	}
	if f.dry {
		e.Note("nothing was changed, as --dry-run says")
		return nil
	}
	ids := make([]string, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].ID
	}
	return each(ctx, e, s, ids, f.selects(), func(ctx context.Context, s store.Jobs, id string) (string, error) {
		j, err := s.RetryJob(ctx, id, f.fromStart)
		if errors.Is(err, store.ErrInvalid) {
			if j.State == store.JobWaiting && f.fromStart && j.Owner == "" {
				return "", fmt.Errorf("%w: the job waits, and its run has not ended: cancel it first", errNotDone)
			}
			return "", fmt.Errorf("%w: the job is %s", errNotDone, cmp.Or(string(j.State), "not there"))
		}
		if err == nil && j.State == store.JobWaiting {
			return "looked at again now: it waits, and its run has not ended", nil
		}
		return "queued", err
	})
}

// jobs returns those that are named, or that the flags select: the newest first, those that it can
// be done to.
func (f *retryFlags) jobs(ctx context.Context, s store.Jobs, names []string) ([]store.Job, error) {
	var found []store.Job
	for _, name := range names {
		j, err := findJob(ctx, s, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(o store.Job) bool { return o.ID == j.ID }) {
			found = append(found, j)
		}
	}
	if len(names) > 0 {
		return found, nil
	}
	q := store.JobQuery{Agent: f.agent, Batch: f.batch}
	for _, state := range f.states {
		q.States = append(q.States, store.JobState(state))
	}
	if len(f.states) == 0 && (f.agent != "" || f.error != "" || f.since != 0) {
		q.States = []store.JobState{store.JobFailed}
	}
	if err := q.Check(); err != nil {
		return nil, env.Usagef("%s", strings.TrimPrefix(err.Error(), "store: "))
	}
	now := time.Now()
	all, err := allJobs(ctx, s, q, maxJobs)
	for i := range all {
		j := all[i] // Retry changes it
		if f.since > 0 && j.Updated.Before(now.Add(-f.since)) || !strings.Contains(strings.ToLower(j.Error), strings.ToLower(f.error)) || j.Retry(now, f.fromStart) != nil {
			continue
		}
		if found = append(found, all[i]); len(found) > maxRetried {
			return nil, env.Usagef("more than %d jobs are so: select fewer, with --since, --agent or --error", maxRetried)
		}
	}
	return found, err
}

// show names the jobs that are to be queued again.
func (f *retryFlags) show(e *env.Env, jobs []store.Job) {
	now := time.Now()
	how := "go on behind their last recorded result, with the same keys and what they have spent"
	if f.fromStart {
		how = "begin anew, with new keys"
	}
	e.Note("%s to %s:", env.Count(len(jobs), "job"), how)
	for i := range jobs {
		if i == maxShown {
			e.Note("  and %d more", len(jobs)-i)
			return
		}
		j := &jobs[i]
		e.Note("  %s  %s since %s  %s  %s", env.Plain(j.ID), jobState(*j, now), env.When(j.Updated, now), env.Plain(j.Agent), env.OrNone(env.Shorten(env.Plain(j.Error), 80)))
	}
}

// permit says what jobs repeat that begin anew, and asks a person for it.
func (f *retryFlags) permit(ctx context.Context, e *env.Env, s store.Store, jobs []store.Job) error {
	var calls []jobapi.Effect
	unread := 0
	for i := range jobs {
		if i == maxLooked {
			break
		}
		effects, err := jobapi.EffectsOf(ctx, s, &jobs[i])
		if err != nil {
			return err
		}
		calls, unread = append(calls, effects.Calls...), unread+effects.Unread
	}
	left := max(0, len(jobs)-maxLooked)
	if len(calls) == 0 && unread == 0 && left == 0 {
		e.Note("they have made no call that may have changed something")
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "From the start these calls, which may have changed something, may be made again, with new keys:\n")
	for _, n := range jobapi.CountEffects(calls) {
		fmt.Fprintf(&text, "  %s\n", env.Plain(n.String()))
	}
	if unread > 0 {
		fmt.Fprintf(&text, "  %s not looked at\n", env.Count(unread, "run"))
	}
	if left > 0 {
		fmt.Fprintf(&text, "  %s not looked at\n", env.Count(left, "job"))
	}
	if f.yes || f.dry {
		e.Note("%s", strings.TrimSuffix(text.String(), "\n"))
		return nil
	}
	prompter := e.NewPrompter(nil)
	if prompter == nil {
		return env.Usagef("%sThere is no terminal to ask on: permit it with --yes, or leave --from-start out", text.String())
	}
	line, err := prompter.Ask(ctx, "\n"+text.String(), "make them again? [y]es or [n]o: ")
	if err != nil {
		return err
	}
	if line = strings.ToLower(strings.TrimSpace(line)); line != "y" && line != "yes" {
		return env.ExitWith(env.ExitDenied, errors.New("nothing was changed: the calls may not be made again"))
	}
	return nil
}
