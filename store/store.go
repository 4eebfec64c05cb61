// Package store defines what Troupe keeps across a crash: seven small interfaces over
// one set of values.
//
//   - [Journal]: runs and their events, append-only. The state of a run is a
//     fold of its events.
//   - [Leases]: the right to append to the runs of a tree: a run with those that it has started, and that these have. A
//     tree has one lease; that of a tree whose root is the attempt of a job is the job's. Each claim raises
//     the epoch, and every append is conditional on owner and epoch, so a writer that lost its lease without
//     noticing is fenced off.
//   - [Asks]: questions that wait for a human, decided exactly once.
//   - [Approvals]: recorded consent to start a configured server.
//   - [Pins]: the definitions of tools that a person has approved.
//   - [Records]: values with an owner and an expiry, such as the tasks that clients
//     have started on a server.
//   - [Jobs]: a queue of work for workers, with the schedules that add to it.
//
// [Store] is all of them. Package memstore keeps them in memory, package sqlite
// in a file; a new store runs the suite of package storetest.
//
// # What is promised
//
//   - Every method may be used from any goroutine, and by several processes
//     where the store is a file.
//   - A write is atomic, and durable when its method returns nil.
//   - Sequence numbers of a run start at 1 and have no gap.
//   - When a context ends, a write that has not begun is withdrawn and the
//     context's cause returned; of one that has begun the true outcome is
//     returned if it is known within a bounded time. If it is not, such as after a
//     lost connection to a database, the error is temporary ([Passing]); the same
//     Append made again adds nothing twice: see [Append.After].
//   - Every argument is validated and bounded before it is used ([ErrInvalid],
//     [ErrTooLarge]). Names are data: a store never builds a query, a pattern
//     or a path from one.
//   - Times are kept in UTC to the microsecond.
//   - After Close every method returns [ErrClosed].
//
// The package only imports the standard library and the JSON codec.
package store

import (
	"context"
	"time"
)

// Journal holds runs and their events.
type Journal interface {
	// Create records a new run with its first events.
	// Of r it takes ID, Agent, Parent, Job, Epoch, Title, Summary, State ("" means
	// [Running]), InputHash and Imported; the rest is set by the store.
	//
	// A run without Parent and Job is the root of a tree that is leased to owner for ttl. Its epoch is
	// 1, or higher in a store from which runs have been deleted. The same is one whose Parent is not in the store.
	// One with Job is the newest attempt of that job (its Run), and one with Parent is a part of its parent's tree: for
	// either owner has to hold the lease under r.Epoch. It stays as it is: Expires of the run that is returned
	// says how much longer than Created it lasts. [ErrFenced] if owner does not hold it, or the parent has ended.
	//
	// A run of that ID gives [ErrExists] and is returned as it is, so that a
	// caller can compare InputHash and tell a repeat from a clash.
	Create(ctx context.Context, r Run, owner string, ttl time.Duration, first ...Event) (Run, error)

	// Append adds events to a run and opens and settles its asks, all or none, and
	// returns the number of the last event. Errors: [ErrNotFound]; [ErrFinished] if
	// the run has ended; [ErrFenced] if a.Owner does not have the lease of the run's tree under a.Epoch, as it
	// is in the same transaction; [ErrConflict] if a.After is not the number of the run's last event.
	//
	// If exactly these events stand behind a.After already, written under the same
	// epoch, which is still that of the lease, this is a repeat: it changes nothing and returns what the first did,
	// also where that has ended the run.
	//
	// With a.Job the end of a run and that of its job are written together.
	//
	// Of a.Asks one that the run has opened before, with the same Hash, stays as it
	// is; another of that ID is [ErrExists]. If an ask of a.Settle is settled, or
	// has expired, the error is [ErrSettled], and [ErrNotFound] if the run has none
	// of that ID.
	Append(ctx context.Context, a Append) (last int64, err error)

	// Events returns the events of a run with a number above after, in order. A
	// limit of zero, or above [MaxPage], means MaxPage. A page ends early before
	// its bodies exceed [MaxPageBytes], but has at least one event if there is
	// one: an empty page is the end. See [Replay].
	Events(ctx context.Context, run string, after int64, limit int) ([]Event, error)

	// Run returns a run, or [ErrNotFound].
	Run(ctx context.Context, id string) (Run, error)

	// Runs lists runs, newest first. An empty page is the end.
	Runs(ctx context.Context, q Query) ([]Run, error)

	// Delete removes a run, its events and its asks. [ErrLeased] while an
	// unexpired lease on it exists.
	Delete(ctx context.Context, id string) error

	// PruneRuns removes runs that have ended, with their events and asks, the oldest
	// first, and returns how many. A run stays as long as the run that started it has
	// not ended. See [Prune]; a result below its limit is the end.
	PruneRuns(ctx context.Context, p Prune) (removed int, err error)
}

// Leases gives one process at a time the right to append to the runs of a tree. An expired lease does not stop its
// holder from appending; being claimed by another does. Each run of a tree stands for the lease of the tree, which
// is the job's that [Jobs] acts on where the root is the newest attempt of a job that has not ended.
type Leases interface {
	// Claim leases the tree of a run to owner for ttl and raises the epoch, also for the
	// owner it already has. A job that waits, or is queued, is running then. Errors: [ErrNotFound];
	// [ErrFinished] if the run has ended; and [ErrLeased] while another's lease has not expired. In the last two the
	// run is returned as it is.
	Claim(ctx context.Context, run, owner string, ttl time.Duration) (Run, error)

	// Renew makes a lease last for ttl from now. An expired lease can
	// be renewed until another owner claims the run. Errors: [ErrNotFound], [ErrFinished],
	// [ErrFenced].
	Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error

	// Release gives a lease up; nothing can be appended until the next claim.
	// Releasing again, or after the run has ended, is no error. A job then waits without an owner, and is given out
	// once one of the tree's pending asks is decided or expires; after a second, if there is none. Errors:
	// [ErrNotFound], [ErrFenced].
	Release(ctx context.Context, run, owner string, epoch int64) error
}

// Asks holds questions that wait for a person.
type Asks interface {
	// OpenAsk records a pending ask. Created and the decision are set by the
	// store. Errors: [ErrExists]; [ErrNotFound] if its run does not
	// exist; [ErrFinished] if that run has ended.
	//
	// A run that journals its asks opens them with [Journal.Append], so that there
	// is no event without its ask, nor the other way round.
	OpenAsk(ctx context.Context, a Ask) error

	// SettleAsk decides a pending ask. Exactly one caller ever gets nil; the
	// others get [ErrSettled] and the ask as it was decided. An ask whose
	// Expires has passed is already settled, as [AskExpired]. [ErrNotFound] if
	// there is none.
	SettleAsk(ctx context.Context, id string, d Decision) (Ask, error)

	// Ask returns an ask, or [ErrNotFound].
	Ask(ctx context.Context, id string) (Ask, error)

	// Asks lists asks, newest first. A page ends early as one of Events does.
	Asks(ctx context.Context, q AskQuery) ([]Ask, error)

	// SettledAsks lists the asks that were settled after a place in the order in which
	// that happened, and the place to go on from; expiry does not count. A negative place is
	// the end: it returns no ask, and the place after which later ones come. A poller
	// pays only for what is new.
	SettledAsks(ctx context.Context, after int64, limit int) (asks []Ask, last int64, err error)
}

// Approvals holds recorded consent to start configured servers.
type Approvals interface {
	// Approve records consent. The same (File, Server, Hash) again replaces what
	// was recorded. At most [MaxApprovals] are kept.
	Approve(ctx context.Context, a Approval) error

	// Approved looks for consent to exactly this definition.
	Approved(ctx context.Context, file, server, hash string) (Approval, bool, error)

	// Approvals lists all, by file, server and hash.
	Approvals(ctx context.Context) ([]Approval, error)

	// Revoke withdraws consent to one definition, or with hash "" to every
	// definition of that server in that file. [ErrNotFound] if there was none.
	Revoke(ctx context.Context, file, server, hash string) error
}

// Pins holds the definitions of tools as they were when first called, or last approved.
type Pins interface {
	// SetPin records the definition of a tool. The same (Source, Server, Tool) again replaces
	// what was recorded. At most [MaxPins] are kept; a further one is a
	// [LimitError].
	SetPin(ctx context.Context, p Pin) error

	// Pin returns the recorded definition of a tool, if there is one.
	Pin(ctx context.Context, source, server, tool string) (Pin, bool, error)

	// Pins lists all, by source, server and tool.
	Pins(ctx context.Context) ([]Pin, error)

	// Unpin removes the record of a tool, or with tool "" all of that server of that source.
	// [ErrNotFound] if there was none.
	Unpin(ctx context.Context, source, server, tool string) error
}

// Records holds values that expire. An owner sees its own records only, whatever the
// key, and cannot use up the space of the others: at most [MaxOwned] records with
// [MaxOwnedBytes] of values are kept for one owner, and [MaxRecords] for all. A further
// one is a [LimitError]; no record is dropped for another.
type Records interface {
	// PutRecord adds a record, or replaces the one of the same kind, owner and key.
	PutRecord(ctx context.Context, r Record) error

	// Record returns a record, or [ErrNotFound].
	Record(ctx context.Context, kind, owner, key string) (Record, error)

	// Records lists the records of one kind and owner, by key. A page ends early as
	// one of Events does; an empty one is the end.
	Records(ctx context.Context, q RecordQuery) ([]Record, error)

	// DeleteRecord removes a record. [ErrNotFound] if there is none.
	DeleteRecord(ctx context.Context, kind, owner, key string) error
}

// Vault holds sealed secrets: tokens of authorization servers, registrations of clients,
// connected accounts. At most [MaxSecrets] are kept; a further one is a [LimitError]. A lease
// on a secret gives one caller at a time, in all processes, the right to renew it; it binds
// only callers that ask for it, and the secret need not exist.
type Vault interface {
	// PutSealed adds a secret, or replaces the one of that kind and key whose version is
	// replaces, 0 for none. If the version is another, or s.Version is not greater, the error
	// is [ErrConflict].
	PutSealed(ctx context.Context, s Sealed, replaces int64) error

	// Sealed returns a secret, or [ErrNotFound].
	Sealed(ctx context.Context, kind, key string) (Sealed, error)

	// AllSealed lists the secrets of a kind, by key, from the first key above after. Limit is
	// as in a [RecordQuery]; an empty page is the end.
	AllSealed(ctx context.Context, kind, after string, limit int) ([]Sealed, error)

	// DeleteSealed removes a secret. [ErrNotFound] if there is none.
	DeleteSealed(ctx context.Context, kind, key string) error

	// LeaseSealed leases a secret to owner for ttl, again if owner has the lease already.
	// [ErrLeased] while another's lease has not expired.
	LeaseSealed(ctx context.Context, kind, key, owner string, ttl time.Duration) error

	// ReleaseSealed gives a lease up. It does nothing if owner has none.
	ReleaseSealed(ctx context.Context, kind, key, owner string) error
}

// Jobs is a queue of work for any number of workers in any number of processes, and
// the schedules that add to it. A job is worked on by the one that holds its lease;
// each claim raises the job's epoch, and every update is conditional on it, so that a
// worker that lost its lease without noticing is fenced off.
type Jobs interface {
	// AddJob queues a job. Of j it takes the fields down to Schedule; the rest is set by
	// the store. A job of that ID, or that Key, gives an error and is returned as it is:
	// [ErrRepeated] if it has the same InputHash, else [ErrExists].
	AddJob(ctx context.Context, j Job) (Job, error)

	// ClaimJobs leases up to n jobs of these agents to owner for ttl, each to one owner
	// only: queued ones that are due, the longest due first, which then are running with
	// Attempts raised and Run set, and before them those that a worker has lost, or released
	// while they wait (Lost is set, and only lease and epoch have changed). None is given out within a second of its
	// release. A job whose expired lease is owner's own
	// is not given out: the clock may have jumped, and RenewJobs still renews it. Also ones
	// past Expires are given out, for a worker has to end them. Except are IDs of lost and
	// released ones that are left to others, [MaxClaim] at most. No job is not an error.
	ClaimJobs(ctx context.Context, owner string, n int, ttl time.Duration, agents []string, except ...string) ([]Job, error)

	// RenewJobs makes leases last for ttl from now, and returns which of them are still
	// held. An expired one that no other owner has claimed counts as held. At most [MaxClaim].
	RenewJobs(ctx context.Context, owner string, ttl time.Duration, leases []JobLease) (held []JobLease, err error)

	// UpdateJob writes how a job stands. If a job with a cancellation request
	// (Cancelling) is to be queued again, it is cancelled instead: check the returned
	// state. Errors: [ErrNotFound]; [ErrFinished], and the job as it is, if it has ended;
	// [ErrFenced] if the lease is no longer held.
	UpdateJob(ctx context.Context, u JobUpdate) (Job, error)

	// CancelJob ends a job that is queued, as cancelled. A job that is, or was, being worked on
	// is marked (Cancelling) for its worker, or the next one, to cancel.
	// [ErrFinished], and the job as it is, if it has ended.
	CancelJob(ctx context.Context, id string) (Job, error)

	// RetryJob queues a job again, with no failures and losses counted: one that failed, was
	// cancelled or limited, or whose outcome is unknown. It goes on from its last run (From), or with
	// fromStart begins anew, which is a person's permission to make calls again. One that waits without
	// a lease has a run that has not ended: without fromStart it is given out at once, whatever it waits for.
	// Others are [ErrInvalid], and returned as they are.
	RetryJob(ctx context.Context, id string, fromStart bool) (Job, error)

	// ClaimNotification records that the caller will deliver the webhook (Hook) of a job that
	// has ended, and keeps a record for it, both or none; a nil record keeps none. Exactly one
	// caller succeeds; the others get [ErrFenced], as for an end of another epoch.
	ClaimNotification(ctx context.Context, id string, epoch int64, r *Record) error

	// Job returns a job, or [ErrNotFound].
	Job(ctx context.Context, id string) (Job, error)

	// Jobs lists jobs, newest first. A page ends early as one of Events does; an empty
	// one is the end.
	Jobs(ctx context.Context, q JobQuery) ([]Job, error)

	// JobCounts returns how many jobs there are in each state; none is left out.
	JobCounts(ctx context.Context) (map[JobState]int, error)

	// DeleteJob removes a job, and not its runs. [ErrLeased] while an
	// unexpired lease on it exists.
	DeleteJob(ctx context.Context, id string) error

	// PruneJobs removes jobs that have ended, and not their runs, the oldest first, and
	// returns how many. A job whose webhook no caller has claimed stays. See [Prune].
	PruneJobs(ctx context.Context, p Prune) (removed int, err error)

	// PutSchedule adds a schedule, or replaces the one of that name but for when it was
	// created and when it last fired. Next of s counts for a new one, for one whose Cron or
	// Zone change, and for one that was paused or did not fire any more; else the recorded
	// one stays, so that a firing meanwhile is not undone. At most [MaxSchedules]: see [LimitError].
	PutSchedule(ctx context.Context, s Schedule) (Schedule, error)

	// Schedules lists all, by name.
	Schedules(ctx context.Context) ([]Schedule, error)

	// DeleteSchedule removes a schedule, and not its jobs. [ErrNotFound] if there is none.
	DeleteSchedule(ctx context.Context, name string) error

	// FireSchedule adds the schedule's job for the time at, and moves it on to next, both
	// or none: exactly one caller ever gets the job of a firing. Errors: [ErrFenced] if
	// Next is not at (any more), or the schedule is paused; [ErrNotFound]. A job with
	// no ID was left out, as the last one has not ended.
	FireSchedule(ctx context.Context, name string, at, next time.Time) (Job, error)
}

// Store is everything that is kept.
type Store interface {
	Journal
	Leases
	Asks
	Approvals
	Pins
	Records
	Vault
	Jobs

	// Backlog returns what waits in the store. It reads what waits and the newest jobs of each schedule, and
	// nothing of what has ended otherwise.
	Backlog(ctx context.Context) (Backlog, error)

	// Close makes what was accepted durable and ends the store. Closing again
	// does nothing.
	Close() error
}
