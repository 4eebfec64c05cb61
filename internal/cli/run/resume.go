package run

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/runs"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/store"
)

// ResumeCommand is "troupe runs resume".
func ResumeCommand(e *env.Env) *cobra.Command {
	var f runFlags
	var drift string
	cmd := &cobra.Command{
		Use:   "resume RUN",
		Short: "Go on with a run that no process works on",
		Long: `Go on with a run whose process has ended, or that was left to wait for a human, where its journal ends: the model is not asked again
for what it has answered, and questions that were answered meanwhile count. A call that may have had its effect is made again only if
its tool is declared safe to repeat; about any other you are asked, or --on-unknown says what to do.

RUN is its id, an unambiguous beginning of it, or -1 for the newest ("last" too), -2 for the one before it. It goes on with
what it was started with, and in that folder: its agent, configuration, servers, model and policies. Flags, which are those of "troupe run", come
first. Its limits stay those that it was begun with. A server whose secrets were on the command line has to be given again; one whose definition
has changed is asked about as for a new run. A call that waits to be made keeps the run from going on where its tool is missing.
If its agent or its tools are not as the run has recorded them, --drift says what to do; "troupe runs show" says what differs.`,
		Example: `  troupe runs resume last
  troupe runs resume 0197c1 --on-unknown tell`,
		Args: env.OneArg("a run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return resume(cmd.Context(), e, &f, args[0], agent.DriftPolicy(drift))
		},
	}
	f.Flags.Add(cmd)
	cmd.Flags().StringVar(&f.output, "output-format", "text", "`FORMAT` of stdout: text, json (one object), stream-json (one event a line)")
	cmd.Flags().StringVar(&drift, "drift", "adopt", "if its agent or its tools are not as recorded, go on `HOW`: continue (recorded instructions; tools that differ ask), stop (do not), adopt (as all is now)")
	cmd.Flags().StringVar(&f.onUnknown, "on-unknown", "ask", setup.UnknownUsage)
	return cmd
}

func resume(ctx context.Context, e *env.Env, f *runFlags, name string, drift agent.DriftPolicy) error {
	if !slices.Contains([]agent.DriftPolicy{agent.ContinueDrift, agent.StopDrift, agent.AdoptDrift}, drift) {
		return env.Usagef("--drift %q: want continue, stop or adopt", string(drift))
	}
	may := func(head store.Run) error {
		if head.State.Ended() {
			return env.Usagef("the run %s has ended, as %s: there is nothing to go on with", head.ID, head.State)
		}
		return nil
	}
	return goOn(ctx, e, f, name, may, func(o *setup.Opened, head store.Run) (*agent.Run, error) {
		run, err := o.Runtime.Resume(ctx, head.ID, &agent.ResumeOptions{OnUnknown: agent.UnknownPolicy(f.onUnknown), Drift: drift})
		if errors.Is(err, store.ErrLeased) {
			return nil, fmt.Errorf("a process works on the run %s, or did until a moment ago: try again after %s", head.ID, head.Expires.Local().Format("15:04:05"))
		}
		f.runID = head.ID
		return run, err
	})
}

// goOn opens the program as "troupe run" does, and shows the run that start makes of one in the store. Nothing is opened for one that may refuses.
func goOn(ctx context.Context, e *env.Env, f *runFlags, name string, may func(store.Run) error, start func(o *setup.Opened, head store.Run) (*agent.Run, error)) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	f.HeldOutside, f.Remember = true, true
	var head store.Run
	err = e.WithStore(func(s store.Store) error {
		if head, err = runs.FindRun(ctx, s, name); err != nil {
			return err
		}
		if err := may(head); err != nil {
			return err
		}
		return f.Recall(ctx, e, s, &head)
	})
	if err != nil {
		return err
	}
	o, err := setup.Open(ctx, e, &f.Flags)
	if err != nil {
		return err
	}
	defer o.Close(&err)
	defer openSocket(e, o)()
	run, err := start(o, head)
	if refused, ok := errors.AsType[*agent.NotResumableError](err); ok && o.Agents[head.Agent] == nil {
		return env.Usagef("%w; name its agent with --agent", refused)
	}
	if err != nil {
		return err
	}
	return show(ctx, e, o, run, f)
}
