package agent

import (
	"context"
	"encoding/json"

	"github.com/troupe-dev/troupe/agent/internal/jobhook"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// RunOptions changes one run; nil is the same as the zero value.
type RunOptions struct {
	// ID names the run, at most 128 printable characters. Empty makes one up.
	ID string
	// Output replaces the agent's.
	Output json.RawMessage
	// OnAsk answers the questions of this run and its sub-agents, in place of
	// [Options].OnAsk.
	OnAsk AskFunc
	// OnUnknown is what becomes of a call of the run, or of its sub-agents, of unknown outcome. Empty is [Options].OnUnknown.
	OnUnknown UnknownPolicy
	// Input is the input of the agent, as [Config].Input describes it; it follows the
	// prompt, which may then be empty. Empty means none.
	Input json.RawMessage
	// Tenant has the connections that the run and its sub-agents use. Nil means the
	// runtime's own.
	Tenant *Tenant
	// Sampler answers sampling of servers during calls of this run, in place of
	// [Options].Sampling and the tenant's Sampler; nothing of it is charged. It
	// is asked only where sampling is declared to servers at all. Nil is those.
	Sampler mcpclient.Sampler
	// Roots returns the roots for servers during calls of this run, where roots are declared
	// at all; it is called each time. Nil is the tenant's, or those of [Options].Host.
	Roots func(ctx context.Context) ([]mcp.Root, error)
	// History is the conversation of an earlier run, from [Runtime.Conversation], that the
	// prompt continues, in the window it was cut to. Nil begins a new one.
	History []llm.Message

	// StartedWith is kept in the journal for the program, which knows from it how to go on with the
	// run: see [Runtime.StartedWith]. It is a JSON object of its own, at most 64 KiB, that no model sees, and is no place
	// for secrets. Empty is [Options].StartedWith.
	StartedWith json.RawMessage

	job     jobhook.Job[Result] // whose attempt it is; the zero value is none
	claimed bool                // its lease is the run's: no worker holds it
}

func init() {
	jobhook.Register(&jobhook.Hooks[Agent, Run, RunOptions, ResumeOptions, ForkOptions, Result]{
		Start: func(ctx context.Context, a *Agent, prompt string, o *RunOptions, job jobhook.Job[Result], answer func(*Run, error)) {
			o.job = job
			a.startLater(ctx, prompt, o, answer)
		},
		Resumes: func(o *ResumeOptions, job jobhook.Job[Result]) { o.job = job },
		Forks:   func(o *ForkOptions, job jobhook.Job[Result]) { o.job, o.keep = job, true },
		Leave:   func(run *Run, cause error) { run.leave(cause) },
		Encode:  encodeResult,
	})
}

// asked are the connections of a run, and the answerers of its servers; the runs that it
// starts share them.
type asked struct {
	servers *servers
	sampler mcpclient.Sampler // nil: the servers' own
	roots   func(ctx context.Context) ([]mcp.Root, error)
}

// boxedSampler makes a Sampler comparable, such as a function: all calls of a run then
// are known to have the same.
type boxedSampler struct{ mcpclient.Sampler }

// PrepareSample implements [mcpclient.SamplePreparer].
func (b *boxedSampler) PrepareSample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageParams, error) {
	if p, ok := b.Sampler.(mcpclient.SamplePreparer); ok {
		return p.PrepareSample(ctx, req)
	}
	return req.Params, nil
}
