package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// ForkOptions changes a fork; nil is the same as the zero value. The fields that [RunOptions] and
// [ResumeOptions] have too mean the same.
type ForkOptions struct {
	// ID names the fork. Empty makes one up.
	ID string
	// Prompt replaces the text of the prompt. Empty keeps it.
	Prompt string
	// Results replace what the model reads as the results of calls, by the calls' keys: see
	// [ToolFinished].
	Results map[string]string
	// Say is a message to the model after the last event that is kept. Empty is none.
	Say string
	// Limits are those of the fork, where they are not zero; else they are those of the run, and of an imported
	// run those of the agent. What the run has spent here by then counts.
	Limits Limits

	Agent       *Agent
	OnAsk       AskFunc
	Tenant      *Tenant
	Sampler     mcpclient.Sampler
	StartedWith json.RawMessage

	job  jobhook.Job[Result] // as in [RunOptions]
	keep bool                // the nonce of the run, and all that it has spent
}

// Fork starts a run that takes over the events of another one up to the number at, zero for all of
// them, and goes on from there as [Runtime.Resume] does: with another agent, prompt, or result, say.
// The other run, which may be under way in any process, stays as it is.
//
// Nothing that was sent by then is sent again: the fork takes over the result of such a call, also
// where it came after that event; without one its outcome is unknown. Approvals of calls that were
// not sent are asked for again. Of an imported run, and of a fork of one, it takes over nothing but the conversation:
// see [Runtime.Resume].
//
// The error is [store.ErrNotFound], [store.ErrExists] for an ID that is taken, or a
// [*NotResumableError].
func (rt *Runtime) Fork(ctx context.Context, id string, at int64, o *ForkOptions) (*Run, error) {
	opts := *cmp.Or(o, new(ForkOptions))
	opts.ID = cmp.Or(opts.ID, uuid.NewString())
	var run *Run
	err := checkStartedWith(opts.StartedWith)
	if err == nil {
		run, err = rt.fork(ctx, id, at, opts)
	}
	if err != nil {
		return nil, errorOf(fmt.Sprintf("forking run %q", id), err)
	}
	return run, nil
}

func (rt *Runtime) fork(ctx context.Context, id string, at int64, o ForkOptions) (*Run, error) {
	from, err := rt.store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	a, err := rt.agentOf(&from, o.Agent, o.Tenant)
	if err != nil {
		return nil, err
	}
	f := &runlog.Fork{From: id, Run: o.ID, Nonce: uuid.NewString(), At: at, Program: runlog.Program(), Prompt: o.Prompt, Say: o.Say, Results: o.Results,
		Limits: o.Limits.replace, Today: a.runs.Limits()}
	entries, err := runlog.Entries(ctx, rt.store, id)
	if err != nil {
		return nil, err
	}
	if o.keep {
		f.Nonce, f.Asks = "", strings.TrimPrefix(hashOf(o.ID), "sha256:")[:8] // the same each time: it may be written in parts
	}
	entries, asks, err := f.Events(entries)
	if err != nil {
		return nil, &NotResumableError{id, err.Error()}
	}
	head := store.Run{ID: o.ID, Agent: from.Agent, Title: from.Title, InputHash: from.InputHash, Job: o.job.ID, Epoch: o.job.Epoch,
		Imported: runlog.Imported(entries)}
	owner := cmp.Or(o.job.Owner, rt.claims.Owner)
	claimed := time.Now()
	if head, err = runlog.Write(ctx, rt.store, head, owner, rt.claims.LeaseTime(), entries, asks); err != nil {
		return nil, err
	}
	again := ResumeOptions{Drift: AdoptDrift, Agent: a, OnAsk: o.OnAsk, Tenant: o.Tenant, Sampler: o.Sampler, StartedWith: o.StartedWith, job: o.job}
	var tree *claims.Tree
	if job := &o.job; job.ID != "" {
		tree, err = rt.claims.Hold(ctx, o.ID, job.Owner, job.Epoch, job.Lease, rt.policies(again))
	} else {
		tree, err = rt.claims.Take(ctx, head, claimed, rt.policies(again))
	}
	var run *Run
	if err == nil {
		run, err = rt.goOn(ctx, a, tree, again)
	}
	if err != nil && o.job.ID == "" {
		err = errors.Join(err, rt.store.Delete(context.WithoutCancel(ctx), o.ID))
	}
	if err != nil { // that of a job stays, for it to go on
		return nil, err
	}
	return run, nil
}

// agentOf returns the agent that goes on with a run.
func (rt *Runtime) agentOf(head *store.Run, a *Agent, t *Tenant) (*Agent, error) {
	if defined, ok := rt.defined.Load(head.Agent); a == nil && ok {
		a = defined.(*Agent)
	}
	if a == nil {
		return nil, &NotResumableError{head.ID, fmt.Sprintf("there is no agent %q here", head.Agent)}
	}
	return a, a.checkTenant(t)
}

// replace changes the limits of a run that are not zero here.
func (l Limits) replace(b *runlog.Limits) {
	b.Steps, b.Tokens, b.Cost = cmp.Or(l.Steps, b.Steps), cmp.Or(l.Tokens, b.Tokens), cmp.Or(l.Cost, b.Cost)
	b.ModelCalls, b.ToolCalls, b.Depth = cmp.Or(l.ModelCalls, b.ModelCalls), cmp.Or(l.ToolCalls, b.ToolCalls), cmp.Or(l.Depth, b.Depth)
	b.WallMS, b.OnLimit = cmp.Or(l.Wall.Milliseconds(), b.WallMS), cmp.Or(string(l.OnLimit), b.OnLimit)
}
