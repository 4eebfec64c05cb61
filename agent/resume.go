package agent

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/internal/budget"
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
// work on the run. Runs of sub-agents are not resumed yet, nor runs that wait for one.
func (rt *Runtime) Resume(ctx context.Context, id string, o *ResumeOptions) (*Run, error) {
	opts := *cmp.Or(o, new(ResumeOptions))
	if err := opts.OnUnknown.check(); err != nil {
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
	re := &loop.Resumption{Claimed: time.Now()}
	if re.Head, err = rt.store.Claim(ctx, id, rt.owner, cmp.Or(rt.opts.Lease, defaultLease)); errors.Is(err, store.ErrFinished) {
		return found, nil
	} else if err != nil {
		return nil, err
	}
	run, err := rt.goOn(ctx, a, re, o)
	if err != nil { // the run waits for another
		released := rt.store.Release(context.WithoutCancel(ctx), id, rt.owner, re.Head.Epoch)
		return nil, errors.Join(err, released)
	}
	return run, nil
}

// goOn starts a run that was claimed.
func (rt *Runtime) goOn(ctx context.Context, a *Agent, re *loop.Resumption, o ResumeOptions) (run *Run, err error) {
	if re.State, err = runlog.Fold(ctx, rt.store, re.Head.ID); err != nil {
		return nil, err
	}
	if re.Below, err = rt.below(ctx, re); err != nil {
		return nil, err
	}
	if re.Decided, err = rt.decided(ctx, re.State); err != nil {
		return nil, err
	}
	re.Unknown = string(cmp.Or(o.OnUnknown, rt.opts.OnUnknown))
	re.Drift = re.State.Started.Hash != a.hash
	run, err = a.resumed(ctx, re, o)
	if err != nil {
		return nil, err
	}
	started, err := rt.start(ctx, run)
	if err == nil && started != run {
		err = fmt.Errorf("another run has its ID: %w", store.ErrLeased)
	}
	return run, err
}

// below returns what the runs have spent that a run has started, and refuses one that cannot be
// resumed.
func (rt *Runtime) below(ctx context.Context, re *loop.Resumption) (spent budget.Amount, err error) {
	refuse := func(why string, args ...any) error { return &NotResumableError{re.Head.ID, fmt.Sprintf(why, args...)} }
	s := re.State
	switch {
	case s.Started == nil || len(s.Started.Input) == 0:
		return spent, refuse("its journal does not say what it began with")
	case s.Started.Fork != "" && s.Forked == nil:
		return spent, refuse("it is a fork of the run %s that was not copied whole: fork that again", s.Started.Fork)
	}
	for _, c := range s.Calls {
		switch {
		case c.Run != "" && c.Open():
			return spent, refuse("its call of %q has started the run %s, and runs with sub-agents under way cannot be resumed yet", c.Tool, c.Run)
		case c.Run != "":
			end, err := rt.endOf(ctx, c.Run)
			if err != nil {
				return spent, err
			}
			if end != nil {
				spent = spent.Plus(end.Spent)
			}
		}
	}
	return spent, nil
}

// decided returns the questions of a run that were decided while no process worked on it.
func (rt *Runtime) decided(ctx context.Context, s *runlog.State) (map[string]store.Ask, error) {
	out := make(map[string]store.Ask)
	for _, q := range s.Asks {
		if q.Settled != nil {
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

// resumed makes a run that goes on.
func (a *Agent) resumed(ctx context.Context, re *loop.Resumption, o ResumeOptions) (*Run, error) {
	check, err := checkAnswer(re.State.Started.Schema)
	if err != nil {
		return nil, err
	}
	hash, err := readDigest(re.Head.InputHash)
	if err != nil {
		return nil, err
	}
	run := &Run{id: re.Head.ID, store: a.rt.store, onAsk: o.OnAsk, tenant: o.Tenant, hash: hash, resumes: true}
	own := loop.Own{ID: run.id, Check: check, Resumes: re}
	if err := a.complete(ctx, run, &own, &RunOptions{Tenant: o.Tenant, Sampler: o.Sampler}, nil); err != nil {
		return nil, err
	}
	run.record.resume(re.State)
	return run, nil
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
func (r *record) resume(s *runlog.State) {
	r.seq, r.evicted, r.base, r.durable = s.Seq, s.Seq, 1, 1
	entries := []runlog.Entry{{Type: store.RunStarted, Body: s.Started}, {Type: runlog.AgentChangedType, Body: &s.Agent}}
	for _, q := range s.Asks {
		if q.Settled == nil && slices.Contains([]string{runlog.AskKind, runlog.AskLimit, runlog.AskOutcome}, q.Ask.Kind) { // the others are withdrawn
			entries = append(entries, runlog.Entry{Type: store.AskOpened, Key: q.Ask.ID, Body: &runlog.AskOpened{Ask: q.Ask}})
		}
	}
	r.asks.journalled(entries)
	r.noteAsks(entries)
	for _, c := range s.Calls {
		if c.Open() {
			r.progress = append(r.progress, progress{key: c.Key})
		}
	}
}

// works reports whether this runtime works on the run.
func (r *Run) works() bool {
	if r.loop == nil {
		return false
	}
	select {
	case <-r.Done():
		return false
	default:
		return true
	}
}

// again goes on with a run that Start has found and that no process works on; else it is
// returned as it stands.
func (a *Agent) again(ctx context.Context, found *Run, o *RunOptions) (*Run, error) {
	if found.works() || found.loop != nil && !errors.Is(found.loop.Outcome().Err, ErrSuspended) {
		return found, nil
	}
	run, err := a.rt.Resume(ctx, found.id, &ResumeOptions{Agent: a, OnAsk: o.OnAsk, Tenant: o.Tenant, Sampler: o.Sampler})
	var refused *NotResumableError
	switch {
	case errors.As(err, &refused):
		return &Run{id: found.id, store: a.rt.store, stuck: refused}, nil
	case errors.Is(err, store.ErrLeased):
		return found, nil
	}
	return run, err
}
