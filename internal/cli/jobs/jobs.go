// Package jobs has the commands "troupe jobs", which hand jobs to workers and list them.
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "jobs",
		Short: "Hand jobs to the workers",
		Long: `Hand jobs to the workers that share the store, and see what becomes of them.

JOB is its id, an unambiguous beginning of it, or -1 for the newest, -2 for the one before it.`,
	}, addCommand(e), lsCommand(e), showCommand(e), schedulesCommand(e),
		eachCommand(e, "cancel", "Cancel jobs: queued ones at once, others by the worker that has them", cancelJob),
		retryCommand(e),
		eachCommand(e, "rm", "Forget jobs; their runs stay", removeJob))
}

// jobFlags are the flags of "jobs add".
type jobFlags struct {
	jobapi.Request
	input     string
	notBefore string
	expires   string
	wait      bool
	patience  time.Duration
	json      bool
}

func addCommand(e *env.Env) *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "add [PROMPT | -]",
		Short: "Queue a job",
		Long: `Queue a job for a worker. The prompt is the argument, and what is piped to stdin is added to it.
A job with a key that is there already is not queued again, so that this can be repeated.
With --wait the answer goes to stdout, and the exit code is that of a run.`,
		Example: `  troupe jobs add "Summarise README.md"
  troupe jobs add --agent reader --key readme-1 --wait "Summarise README.md"
  troupe jobs add --not-before 10m --timeout 5m "Look at the logs."`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return env.Usagef("the prompt is one argument, got %d: put it in quotes", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return addJob(cmd.Context(), e, &f, args) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.Agent, "agent", "a", jobapi.MainAgent, "`NAME` of the agent, as the worker has it")
	flags.StringVar(&f.input, "input", "", "structured input, a `JSON` value")
	flags.StringVar(&f.Key, "key", "", "idempotency `KEY`: the same one again gives the same job")
	flags.StringVar(&f.ID, "id", "", "name the job (default: one is made up)")
	flags.StringVar(&f.Batch, "batch", "", "`NAME` for jobs that belong together")
	flags.IntVar(&f.MaxAttempts, "max-attempts", 0, "give up after so many failures (default: the worker's)")
	flags.StringVar(&f.notBefore, "not-before", "", "begin at this `TIME`: 10m from now, or 2026-01-31T08:00:00Z")
	flags.StringVar(&f.expires, "expires", "", "do not begin after this `TIME`")
	flags.StringVar(&f.Timeout, "timeout", "", "end an attempt after this `DURATION`, without waits for a human (default: the agent's limit)")
	flags.StringVar(&f.Hook, "hook", "", "tell this `URL` of its end; the worker signs with its hook_secret")
	flags.BoolVar(&f.wait, "wait", false, "wait until it has ended")
	flags.DurationVar(&f.patience, "wait-timeout", 0, "wait no longer than this; the job goes on (default: for ever)")
	flags.BoolVar(&f.json, "json", false, "print the job as JSON")
	return cmd
}

// timeOf reads a time, or a duration from now.
func timeOf(flag, text string, now time.Time) (time.Time, error) {
	t, err := jobapi.TimeOf(text, now)
	if err != nil {
		return t, env.Usagef("--%s %w", flag, err)
	}
	return t, nil
}

func addJob(ctx context.Context, e *env.Env, f *jobFlags, args []string) (err error) {
	if f.NotBefore, err = timeOf("not-before", f.notBefore, time.Now()); err != nil {
		return err
	}
	if f.Expires, err = timeOf("expires", f.expires, time.Now()); err != nil {
		return err
	}
	if f.input != "" {
		if !jsonx.Valid([]byte(f.input)) {
			return env.Usagef("--input: it is not valid JSON")
		}
		f.Input = json.RawMessage(f.input)
	}
	if f.input == "" || len(args) > 0 {
		if f.Prompt, err = e.ReadPrompt(args); err != nil {
			return err
		}
	}
	guard, err := HookGuard(e)
	if err != nil {
		return err
	}
	j, err := f.Request.Job(guard)
	if err != nil {
		return env.Usagef("%w", err)
	}
	if err := needsStore(e); err != nil {
		return err
	}
	return e.WithStore(func(s store.Store) error { return enqueue(ctx, e, s, j, f) })
}

// enqueue adds a job to the queue, and prints it, or its end with --wait.
func enqueue(ctx context.Context, e *env.Env, s store.Store, j store.Job, f *jobFlags) error {
	j, err := s.AddJob(ctx, j)
	switch {
	case errors.Is(err, store.ErrRepeated):
		e.Note("the job %s is there already", j.ID)
	case errors.Is(err, store.ErrExists):
		return env.Usagef("a job of that key or id is there already, and it is another one: %s", j.ID)
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrTooLarge):
		return env.Usagef("%w", err)
	case err != nil:
		return err
	case e.WakeAll(ctx) == 0 && f.wait:
		e.Note("no worker of yours runs on this machine: start one with troupe worker")
	}
	if warning := AgentWarning(ctx, e, j.Agent); warning != "" {
		e.Note("warning: %s", warning)
	}
	if f.wait {
		return waitJob(ctx, e, s, j, f)
	}
	if f.json {
		return e.PrintJSON(jobapi.Show(j))
	}
	_, err = fmt.Fprintln(e.Stdout, j.ID)
	return err
}

// HookGuard is what webhooks may be told, as the configuration has it.
func HookGuard(e *env.Env) (*netguard.Guard, error) {
	settings, err := e.Config()
	if err != nil {
		return nil, err
	}
	guard, err := netguard.New(&netguard.Options{Allow: settings.Worker.HookHosts, PlainHTTP: true})
	if err != nil {
		return nil, env.Usagef("%w", settings.Fault("worker.hook_hosts", err))
	}
	return guard, nil
}

// errImpatient is the cause of a context that --wait-timeout ended.
var errImpatient = env.ExitWith(env.ExitTimeout, errors.New("the time of --wait-timeout is over"))

// noteWaits says what a job waits for: a server, or each question of its run, once.
func noteWaits(ctx context.Context, e *env.Env, s store.Asks, j *store.Job, told map[string]bool) {
	say := func(id, text string) {
		if !told[id] {
			told[id] = true
			e.Note("it %s", env.Plain(text))
		}
	}
	if j.Error != "" {
		say(j.Error, j.Error)
		return
	}
	asks, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending, Run: j.Run})
	if len(asks) == 0 || err != nil { // of a sub-agent, say
		say("", "waits for a human: troupe inbox")
	}
	for _, a := range asks {
		told[""] = true
		say(a.ID, fmt.Sprintf("waits for a human (%s, %s): troupe inbox show %s", a.Kind, cmp.Or(a.Server, "of the run"), env.Short(a.ID)))
	}
}

// waitJob waits for the end of a job, and prints what it has come to.
func waitJob(ctx context.Context, e *env.Env, s store.Store, j store.Job, f *jobFlags) error {
	e.Note("job %s", j.ID)
	if f.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.patience, errImpatient)
		defer cancel()
	}
	told := make(map[string]bool)
	err := env.Every(ctx, env.LookEvery, func() (bool, error) {
		now, err := s.Job(ctx, j.ID)
		switch {
		case err == nil:
			j = now
		case ctx.Err() == nil: // else the end of ctx is reported
			return false, fmt.Errorf("waiting for the job: %w", err)
		}
		if j.State == store.JobWaiting {
			noteWaits(ctx, e, s, &j, told)
		}
		return j.State.Ended(), nil
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("the job %s is %s, and goes on: %w", j.ID, j.State, err)
	case err != nil:
		return err
	}
	if f.json {
		if err := e.PrintJSON(jobapi.Show(j)); err != nil {
			return err
		}
	} else if text := resultOf(j).Text; text != "" {
		if _, err := fmt.Fprintln(e.Stdout, e.Safe(text)); err != nil {
			return err
		}
	}
	return jobError(j)
}

// result is what is shown of a job's result.
type result struct {
	Text       string           `json:"text"`
	Incomplete agent.Incomplete `json:"incomplete"`
}

// resultOf reads a job's result; one that cannot be read is empty.
func resultOf(j store.Job) (res result) {
	if len(j.Result) == 0 || jsonx.Unmarshal(j.Result, &res) != nil {
		return result{}
	}
	return res
}

// jobError is how a job's end becomes an exit code: as that of its run would.
func jobError(j store.Job) error {
	err := fmt.Errorf("the job %s is %s: %s", j.ID, j.State, env.Plain(cmp.Or(j.Error, "for an unknown reason")))
	switch j.State {
	case store.JobDone:
		if why := resultOf(j).Incomplete.Why(); why != "" {
			return env.ExitWith(env.ExitIncomplete, fmt.Errorf("the job %s is done, and %s", j.ID, why))
		}
		return nil
	case store.JobLimited:
		return env.ExitWith(env.ExitLimit, err)
	}
	return env.ExitWith(env.ExitFailed, err)
}

func lsCommand(e *env.Env) *cobra.Command {
	var (
		asJSON bool
		states []string
		q      store.JobQuery
	)
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List jobs, the newest first",
		Long:    "List the jobs of the store's queue, the newest first: their state, how often they were tried, how the prompt begins.",
		Example: "  troupe jobs ls\n  troupe jobs ls --state failed --state unknown --json",
		Args:    env.NoArgs,
		RunE: storedJobs(e, func(cmd *cobra.Command, _ []string, s store.Store) error {
			q.Brief, q.States = true, nil
			for _, state := range states {
				q.States = append(q.States, store.JobState(state))
			}
			if err := q.Check(); err != nil {
				return env.Usagef("%s\nSee %s --help", strings.TrimPrefix(err.Error(), "store: "), cmd.CommandPath())
			}
			jobs, err := s.Jobs(cmd.Context(), q)
			if err != nil {
				return err
			}
			if asJSON {
				shown := make([]jobapi.Job, len(jobs))
				for i, j := range jobs {
					shown[i] = jobapi.Show(j)
				}
				return e.PrintJSON(shown)
			}
			warnOfFull(cmd.Context(), e)
			now := time.Now()
			return env.PrintList(e, false, jobs, "JOB|STATE|AGENT|CREATED|ATTEMPTS|PROMPT|ERROR", func(j store.Job) []string {
				return []string{j.ID, jobState(j, now), j.Agent, env.When(j.Created, now),
					fmt.Sprint(j.Attempts), env.OrNone(env.Shorten(j.Prompt, 60)), env.OrNone(env.Shorten(j.Error, 60))}
			}, 5, 6)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.IntVarP(&q.Limit, "limit", "n", 20, "at most so many `JOBS`")
	flags.StringArrayVar(&states, "state", nil, "only jobs in this `STATE`: queued, running, waiting, done, failed, cancelled, limited, unknown (repeat)")
	flags.StringVar(&q.Agent, "agent", "", "only jobs of this `AGENT`")
	flags.StringVar(&q.Batch, "batch", "", "only jobs of this `BATCH`")
	flags.StringVar(&q.Schedule, "schedule", "", "only jobs of this `SCHEDULE`")
	return cmd
}

// jobState is a job's state as a reader sees it.
func jobState(j store.Job, now time.Time) string {
	state := jobapi.Standing(&j, now)
	if state == string(store.JobQueued) && j.NotBefore.After(now) {
		return "queued for " + env.When(j.NotBefore, now)
	}
	return state
}

func showCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show JOB",
		Short:   "Show a job and what it has come to",
		Long:    "Show a job: its prompt, state, attempts and runs, and its result or error.",
		Example: "  troupe jobs show -1\n  troupe jobs show job-7q2xk --json",
		Args:    env.OneArg("a job"),
		RunE: storedJobs(e, func(cmd *cobra.Command, args []string, s store.Store) error {
			j, err := findJob(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return e.PrintJSON(jobapi.Show(j))
			}
			return showJob(cmd.Context(), e, s, j)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func showJob(ctx context.Context, e *env.Env, s store.Store, j store.Job) error {
	rows := [][2]string{
		{"agent", j.Agent}, {"key", j.Key}, {"batch", j.Batch}, {"schedule", j.Schedule},
		{"created", j.Created.Local().Format(time.DateTime)}, {"updated", j.Updated.Local().Format(time.DateTime)},
		{"attempts", fmt.Sprintf("%d, of them failed: %d, lost: %d", j.Attempts, j.Failures, j.Losses)}, {"run", j.Run}, {"worker", j.Owner}, {"hook", j.Hook},
		{"prompt", env.Shorten(j.Prompt, 400)}, {"input", env.Shorten(string(j.Input), 400)}, {"error", j.Error},
	}
	if what, ok := strings.CutPrefix(j.Error, "waits for "); ok && j.State == store.JobWaiting {
		rows[len(rows)-1] = [2]string{"waits for", what}
		since, err := jobapi.AwaySince(ctx, s, &j)
		if err != nil {
			return err
		}
		if !since.IsZero() {
			rows = append(rows, [2]string{"since", since.Local().Format(time.DateTime)})
		}
		if j.NotBefore.After(time.Now()) {
			rows = append(rows, [2]string{"again at", j.NotBefore.Local().Format(time.DateTime)})
		}
	}
	asks, err := openAsks(ctx, s, &j)
	if err != nil {
		return err
	}
	for i := range asks {
		a := &asks[i]
		about := strings.TrimSpace(a.Kind + " " + cmp.Or(a.Tool, a.Server))
		rows = append(rows, [2]string{"asks", about + ", answer it with: " + e.Command("inbox", "answer", env.Short(a.ID))})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "job %s: %s\n", env.Plain(j.ID), jobState(j, time.Now()))
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "  %-10s%s\n", r[0], env.Plain(r[1]))
		}
	}
	res := resultOf(j)
	if why := res.Incomplete.Why(); why != "" {
		fmt.Fprintf(&b, "  %-10s%s\n", "note", why)
	}
	if res.Text != "" {
		b.WriteString("  result\n")
		env.Quote(&b, res.Text)
	}
	_, err = fmt.Fprint(e.Stdout, b.String())
	return err
}

// maxAsked bounds the runs of a job whose questions are looked for.
const maxAsked = 1000

// openAsks returns the questions that a job waits for: of its run, and of those of its sub-agents.
func openAsks(ctx context.Context, s store.Store, j *store.Job) (all []store.Ask, err error) {
	if j.Run == "" || j.State.Ended() {
		return nil, nil
	}
	runs := []string{j.Run}
	for i := 0; i < len(runs) && i < maxAsked; i++ {
		asks, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending, Run: runs[i]})
		if err != nil {
			return nil, err
		}
		all = append(all, asks...)
		below, err := s.Runs(ctx, store.Query{Parent: runs[i], States: []store.RunState{store.Running, store.Waiting}})
		if err != nil {
			return nil, err
		}
		for _, r := range below {
			runs = append(runs, r.ID)
		}
	}
	return all, nil
}

// eachCommand is a command that does something to jobs. do returns what is told of
// the job.
func eachCommand(e *env.Env, name, what string, do func(context.Context, store.Jobs, string) (string, error)) *cobra.Command {
	var batch string
	cmd := &cobra.Command{
		Use:     name + " JOB...",
		Short:   what,
		Long:    what + ". JOB is an id, an unambiguous beginning of one, or -1 for the newest; --batch takes all of a batch.",
		Example: "  troupe jobs " + name + " -1\n  troupe jobs " + name + " --batch nightly",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 == (batch == "") {
				return env.Usagef("%s needs jobs, or --batch, and not both\nSee %[1]s --help", cmd.CommandPath())
			}
			return nil
		},
		RunE: storedJobs(e, func(cmd *cobra.Command, args []string, s store.Store) error {
			ids, err := jobIDs(cmd.Context(), s, args, batch)
			if err != nil {
				return err
			}
			return each(cmd.Context(), e, s, ids, batch != "", do)
		}),
	}
	cmd.Flags().StringVar(&batch, "batch", "", "all jobs of this `BATCH` that it can be done to")
	return cmd
}

func jobIDs(ctx context.Context, s store.Jobs, names []string, batch string) ([]string, error) {
	var ids []string
	for _, name := range names {
		j, err := findJob(ctx, s, name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, j.ID)
	}
	if batch == "" {
		return ids, nil
	}
	all, err := allJobs(ctx, s, store.JobQuery{Batch: batch}, maxJobs)
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		ids = append(ids, j.ID)
	}
	if len(ids) == 0 {
		return nil, env.Usagef("there are no jobs of the batch %q; troupe jobs ls lists them", batch)
	}
	return ids, nil
}

// errNotDone is of a job that something cannot be done to.
var errNotDone = errors.New("it cannot be done")

// each does something to jobs. Of a batch those are left out that it cannot be done to.
func each(ctx context.Context, e *env.Env, s store.Store, ids []string, batch bool, do func(context.Context, store.Jobs, string) (string, error)) error {
	var failed []error
	done := 0
	for _, id := range ids {
		told, err := do(ctx, s, id)
		switch {
		case err == nil:
			done++
			fmt.Fprintf(e.Stdout, "%s %s\n", told, id)
		case batch && errors.Is(err, errNotDone):
		default:
			failed = append(failed, fmt.Errorf("%s: %w", id, err))
		}
	}
	if done > 0 {
		e.WakeAll(ctx)
	}
	if batch {
		e.Note("%s of %d", env.Count(done, "job"), len(ids))
	}
	return errors.Join(failed...)
}

func cancelJob(ctx context.Context, s store.Jobs, id string) (string, error) {
	j, err := s.CancelJob(ctx, id)
	switch {
	case errors.Is(err, store.ErrFinished):
		return "", fmt.Errorf("%w: the job is %s", errNotDone, j.State)
	case err != nil:
		return "", err
	case j.Cancelling:
		return "cancelling", nil
	}
	return "cancelled", nil
}

func removeJob(ctx context.Context, s store.Jobs, id string) (string, error) {
	err := s.DeleteJob(ctx, id)
	if errors.Is(err, store.ErrLeased) {
		return "", fmt.Errorf("%w: a worker has the job; cancel it first", errNotDone)
	}
	return "removed", err
}
