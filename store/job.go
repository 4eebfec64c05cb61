package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// JobState is where a job stands.
type JobState string

// States of a job. The last five end it; all of them but the first can be tried
// again by a human: see [Jobs].RetryJob.
const (
	JobQueued    JobState = "queued"  // until a worker claims it, and NotBefore has come
	JobRunning   JobState = "running" // a worker has it
	JobWaiting   JobState = "waiting" // its run waits for a human
	JobDone      JobState = "done"    // with a result
	JobFailed    JobState = "failed"
	JobCancelled JobState = "cancelled"
	JobLimited   JobState = "limited" // a limit or a budget was reached
	// JobUnknown is a job whose effects cannot be known: its worker was lost when a call
	// that must not be made twice may have been made. Only a person repeats it.
	JobUnknown JobState = "unknown"
)

// JobStates lists all states, in the order of a job's life.
func JobStates() []JobState {
	return []JobState{JobQueued, JobRunning, JobWaiting, JobDone, JobFailed, JobCancelled, JobLimited, JobUnknown}
}

// Ended reports whether a job in this state is over.
func (s JobState) Ended() bool {
	switch s {
	case JobDone, JobFailed, JobCancelled, JobLimited, JobUnknown:
		return true
	}
	return false
}

func (s JobState) known() bool {
	return s == JobQueued || s == JobRunning || s == JobWaiting || s.Ended()
}

// Job is a piece of work for an agent, done by the first worker that claims it.
type Job struct {
	ID    string `json:"id"`              // at most [MaxJobID] characters; empty means a random one
	Agent string `json:"agent"`           // name of the agent
	Key   string `json:"key,omitempty"`   // idempotency key: no two jobs have the same; empty for none
	Batch string `json:"batch,omitempty"` // jobs that belong together

	Prompt string          `json:"prompt,omitempty"` // at most [MaxInput] bytes
	Input  json.RawMessage `json:"input,omitzero"`   // structured input, at most MaxInput bytes

	MaxAttempts int           `json:"maxAttempts,omitzero"` // failures that end it; zero is the worker's choice
	NotBefore   time.Time     `json:"notBefore,omitzero"`   // it is not begun before; zero is at once
	Expires     time.Time     `json:"expires,omitzero"`     // it is not begun after; zero is never
	Timeout     time.Duration `json:"timeout,omitzero"`     // of one attempt, without waits for a human; zero is the agent's limit
	Hook        string        `json:"hook,omitempty"`       // URL that is notified of its end
	Schedule    string        `json:"schedule,omitempty"`   // name of the schedule that added it

	// What follows is set by the store and by workers.

	State    JobState `json:"state"`
	Attempts int      `json:"attempts"`          // runs begun
	Failures int      `json:"failures,omitzero"` // of them, those that failed
	Losses   int      `json:"losses,omitzero"`   // workers that were lost while it ran, since it last came further
	Run      string   `json:"run,omitempty"`     // of the newest attempt
	// From is the run that an attempt goes on from, as a fork that keeps its keys and what it has spent: the next
	// attempt of a job that is queued, else the newest one. Empty for one that begins anew.
	From string `json:"from,omitempty"`
	// Progress is how far the job's run had come at the last loss that was counted: see [JobUpdate].Progress.
	Progress int64           `json:"progress,omitzero"`
	Result   json.RawMessage `json:"result,omitzero"` // the outcome and its cost
	Error    string          `json:"error,omitempty"` // why there is no result, or not yet
	// Cancelling says that its cancellation was requested; its worker cancels it.
	Cancelling bool `json:"cancelling,omitzero"`
	// Untold says that the job has ended and that no caller has claimed the delivery of its
	// webhook yet: see [Jobs].ClaimNotification.
	Untold bool `json:"untold,omitzero"`

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"` // when its state last changed

	Owner string    `json:"owner,omitempty"` // the worker that holds the lease; empty for none
	Epoch int64     `json:"epoch"`           // raised by every claim
	Lease time.Time `json:"lease,omitzero"`  // when the lease expires
	Lost  bool      `json:"-"`               // set by ClaimJobs: another worker had begun it and its lease has expired
}

// NewJobID returns an ID of 55 random bits. Those made one after the other begin alike, for some hours: an index
// has them side by side.
func NewJobID() string {
	const digits = "234567abcdefghijklmnopqrstuvwxyz" // in the order of their bytes
	id := []byte("job-    ")
	for i, n := len(id)-1, time.Now().UnixMilli()/8; id[i] == ' '; i, n = i-1, n/32 {
		id[i] = digits[n%32]
	}
	return string(id) + strings.ToLower(rand.Text()[:11])
}

// InputHash identifies what a job is to do: its agent, prompt and input.
func (j Job) InputHash() string {
	input := []byte(j.Input)
	if canonical, err := jsonx.Exact(input); len(input) > 0 && err == nil {
		input = canonical
	}
	h := sha256.New()
	for _, part := range []string{j.Agent, j.Prompt, string(input)} {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// RunID is the ID of the run that is the attempt with that number, from one.
func (j Job) RunID(attempt int) string { return j.ID + "." + strconv.Itoa(attempt) }

// Cursor is where the page after j begins: see [JobQuery.After].
func (j Job) Cursor() string { return Cursor{j.Created, j.ID}.String() }

// Bytes returns the size of what j carries, as [MaxPageBytes] counts it.
func (j Job) Bytes() int { return len(j.Prompt) + len(j.Input) + len(j.Result) }

// Due is when the job can be begun.
func (j Job) Due() time.Time {
	if j.NotBefore.After(j.Created) {
		return j.NotBefore
	}
	return j.Created
}

// Brief returns j without its input and result, and with the first [BriefPrompt]
// characters of its prompt.
func (j Job) Brief() Job {
	if runes := 0; len(j.Prompt) > BriefPrompt {
		for i := range j.Prompt {
			if runes++; runes > BriefPrompt {
				j.Prompt = j.Prompt[:i]
				break
			}
		}
	}
	j.Input, j.Result = nil, nil
	return j
}

// JobLease names a lease on a job.
type JobLease struct {
	ID    string
	Epoch int64
}

// JobUpdate is what the worker that holds a job writes of it.
type JobUpdate struct {
	JobLease
	Owner string

	// State is the one the job has afterwards; "" leaves it. Queued and those that
	// end a job end its lease too. A job that is queued after a failure (Failed) goes on from its Run: see [Job].From.
	State JobState
	// Release ends the lease in any case: no worker holds a job that waits.
	Release bool
	// Failed counts one more failure, and Lost one more loss of a worker: the first one, where Progress is above that
	// of the job, which then is that of the job.
	Failed, Lost bool
	// Progress is how far the run had come when its worker was lost, as the number of an event; zero where that is
	// not known.
	Progress int64
	// NotBefore is when a job that is queued again, or released in the state waiting, is due; zero is at once, or with
	// Waits once one of them is decided. In any case that is a second from now at the earliest.
	NotBefore time.Time
	// Waits are the questions that a job waits for which is released in the state waiting, at most
	// [MaxWaits]: it is given out again once one of them is decided or has expired, also before NotBefore.
	Waits  []string
	Result json.RawMessage // nil leaves it
	Error  string          // replaces the one before; cut to [MaxText] by the caller

	// Known, of an [Append] only, is the job as the holder of its lease knows it, which spares the store
	// a read; nil where it does not.
	Known *Job
	// Ended, of an [Append] only, receives the job as the append has ended it. It is left alone where the
	// append does not end the job, or had come through before: read the job. Nil for none.
	Ended *Job
}

// MaxWaits bounds [JobUpdate].Waits.
const MaxWaits = 256

// JobQuery selects jobs. Zero fields select all.
type JobQuery struct {
	Beginning  string     // of the ID
	States     []JobState // any of these
	Agent      string
	Batch      string
	Schedule   string
	Owner      string // who holds the lease
	Cancelling bool   // those with a cancellation request that have not ended
	Untold     bool   // those whose webhook no caller has claimed: see [Job]

	Brief bool   // as [Job.Brief] has them
	Limit int    // zero, or above [MaxPage], means MaxPage
	After string // [Job.Cursor] of the last job of the page before; empty for the first page
}

// Schedule adds a job again and again.
type Schedule struct {
	Name string `json:"name"` // held to the rule for IDs
	Cron string `json:"cron"` // when; the store does not look into it
	Zone string `json:"zone,omitempty"`

	Agent       string          `json:"agent"`
	Prompt      string          `json:"prompt,omitempty"`
	Input       json.RawMessage `json:"input,omitzero"`
	Batch       string          `json:"batch,omitempty"`
	MaxAttempts int             `json:"maxAttempts,omitzero"`
	Timeout     time.Duration   `json:"timeout,omitzero"`
	Hook        string          `json:"hook,omitempty"`

	// Overlap lets it add a job while the last one has not ended. Otherwise that
	// firing is left out, so that jobs which take too long do not pile up.
	Overlap bool `json:"overlap,omitzero"`
	Paused  bool `json:"paused,omitzero"`

	Next    time.Time `json:"next,omitzero"` // when it fires; set by the first put and by each firing
	Last    time.Time `json:"last,omitzero"` // the time it last fired for
	LastJob string    `json:"lastJob,omitempty"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Job returns the job of a firing.
func (s Schedule) Job() Job {
	return Job{Agent: s.Agent, Prompt: s.Prompt, Input: s.Input, Batch: s.Batch, MaxAttempts: s.MaxAttempts,
		Timeout: s.Timeout, Hook: s.Hook, Schedule: s.Name}
}
