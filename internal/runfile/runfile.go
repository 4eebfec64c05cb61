// Package runfile has runs as files: JSON, one value a line. Before the events of a run, which are
// those of the journal, there is a line with the run itself; the runs of sub-agents follow theirs.
package runfile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Version is that of the files that this program writes.
const Version = 1

// Bounds of a file that is read.
const (
	maxLine  = store.MaxBody + 1<<20
	maxRuns  = 1000
	maxBytes = 1 << 30
)

// header is the line before the events of a run.
type header struct {
	Version int       `json:"troupe"`
	Run     store.Run `json:"run"`
}

// Recording is one run of a file.
type Recording struct {
	Run    store.Run
	Events []store.Event
}

// Entries are the events with their bodies decoded.
func (r *Recording) Entries() ([]runlog.Entry, error) {
	all := make([]runlog.Entry, len(r.Events))
	for i, ev := range r.Events {
		var err error
		if all[i], err = runlog.Decode(ev); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Load reads a run from a store, and after it the runs that it has started.
func Load(ctx context.Context, j store.Journal, id string) ([]Recording, error) {
	head, err := j.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	rec := Recording{Run: head}
	for ev, err := range store.Replay(ctx, j, id, 0) {
		if err != nil {
			return nil, err
		}
		rec.Events = append(rec.Events, ev)
	}
	all := []Recording{rec}
	for q := (store.Query{Parent: id}); ; {
		page, err := j.Runs(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return all, nil
		}
		for _, child := range page {
			below, err := Load(ctx, j, child.ID)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
		}
		q.After = page[len(page)-1].Cursor()
	}
}

// Write writes runs.
func Write(w io.Writer, all []Recording) error {
	out := bufio.NewWriter(w)
	line := func(v any) error {
		raw, err := jsonx.Marshal(v)
		if err != nil {
			return err
		}
		_, err = out.Write(append(raw, '\n'))
		return err
	}
	for i := range all {
		if err := line(header{Version, all[i].Run}); err != nil {
			return fmt.Errorf("writing the run %s: %w", all[i].Run.ID, err)
		}
		for _, ev := range all[i].Events {
			if err := line(runlog.Public(ev)); err != nil {
				return fmt.Errorf("writing event %d of the run %s: %w", ev.Seq, all[i].Run.ID, err)
			}
		}
	}
	return out.Flush()
}

// Read reads what [Write] has written. The file is not trusted: it is bounded, and each event has
// the next number of the run before it.
func Read(r io.Reader) ([]Recording, error) {
	limited := &io.LimitedReader{R: r, N: maxBytes}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	var all []Recording
	for n := 1; lines.Scan(); n++ {
		if err := add(&all, lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("reading runs: %w", lines.Err())
	case limited.N <= 0:
		return nil, fmt.Errorf("the file has more than %d bytes", maxBytes)
	case len(all) == 0:
		return nil, errors.New("the file is empty")
	}
	return all, nil
}

// add takes a line in.
func add(all *[]Recording, line []byte) error {
	var kind struct {
		Version *int             `json:"troupe"`
		Run     *json.RawMessage `json:"run"`
		Type    *string          `json:"type"`
	}
	if err := jsonx.Unmarshal(line, &kind); err != nil {
		return err
	}
	switch {
	case kind.Version != nil && (*kind.Version < 1 || *kind.Version > Version):
		return fmt.Errorf("the file is of version %d; this program reads version %d", *kind.Version, Version)
	case kind.Version != nil:
		var h header
		if err := jsonx.Unmarshal(line, &h); err != nil {
			return err
		}
		if err := check(h.Run); err != nil {
			return err
		}
		if len(*all) == maxRuns {
			return fmt.Errorf("the file has more than %d runs", maxRuns)
		}
		*all = append(*all, Recording{Run: h.Run})
		return nil
	case kind.Type == nil || len(*all) == 0:
		return errors.New("want a run, as \"troupe runs export\" writes it, or an event of the run before")
	}
	var ev store.Event
	if err := jsonx.Unmarshal(line, &ev); err != nil {
		return err
	}
	last := &(*all)[len(*all)-1]
	if want := int64(len(last.Events) + 1); ev.Seq != want || ev.Run != last.Run.ID {
		return fmt.Errorf("want event %d of the run %s, got %d of %.80q", want, last.Run.ID, ev.Seq, ev.Run)
	}
	if err := ev.Check(); err != nil {
		return err
	}
	ev.Imported = false // the store that it is imported to says so
	if _, err := runlog.Decode(ev); err != nil {
		return err
	}
	last.Events = append(last.Events, ev)
	return nil
}

// check holds a run to the rules for one that is created, and its state to those that are known.
func check(r store.Run) error {
	switch r.State {
	case store.Running, store.Waiting, store.Finished, store.Failed, store.Cancelled, store.Limited:
	default:
		return fmt.Errorf("the run %.80q has the unknown state %.80q", r.ID, r.State)
	}
	r.State = ""
	return r.Check()
}

// importTime is how long an import holds the lease of a tree of runs.
const importTime = time.Minute

// Import adds runs to a store, each with its events as they are, which the store marks as imported: what was decided in them
// does not count here, see [Recording.Dropped]. A run that had not ended is one that no process works on. Its
// questions whether calls may be made can be answered. One that another run of the file has started is cancelled, as
// that does not go on with it; none is a job's here. Runs whose ID is taken are an error, [store.ErrExists]; those
// before them stay.
func Import(ctx context.Context, s store.Store, all []Recording, owner string) (err error) {
	heads, epochs := make([]store.Run, 0, len(all)), make(map[string]int64)
	var broken []string // they are not kept
	fail := func(id string, e error) {
		err = errors.Join(err, fmt.Errorf("importing the run %s: %w", id, e))
		if !errors.Is(e, store.ErrExists) {
			broken = append(broken, id)
		}
	}
	for i := range all {
		rec := &all[i]
		head, e := begin(ctx, s, rec, epochs[rec.Run.Parent], owner)
		if e != nil {
			fail(rec.Run.ID, e)
			break
		}
		heads, epochs[head.ID] = append(heads, head), head.Epoch
	}
	end := context.WithoutCancel(ctx)
	for i, head := range slices.Backward(heads) { // the root of a tree last, which has the lease of all
		if e := finish(ctx, s, head, &all[i]); e != nil {
			fail(head.ID, e)
		}
		if head.Root == head.ID {
			err = errors.Join(err, s.Release(end, head.ID, owner, head.Epoch))
		}
	}
	for _, id := range broken {
		if e := s.Delete(end, id); !errors.Is(e, store.ErrNotFound) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// begin records a run with its events, leased to owner with the tree that it is a part of.
func begin(ctx context.Context, s store.Store, rec *Recording, epoch int64, owner string) (store.Run, error) {
	if len(rec.Events) == 0 {
		return store.Run{}, errors.New("it has no events")
	}
	entries, err := rec.Entries()
	if err != nil {
		return store.Run{}, err
	}
	head := rec.Run
	head.State, head.Job, head.Epoch, head.Imported = "", "", epoch, int64(len(entries))
	head, err = runlog.Write(ctx, s, head, owner, importTime, entries, nil)
	if err == nil && head.Imported != int64(len(entries)) {
		err = fmt.Errorf("the store does not mark it as imported: see store.Run.Imported")
	}
	return head, err
}

// finish opens the questions of a run that has not ended, and gives it its state.
func finish(ctx context.Context, s store.Store, head store.Run, rec *Recording) error {
	a := store.Append{Run: head.ID, Owner: head.Owner, Epoch: head.Epoch, After: head.Seq, State: rec.Run.State, Summary: rec.Run.Summary}
	if !a.State.Ended() && head.Root != head.ID {
		a.State = store.Cancelled
	}
	if !a.State.Ended() {
		state, err := runlog.Fold(ctx, s, head.ID)
		if err != nil {
			return err
		}
		for _, q := range state.Asks {
			q.Ask.Run = head.ID
			if err := s.OpenAsk(ctx, q.Ask); err != nil {
				return err
			}
		}
	}
	_, err := s.Append(ctx, a)
	return err
}

// Dropped says what of the recording does not count in a store that it is imported to; none if it has nothing of it.
func (r *Recording) Dropped() (all []string, err error) {
	entries, err := r.Entries()
	if err != nil {
		return nil, err
	}
	state := runlog.StateOf(entries)
	var decisions, ofRun, open, raised, sent int
	for _, q := range state.Asks {
		_, shown := runlog.ImportedAsk(&q.Ask)
		switch {
		case q.Settled == nil && !shown && !r.Run.State.Ended():
			open++
		case q.Settled != nil && (q.Settled.Status == store.AskAccepted || q.Settled.Status == store.AskDeclined):
			if decisions++; q.Settled.Scope == runlog.ScopeRun {
				ofRun++
			}
		}
	}
	for i := range entries {
		if entries[i].Type == runlog.LimitRaisedType {
			raised++
		}
	}
	for _, c := range state.Calls {
		if c.Sent && c.Open() && !r.Run.State.Ended() {
			sent++
		}
	}
	say := func(n int, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 "+one)
		case n > 1:
			all = append(all, fmt.Sprintf("%d %s", n, many))
		}
	}
	say(decisions-ofRun, "decision", "decisions")
	say(ofRun, "approval for the whole run", "approvals for the whole run")
	say(raised, "raised limit", "raised limits")
	say(open, "open question", "open questions")
	say(sent, "call that was sent and has no result", "calls that were sent and have no result")
	if len(state.With) > 0 {
		all = append(all, "what it was started with")
	}
	return all, nil
}
