package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// NotResumableError reports that a run cannot be resumed. The run is as it was.
type NotResumableError struct{ Run, Why string }

func (e *NotResumableError) Error() string {
	return fmt.Sprintf("the run %s cannot be resumed: %s", e.Run, e.Why)
}

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
	// EndsJob is as in [RunOptions].
	EndsJob func(*Result) *store.JobUpdate
	// Drift is what becomes of the run if the instructions or the model of its agent, or its tools,
	// are not as it has recorded them. Empty is [Options].OnDrift. The journal says what differs,
	// in run.drifted.
	Drift DriftPolicy
}

// DriftPolicy says how a run goes on whose agent or tools are not as it has recorded them.
type DriftPolicy string

// The policies for runs whose agent or tools differ.
const (
	// AdoptDrift goes on with the agent and the tools as they are defined now.
	AdoptDrift DriftPolicy = runlog.DriftAdopt
	// ContinueDrift keeps the recorded instructions; a tool that is new, or has another
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

// UnknownPolicy says what becomes of a call of a run that goes on if the call may have had its
// effect when its process ended, has no result, and is not declared safe to repeat.
type UnknownPolicy string

// The policies for calls of unknown outcome.
const (
	// AskUnknown asks a person: the question is a [KindOutcome].
	AskUnknown UnknownPolicy = runlog.OutcomeAsk
	// TellUnknown has the model read that the outcome is unknown.
	TellUnknown UnknownPolicy = runlog.OutcomeTell
	// RepeatUnknown makes the call again, with the same idempotency key: for tools that take no
	// harm from that. A tool whose definition has changed is asked about.
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

// defaultLease is that of a run whose [Options].Lease is zero.
const defaultLease = time.Minute

// Resume goes on with a run that its process has left, by a crash or by [Run.Suspend], where
// its journal ends: the model is not asked again for what it has answered, questions that are
// open stay the same, and answers that were given meanwhile count. A call that may have had its
// effect is made again only if it is declared safe, or if a person or a policy says so: see
// [ResumeOptions].OnUnknown. Limits go on where they were.
//
// A run that has ended, or that this runtime works on, is returned as it stands. The error is a
// [*NotResumableError], [store.ErrNotFound], or [store.ErrLeased] while another process may
// work on the run, or on that of a sub-agent of it. Sub-agents that were under way go on with the
// run that has started them, and not without it.
func (rt *Runtime) Resume(ctx context.Context, id string, o *ResumeOptions) (*Run, error) {
	opts := *cmp.Or(o, new(ResumeOptions))
	if err := cmp.Or(opts.OnUnknown.check(), opts.Drift.check()); err != nil {
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
	tree, err := rt.claim(ctx, id, o)
	if errors.Is(err, store.ErrFinished) {
		return found, nil
	} else if err != nil {
		return nil, err
	}
	run, err := rt.goOn(ctx, a, tree, o)
	if err != nil { // the run waits for another
		return nil, errors.Join(err, rt.release(ctx, tree))
	}
	return run, nil
}

// claimed is a run that was claimed to go on, with those of its sub-agents that were under way.
type claimed struct {
	loop.Resumption
	below []*claimed
}

// goOn starts a run that was claimed.
func (rt *Runtime) goOn(ctx context.Context, a *Agent, cl *claimed, o ResumeOptions) (*Run, error) {
	run, err := a.resumed(ctx, cl, o, nil)
	if err != nil {
		return nil, err
	}
	started, err := rt.start(ctx, run)
	if err == nil && started != run {
		err = fmt.Errorf("another run has its ID: %w", store.ErrLeased)
	}
	return run, err
}

// claim claims a run and those of its sub-agents that were under way, all or none of them, and
// folds their journals.
func (rt *Runtime) claim(ctx context.Context, id string, o ResumeOptions) (_ *claimed, err error) {
	cl := &claimed{Resumption: loop.Resumption{Claimed: time.Now()}}
	if cl.Head, err = rt.store.Claim(ctx, id, rt.owner, cmp.Or(rt.opts.Lease, defaultLease)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rt.release(ctx, cl))
		}
	}()
	return cl, rt.fold(ctx, cl, o)
}

// fold reads the journal of a run that was claimed, and claims those below it.
func (rt *Runtime) fold(ctx context.Context, cl *claimed, o ResumeOptions) (err error) {
	cl.Unknown, cl.OnDrift = string(cmp.Or(o.OnUnknown, rt.opts.OnUnknown)), string(cmp.Or(o.Drift, rt.opts.OnDrift))
	if cl.State, err = runlog.Fold(ctx, rt.store, cl.Head.ID); err != nil {
		return err
	}
	switch began := cl.State.Started; {
	case began == nil || len(began.Input) == 0:
		return &NotResumableError{cl.Head.ID, "its journal does not say what it began with"}
	case began.Fork != "" && cl.State.Forked == nil:
		return &NotResumableError{cl.Head.ID, fmt.Sprintf("it is a fork of the run %s that was not copied whole: fork that run again", began.Fork)}
	}
	if cl.Decided, err = rt.decided(ctx, cl.State); err != nil {
		return err
	}
	for _, c := range cl.State.Calls {
		if c.Run != "" {
			if err := rt.claimBelow(ctx, cl, c, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimBelow claims the run that a call has started, if it goes on, and adds what it has spent.
func (rt *Runtime) claimBelow(ctx context.Context, cl *claimed, c *runlog.CallState, o ResumeOptions) error {
	end, err := rt.endOf(ctx, c.Run)
	switch {
	case err != nil:
		return err
	case end != nil:
		cl.Below = cl.Below.Plus(end.Spent)
		return nil
	case !c.Open():
		return nil
	}
	child, err := rt.claim(ctx, c.Run, o)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrFinished) { // it was not begun, or has ended just now
		return nil
	} else if err != nil {
		return err
	}
	child.Counted = true
	cl.below, cl.Below = append(cl.below, child), cl.Below.Plus(child.Spent())
	cl.Raised = append(append(cl.Raised, child.Raised...), child.State.Raised...)
	return nil
}

// release gives up the claims of a run and of those below it.
func (rt *Runtime) release(ctx context.Context, cl *claimed) error {
	err := rt.store.Release(context.WithoutCancel(ctx), cl.Head.ID, rt.owner, cl.Head.Epoch)
	for _, child := range cl.below {
		err = errors.Join(err, rt.release(ctx, child))
	}
	return err
}

// decided returns the questions of a run that were decided while no process worked on it.
func (rt *Runtime) decided(ctx context.Context, s *runlog.State) (map[string]store.Ask, error) {
	out := make(map[string]store.Ask)
	for _, q := range s.Asks {
		if q.Settled != nil && !s.WaitsFor(q) {
			continue
		}
		row, err := rt.store.Ask(ctx, q.Ask.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil && row.Status != store.AskPending {
			out[row.ID] = row
		}
	}
	return out, nil
}

// endOf returns how a run has ended; nil for one that goes on, or that the store does not have.
func (rt *Runtime) endOf(ctx context.Context, id string) (*runlog.RunFinished, error) {
	head, err := rt.store.Run(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !head.State.Ended() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	last, err := rt.store.Events(ctx, id, head.Seq-1, 1)
	if err != nil || len(last) == 0 {
		return nil, err
	}
	e, err := runlog.Decode(last[0])
	end, _ := e.Body.(*runlog.RunFinished)
	return end, err
}

// resumed makes a run that goes on. From is the call that has started it, nil for a run of its own.
func (a *Agent) resumed(ctx context.Context, re *claimed, o ResumeOptions, from *starter) (*Run, error) {
	re.Drift = re.State.Started.Hash != a.hash
	check, err := checkAnswer(re.State.Started.Schema)
	if err != nil {
		return nil, err
	}
	hash, err := readDigest(re.Head.InputHash)
	if err != nil {
		return nil, err
	}
	run := &Run{id: re.Head.ID, store: a.rt.store, onAsk: o.OnAsk, tenant: o.Tenant, hash: hash, resumes: true,
		worked: time.Duration(re.State.Started.WallMS)*time.Millisecond - re.State.Wall}
	own := loop.Own{ID: run.id, Check: check, Resumes: &re.Resumption}
	for _, child := range re.below {
		if run.below == nil {
			run.below = new(sync.Map)
		}
		run.below.Store(child.Head.ID, child)
	}
	if err := a.complete(ctx, run, &own, &RunOptions{Tenant: o.Tenant, Sampler: o.Sampler, EndsJob: o.EndsJob}, from); err != nil {
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
func (a *Agent) stopOnDrift(ctx context.Context, re *claimed, tools loop.Tools) error {
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
	r.seq, r.evicted, r.base, r.durable = s.Seq, s.Seq, 1, 1
	entries := []runlog.Entry{{Type: store.RunStarted, Body: s.Started}, {Type: runlog.AgentChangedType, Body: &s.Agent}}
	for _, q := range s.Asks {
		if _, ok := decided[q.Ask.ID]; !ok && q.Settled == nil && (s.WaitsFor(q) || slices.Contains([]string{runlog.AskKind, runlog.AskLimit, runlog.AskOutcome}, q.Ask.Kind)) { // the others are withdrawn
			entries = append(entries, runlog.Entry{Type: store.AskOpened, Key: q.Ask.ID, Body: &runlog.AskOpened{Ask: q.Ask}})
		}
	}
	r.asks.journalled(entries)
	r.noteAsks(entries)
	r.holdClocks(entries)
	for _, c := range s.Calls {
		if c.Open() {
			r.progress = append(r.progress, progress{key: c.Key})
		}
	}
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

// stopped reports whether the actor of a run of this runtime is gone, and so its name is free.
func (r *Run) stopped() bool {
	select {
	case <-r.loop.Stopped():
		return true
	default:
		return false
	}
}

// again goes on with a run that Start has found and that no process works on; else it is
// returned as it stands.
func (a *Agent) again(ctx context.Context, found *Run, o *RunOptions) (*Run, error) {
	if found.works() || found.loop != nil && !errors.Is(found.loop.Outcome().Err, ErrSuspended) {
		return found, nil
	}
	run, err := a.rt.Resume(ctx, found.id, &ResumeOptions{Agent: a, OnAsk: o.OnAsk, Tenant: o.Tenant, Sampler: o.Sampler, OnUnknown: o.OnUnknown, EndsJob: o.EndsJob})
	var refused *NotResumableError
	switch {
	case errors.As(err, &refused):
		return &Run{id: found.id, store: a.rt.store, stuck: refused}, nil
	case errors.Is(err, store.ErrLeased):
		return found, nil
	}
	return run, err
}
