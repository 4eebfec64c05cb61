package worker

import (
	"encoding/json"
	"time"

	"github.com/troupe-dev/troupe/internal/callbacks"
	"github.com/troupe-dev/troupe/store"
)

// EventType is the type of an event.
type EventType string

// The types of events.
const (
	JobStarted    EventType = "job.started"  // an attempt begins
	JobWaiting    EventType = "job.waiting"  // its run waits for a person, or for For
	JobResumed    EventType = "job.resumed"  // its run goes on
	JobRetried    EventType = "job.retried"  // an attempt failed or was lost, and another follows after Wait
	JobReturned   EventType = "job.returned" // the worker ends, and returns the job to the queue
	JobParked     EventType = "job.parked"   // it waits for a person without a worker
	JobEnded      EventType = "job.ended"    // in the state of Job
	JobLost       EventType = "job.lost"     // another worker has it, and the work here does not count
	ScheduleFired EventType = "schedule.fired"
)

// Event is an event of a job.
type Event struct {
	Type EventType `json:"type"`
	Time time.Time `json:"time"`
	// Job is its state now, without its prompt and input.
	Job   store.Job     `json:"job"`
	Wait  time.Duration `json:"wait,omitzero"` // in nanoseconds
	Error string        `json:"error,omitempty"`
	// For is the reason of the wait, if not a person.
	For string `json:"for,omitempty"`
	// Attempt is the outcome and cost of an attempt before the last: the JSON of an
	// [agent.Result]. That of the last one is Job.Result.
	Attempt json.RawMessage `json:"attempt,omitzero"`
}

// report is an [Event] that is still to be made.
type report struct {
	typ     EventType
	job     *store.Job // which is not changed any more
	wait    time.Duration
	err     string
	reason  string // of a wait
	attempt json.RawMessage
}

func (r *report) event(now time.Time) Event {
	ev := Event{Type: r.typ, Time: now, Job: *r.job, Wait: r.wait, Error: r.err, For: r.reason, Attempt: r.attempt}
	ev.Job.Prompt, ev.Job.Input = "", nil
	return ev
}

// maxEvents is how many events may wait for OnEvent before no more jobs are claimed.
const maxEvents = 4096

// emitter passes events to an observer, in order and one after the other. The claimer and the actors
// of jobs emit in passing; the observer may block, which no actor may.
type emitter struct {
	callbacks.Queue
	to func(Event)
}

func (e *emitter) emit(r report) {
	if e.to == nil {
		return
	}
	now := store.Clock(time.Now())
	e.Add(func() { e.to(r.event(now)) })
}

// full reports whether the observer is too far behind.
func (e *emitter) full() bool { return e.Len() >= maxEvents }
