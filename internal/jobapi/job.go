package jobapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/store"
)

// MainAgent is the agent of jobs that name none.
const MainAgent = "main"

// MaxRequest bounds the JSON of a new job, in bytes: a prompt and an input of
// [store.MaxInput] each, escaped.
const MaxRequest = 4 << 20

// Request is a new job: the body of POST /v1/jobs, or a line of a worker's stdin. A prompt or
// an input is required.
type Request struct {
	ID     string          `json:"id,omitempty"`    // empty makes one up
	Agent  string          `json:"agent,omitempty"` // empty is [MainAgent]
	Prompt string          `json:"prompt,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	// Key makes a repeated request harmless: the same key, agent, prompt and input are the
	// job that is there already.
	Key         string    `json:"key,omitempty"`
	Batch       string    `json:"batch,omitempty"`
	MaxAttempts int       `json:"maxAttempts,omitzero"` // zero is the worker's choice
	NotBefore   time.Time `json:"notBefore,omitzero"`
	Expires     time.Time `json:"expires,omitzero"`
	Timeout     string    `json:"timeout,omitempty"` // such as "10m"
	Hook        string    `json:"hook,omitempty"`    // the URL of its webhook
}

// ParseRequest reads a job strictly: an unknown member is an error, as is one twice.
func ParseRequest(data []byte) (Request, error) {
	var r Request
	if len(data) > MaxRequest {
		return r, fmt.Errorf("the job is longer than %d bytes", MaxRequest)
	}
	if err := jsonx.UnmarshalKnown(data, &r); err != nil {
		text := strings.ReplaceAll(err.Error(), " into Go jobapi.Request", "") // a name that means nothing to a client
		return r, fmt.Errorf("the job is not as expected: %s", text)
	}
	return r, nil
}

// plainID are the IDs that a path and a header can hold as they are. The store accepts
// others, too.
var plainID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Job returns the job to be queued. Guard checks its hook; a nil guard refuses hooks.
func (r *Request) Job(guard *netguard.Guard) (store.Job, error) {
	j := store.Job{ID: r.ID, Agent: cmp.Or(r.Agent, MainAgent), Key: r.Key, Batch: r.Batch, Prompt: r.Prompt, Input: r.Input,
		MaxAttempts: r.MaxAttempts, NotBefore: r.NotBefore, Expires: r.Expires, Hook: r.Hook}
	if r.ID != "" && !plainID.MatchString(r.ID) {
		return j, errors.New("id: want letters, digits, dots, dashes and underscores, with a letter or digit first")
	}
	if j.Prompt == "" && len(j.Input) == 0 {
		return j, errors.New("the job has no prompt and no input")
	}
	if r.Timeout != "" {
		d, err := time.ParseDuration(r.Timeout)
		if err != nil || d <= 0 {
			return j, fmt.Errorf("timeout %.40q: want a duration above zero, such as 10m", r.Timeout)
		}
		j.Timeout = d
	}
	if r.Hook != "" {
		if guard == nil {
			return j, errors.New("hook: webhooks are not set up here: worker.hook_secret is not set")
		}
		if err := guard.Check(r.Hook); err != nil {
			return j, fmt.Errorf("hook: %w", err)
		}
	}
	return j, nil
}

// TimeOf reads when a job is due: a duration from now, or a time. Empty is the zero time.
func TimeOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, fmt.Errorf("%.40q: want a duration such as 10m, or a time such as 2026-01-31T08:00:00Z", text)
	}
	return t, nil
}

// Standing is a job's state as a reader sees it: also cancelling, and lost, which the next worker
// takes over.
func Standing(j *store.Job, now time.Time) string {
	switch {
	case j.State.Ended():
	case j.Cancelling:
		return "cancelling"
	case j.Owner != "" && !j.Held(now):
		return "lost"
	}
	return string(j.State)
}

// Job is the JSON of a job: the answer of GET /v1/jobs/{id}, the data of a webhook, and the
// output of "troupe jobs show --json".
type Job struct {
	ID          string          `json:"id"`
	Agent       string          `json:"agent"`
	State       store.JobState  `json:"state"`
	Key         string          `json:"key,omitempty"`
	Batch       string          `json:"batch,omitempty"`
	Schedule    string          `json:"schedule,omitempty"` // that added it
	Prompt      string          `json:"prompt,omitempty"`   // in lists its first [store.BriefPrompt] characters
	Input       json.RawMessage `json:"input,omitempty"`    // not in lists
	Attempts    int             `json:"attempts"`           // runs begun
	Failures    int             `json:"failures"`           // of them, those that failed
	Losses      int             `json:"losses,omitzero"`    // workers lost while it ran, since it last came further
	MaxAttempts int             `json:"maxAttempts,omitzero"`
	Run         string          `json:"run,omitempty"`    // of the newest attempt
	Result      json.RawMessage `json:"result,omitempty"` // not in lists
	Error       string          `json:"error,omitempty"`  // why there is no result, or not yet
	Cancelling  bool            `json:"cancelling,omitzero"`
	NotBefore   time.Time       `json:"notBefore,omitzero"`
	Expires     time.Time       `json:"expires,omitzero"`
	TimeoutMS   int64           `json:"timeoutMs,omitzero"`
	Hook        string          `json:"hook,omitempty"`
	Created     time.Time       `json:"created"`
	Updated     time.Time       `json:"updated"`
	Worker      string          `json:"worker,omitempty"`  // that has it
	Lease       time.Time       `json:"lease,omitzero"`    // when its lease expires
	Warning     string          `json:"warning,omitempty"` // of the answer to POST /v1/jobs: why it may stay queued
}

// Show returns the JSON of a job.
func Show(j store.Job) Job {
	return Job{ID: j.ID, Agent: j.Agent, State: j.State, Key: j.Key, Batch: j.Batch, Schedule: j.Schedule, Prompt: j.Prompt,
		Input: j.Input, Attempts: j.Attempts, Failures: j.Failures, Losses: j.Losses, MaxAttempts: j.MaxAttempts, Run: j.Run, Result: j.Result,
		Error: j.Error, Cancelling: j.Cancelling, NotBefore: j.NotBefore, Expires: j.Expires, TimeoutMS: j.Timeout.Milliseconds(),
		Hook: j.Hook, Created: j.Created, Updated: j.Updated, Worker: j.Owner, Lease: j.Lease}
}
