package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/claims"
	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/owner"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// NotResumableError reports that a run cannot be resumed. The run is as it was.
type NotResumableError struct{ Run, Why string }

func (e *NotResumableError) Error() string { return (*claims.Refusal)(e).Error() }

// ResumeOptions changes how a run goes on; nil is the same as the zero value. The fields that
// [RunOptions] has too mean the same.
type ResumeOptions struct {
	// Agent goes on with the run. Nil is the agent that was defined last under the name of
	// the run's. Its definition is that of today, but for the limits, which stay the run's.
	Agent   *Agent
	OnAsk   AskFunc
	Tenant  *Tenant
	Sampler mcpclient.Sampler
	// OnUnknown is what becomes of a call that may have had its effect, has no result, and is not
	// declared safe to repeat. Empty is [Options].OnUnknown.
	OnUnknown UnknownPolicy
	// Drift is what becomes of the run if the instructions or the model of its agent, or its tools,
	// are not as it has recorded them. Empty is [Options].OnDrift. The journal says what differs,
	// in run.drifted.
	Drift DriftPolicy
	// StartedWith takes the place of what the journal has, if it is not the same: a program that goes on
	// with other settings finds these the next time. Empty is [Options].StartedWith.
	StartedWith json.RawMessage

	job     jobhook.Job[Result] // as in [RunOptions]
	claimed bool
}

// DriftPolicy says how a run goes on whose agent or tools are not as it has recorded them.
type DriftPolicy string

// The policies for runs whose agent or tools differ.
const (
	// AdoptDrift goes on with the agent and the tools as they are defined now.
	AdoptDrift DriftPolicy = runlog.DriftAdopt
	// ContinueDrift keeps the recorded instructions, but not those of an imported run; a tool that is new, or has another
	// definition, is called with a person's approval only. The model is that of today.
	ContinueDrift DriftPolicy = runlog.DriftContinue
	// StopDrift leaves the run as it is: the error is a [*NotResumableError] that says what
	// differs.
	StopDrift DriftPolicy = runlog.DriftStop
)

func (p DriftPolicy) check() error {
	switch p {
	case "", AdoptDrift, ContinueDrift, StopDrift:
		return nil
	}
	return fmt.Errorf("unknown policy for drift %q: want continue, stop or adopt", string(p))
}

// UnknownPolicy says what becomes of a call that may have had its effect, has no result, and is not
// declared safe to repeat: its process has ended, or no answer came that can be used.
type UnknownPolicy string

// The policies for calls of unknown outcome.
const (
	// AskUnknown asks a person: the question is a [KindOutcome].
	AskUnknown UnknownPolicy = runlog.OutcomeAsk
	// TellUnknown has the model read that the outcome is unknown.
	TellUnknown UnknownPolicy = runlog.OutcomeTell
	// RepeatUnknown makes the call again, with the same idempotency key: for tools that take no
	// harm from that. In one process it is made three times at most. A tool whose definition has changed is asked about.
	RepeatUnknown UnknownPolicy = runlog.OutcomeAgain
	// EndUnknown ends the run with [ErrOutcomeUnknown].
	EndUnknown UnknownPolicy = runlog.OutcomeEnd
)

func (p UnknownPolicy) check() error {
	switch p {
	case "", AskUnknown, TellUnknown, RepeatUnknown, EndUnknown:
		return nil
	}
	return fmt.Errorf("unknown OnUnknown %q: want ask, tell, again or end", string(p))
}

// Resume goes on with a run that its process has left, by a crash or by [Run.Suspend], where
// its journal ends: the model is not asked again for what it has answered, questions that are
// open stay the same, and answers that were given meanwhile count. A call that may have had its
// effect is made again only if it is declared safe, or if a person or a policy says so: see
// [ResumeOptions].OnUnknown. Limits go on where they were.
//
// Of what another store has recorded, see [store.Run].Imported, a run goes on with the conversation only: no approval, answer, raised
// limit or outcome of it counts, its limits are those of the agent, and a call that was sent is not made again.
//
// A call that is open needs its tool: without it the run does not go on, whatever the policies are, and the error
// names what is missing. Resume waits for servers that still connect, each up to its own bound.
//
// A run that has ended, or that this runtime works on, is returned as it stands. The error is a
// [*NotResumableError], [store.ErrNotFound], or [store.ErrLeased] while another process may
// work on the run, or on that of a sub-agent of it. Sub-agents that were under way go on with the
// run that has started them, and not without it.
func (rt *Runtime) Resume(ctx context.Context, id string, o *ResumeOptions) (*Run, error) {
	opts := *cmp.Or(o, new(ResumeOptions))
	if err := cmp.Or(opts.OnUnknown.check(), opts.Drift.check(), checkStartedWith(opts.StartedWith)); err != nil {
		return nil, fmt.Errorf("resuming run %q: %w", id, err)
	}
	if _, busy := rt.resuming.LoadOrStore(id, true); busy {
		return nil, fmt.Errorf("resuming run %q: %w", id, store.ErrLeased)
	}
	defer rt.resuming.Delete(id)
	run, err := rt.resume(ctx, id, opts)
	if err != nil {
		return nil, errorOf(fmt.Sprintf("resuming run %q", id), err)
	}
	return run, nil
}

func (rt *Runtime) resume(ctx context.Context, id string, o ResumeOptions) (*Run, error) {
	found, err := rt.Find(ctx, id)
	if err != nil || found.works() {
		return found, err
	}
	head, err := rt.store.Run(ctx, id)
	if err != nil || head.State.Ended() {
		return found, err
	}
	if head.Parent != "" {
		return nil, &NotResumableError{id, fmt.Sprintf("it is a part of the run %s", head.Parent)}
	}
	a, err := rt.agentOf(&head, o.Agent, o.Tenant)
	if err != nil {
		return nil, err
	}
	if o.job.ID == "" && !owner.Holds(head, time.Now()) { // a run that cannot go on is left as it is, and no lease passes while servers connect
		tree, err := rt.claims.Look(ctx, head, rt.policies(o))
		if err == nil {
			err = a.lacksNothing(ctx, tree, o)
		}
		if err != nil {
			return nil, err
		}
	}
	tree, err := rt.claim(ctx, id, &o)
	if errors.Is(err, store.ErrFinished) {
		return found, nil
	} else if err != nil {
		return nil, err
	}
	return rt.goOn(ctx, a, tree, o)
}

// claim claims a run that goes on, unless the caller has the lease of its job already. The job of a run that is claimed
// here ends with it.
func (rt *Runtime) claim(ctx context.Context, id string, o *ResumeOptions) (*claims.Tree, error) {
	if job := &o.job; job.ID != "" {
		return rt.claims.Hold(ctx, id, job.Owner, job.Epoch, job.Lease, rt.policies(*o))
	}
	tree, err := rt.claims.Claim(ctx, id, rt.policies(*o))
	if err == nil && tree.Head.Job != "" {
		head := &tree.Head
		lease := store.JobLease{ID: head.Job, Epoch: head.Epoch}
		o.claimed = true
		o.job = jobhook.Job[Result]{ID: head.Job, Owner: head.Owner, Epoch: head.Epoch, Lease: rt.claims.LeaseTime(), Ends: func(res *Result, err error) *store.JobUpdate {
			u := jobEnd(res, err)
			u.JobLease, u.Owner = lease, head.Owner
			return u
		}}
	}
	return tree, err
}

// jobEnd is the end of a job by that of its run.
func jobEnd(res *Result, err error) *store.JobUpdate {
	u := &store.JobUpdate{State: store.JobDone, Result: encodeResult(res)}
	if err == nil {
		return u
	}
	u.Error = clip.Text(clip.Valid(strings.ReplaceAll(err.Error(), "\x00", "")), store.MaxText-len("…"))
	var limit *LimitError
	var cancelled *CancelledError
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		u.State = store.JobUnknown
	case errors.As(err, &limit):
		u.State = store.JobLimited
	case errors.As(err, &cancelled):
		u.State = store.JobCancelled
	default:
		u.State, u.Failed = store.JobFailed, true
	}
	return u
}

// policies are those of a run that goes on.
func (rt *Runtime) policies(o ResumeOptions) claims.Policies {
	return claims.Policies{Unknown: string(cmp.Or(o.OnUnknown, rt.opts.OnUnknown)), OnDrift: string(cmp.Or(o.Drift, rt.opts.OnDrift))}
}

// goOn starts a run that was claimed. If that fails the run waits for another runtime.
func (rt *Runtime) goOn(ctx context.Context, a *Agent, tree *claims.Tree, o ResumeOptions) (*Run, error) {
	err := a.lacksNothing(ctx, tree, o) // it may have changed since
	var run *Run
	if err == nil {
		run, err = a.resumed(ctx, tree, o, nil)
	}
	if err == nil {
		var started *Run
		if started, err = rt.start(ctx, run); err == nil && started != run {
			err = fmt.Errorf("another run has its ID: %w", store.ErrLeased)
		}
	}
	if err != nil {
		return nil, errors.Join(err, rt.claims.Release(ctx, tree))
	}
	return run, nil
}

// resumed makes a run that goes on. From is the call that has started it, nil for a run of its own.
func (a *Agent) resumed(ctx context.Context, re *claims.Tree, o ResumeOptions, from *starter) (*Run, error) {
	re.Drift = re.State.Started.Hash != a.hash
	check, err := a.checkOf(re.State.Started.Schema)
	if err != nil {
		return nil, err
	}
	hash, err := readDigest(re.Head.InputHash)
	if err != nil {
		return nil, err
	}
	run := &Run{id: re.Head.ID, store: a.rt.store, onAsk: o.OnAsk, tenant: o.Tenant, hash: hash, resumes: true,
		worked: time.Duration(re.State.Started.WallMS)*time.Millisecond - re.State.Wall}
	run.onUnknown = o.OnUnknown
	own := loop.Own{ID: run.id, Check: check, Resumes: &re.Resumption}
	if from == nil {
		re.With = a.rt.startedWith(o.StartedWith)
	}
	for _, child := range re.Children {
		if run.below == nil {
			run.below = new(sync.Map)
		}
		run.below.Store(child.Head.ID, child)
	}
	if err := a.complete(ctx, run, &own, &RunOptions{Tenant: o.Tenant, Sampler: o.Sampler, job: o.job, claimed: o.claimed}, from); err != nil {
		return nil, err
	}
	if err := a.stopOnDrift(ctx, re, own.Tools); err != nil {
		return nil, err
	}
	run.record.resume(re.State, re.Decided)
	return run, nil
}

// stopOnDrift refuses a run whose agent or tools differ, if that is the policy. Of an agent that the
// run was handed to it looks at the instructions and the model.
func (a *Agent) stopOnDrift(ctx context.Context, re *claims.Tree, tools loop.Tools) error {
	if re.OnDrift != runlog.DriftStop {
		return nil
	}
	works, refs := a, re.State.Listed.Tools
	if to := re.State.Agent.To; to != a.name {
		if defined, ok := a.rt.defined.Load(to); ok {
			works = defined.(*Agent)
		}
	} else if tools != nil {
		offer, _ := tools.Offer(ctx)
		refs = offer.Refs()
	}
	what, _ := re.State.Drift(works.cfg.Instructions, works.model.Name(), refs)
	if len(what) == 0 && works == a && re.Drift {
		what = []string{"the servers, the form of the answer or the allowed tools of its agent are others"}
	}
	if len(what) == 0 {
		return nil
	}
	return &NotResumableError{re.Head.ID, "it would not go on as it was recorded, and that is not allowed here: " + strings.Join(what, "; ")}
}

// readDigest reads the digest that String has written.
func readDigest(s string) (d digest, err error) {
	raw, err := hex.DecodeString(strings.TrimPrefix(s, "sha256:"))
	if err != nil || len(raw) != len(d) {
		return d, fmt.Errorf("%.80q is no digest of what a run was started with", s)
	}
	return digest(raw), nil
}

// resume takes in what the journal has said already: readers have it from there.
func (r *record) resume(s *runlog.State, decided map[string]store.Ask) {
	entries := []runlog.Entry{{Type: store.RunStarted, Body: s.Started}, {Type: runlog.AgentChangedType, Body: &s.Agent}}
	for _, q := range s.Asks {
		if _, ok := decided[q.Ask.ID]; !ok && q.Settled == nil && (s.WaitsFor(q) || slices.Contains([]string{runlog.AskKind, runlog.AskLimit, runlog.AskOutcome}, q.Ask.Kind)) { // the others are withdrawn
			entries = append(entries, runlog.Entry{Type: store.AskOpened, Key: q.Ask.ID, Body: &runlog.AskOpened{Ask: q.Ask}})
		}
	}
	r.asks.journalled(entries)
	r.noteAsks(entries)
	r.holdClocks(entries)
	var open []string
	for _, c := range s.Calls {
		if c.Open() {
			open = append(open, c.Key)
		}
	}
	r.log.Resume(s.Seq, open)
}

// works reports whether this runtime works on the run.
func (r *Run) works() bool {
	if r.loop == nil || r.loop.Refused() { // the latter is about to end
		return false
	}
	select {
	case <-r.Done():
		return false
	default:
		return true
	}
}

// left reports whether this runtime has worked on the run, and has left it before its end: the store knows how it
// stands, and this handle does not.
func (r *Run) left() bool {
	return r.loop != nil && r.loop.Begun() && !r.works() && !r.record.log.Finished()
}

// lost reports whether the run was left because another process has it.
func (r *Run) lost() bool { return r.left() && errors.Is(r.loop.Outcome().Err, store.ErrFenced) }

// abandon ends a run whose caller did not wait for its start. One that goes on is left as it was: the end of a caller's context
// is not its end.
func (r *Run) abandon(cause error) {
	if r.resumes {
		r.leave(cause)
		return
	}
	r.Cancel(cause)
}

// stopped reports whether the actor of a run of this runtime is gone, and so its name is free.
func (r *Run) stopped() bool {
	select {
	case <-r.loop.Stopped():
		return true
	default:
		return false
	}
}

// again goes on with a run that Start has found and that no process works on. One that another process works on is followed; the attempt of a
// job is not, as its worker looks after it.
func (a *Agent) again(ctx context.Context, found *Run, o *RunOptions) (*Run, error) {
	if found.loop != nil && !found.left() {
		return found, nil
	}
	run, err := a.resume(ctx, found.id, o)
	var refused *NotResumableError
	switch {
	case errors.As(err, &refused):
		return &Run{id: found.id, store: a.rt.store, stuck: refused}, nil
	case errors.Is(err, store.ErrLeased) && o.job.Ends == nil && o.job.ID == "":
		return a.rt.followed(ctx, &Run{id: found.id, hash: found.hash, store: a.rt.store, tenant: o.Tenant, following: &following{agent: a, opts: *o}})
	case errors.Is(err, store.ErrLeased):
		return found, nil
	}
	return run, err
}

// resume goes on with a run that was started with these options.
func (a *Agent) resume(ctx context.Context, id string, o *RunOptions) (*Run, error) {
	return a.rt.Resume(ctx, id, &ResumeOptions{Agent: a, OnAsk: o.OnAsk, Tenant: o.Tenant, Sampler: o.Sampler, OnUnknown: o.OnUnknown, StartedWith: o.StartedWith, job: o.job})
}
