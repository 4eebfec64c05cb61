//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Moments: what a job was doing, by what its runs have recorded.
const (
	inQueue   = "queued"
	asked     = "model asked"
	between   = "between calls"
	sent      = "call sent"
	question  = "question open"
	parked    = "parked"
	providers = "waits for the provider"
	ending    = "ending"
)

var moments = []string{inQueue, asked, between, sent, question, parked, providers, ending}

// tree is the runs of a job's newest attempt, the root first.
func tree(ctx context.Context, s store.Store, root string) (runs []store.Run, entries map[string][]runlog.Entry, err error) {
	entries = make(map[string][]runlog.Entry)
	r, err := s.Run(ctx, root)
	if err != nil {
		return nil, nil, err
	}
	runs = append(runs, r)
	for i := 0; i < len(runs); i++ {
		if entries[runs[i].ID], err = runlog.Entries(ctx, s, runs[i].ID); err != nil {
			return nil, nil, err
		}
		below, err := s.Runs(ctx, store.Query{Parent: runs[i].ID})
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, below...)
	}
	return runs, entries, nil
}

// moment is what a job does; empty where it has ended, or nothing can be read.
func moment(ctx context.Context, s store.Store, j store.Job) string {
	if j.State.Ended() {
		return ""
	}
	if j.State == store.JobQueued || j.Run == "" {
		return inQueue
	}
	_, entries, err := tree(ctx, s, j.Run)
	if err != nil {
		return inQueue // it was claimed, and its run was not begun
	}
	does := make(map[string]bool)
	for _, all := range entries {
		does[phase(all)] = true
	}
	for _, m := range []string{ending, providers, sent, question, asked} {
		if does[m] && m != providers && (m != question || j.Owner != "") || m == providers && does[m] && j.Owner == "" {
			return m
		}
	}
	if j.Owner == "" {
		return parked
	}
	return between
}

// phase is what one run does, by its journal.
func phase(all []runlog.Entry) string {
	calls, asks := make(map[string]bool), make(map[string]bool)
	model, ends, outage := false, false, false
	for _, e := range all {
		switch e.Type {
		case runlog.ModelIntentType:
			model = true
		case store.ModelResult, runlog.ModelFailedType:
			model = false
		case store.ToolDispatched:
			calls[e.Key] = true
		case store.ToolResult, store.ToolUnknown:
			delete(calls, e.Key)
		case store.AskOpened:
			asks[e.Key] = true
		case store.AskSettled:
			delete(asks, e.Key)
		case "run.ending":
			ends = true
		case runlog.RunParkedType:
			raw, _ := json.Marshal(e.Body)
			var b struct{ Class string }
			_ = json.Unmarshal(raw, &b)
			outage = b.Class != ""
		case runlog.RunResumedType:
			outage = false
		case store.RunFinished:
			return ""
		}
	}
	switch {
	case ends:
		return ending
	case outage:
		return providers
	case len(calls) > 0 && len(asks) == 0:
		return sent
	case len(asks) > 0:
		return question
	case model:
		return asked
	}
	return between
}

// reached counts the pairs of a fault and a moment.
type reached struct {
	mu    *sync.Mutex // guards pairs
	pairs map[[2]string]int
}

// one counts one pair; an empty moment is none.
func (r reached) one(fault, moment string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if moment != "" {
		r.pairs[[2]string{fault, moment}]++
	}
}

// note looks at what all jobs did that a worker has, or all of them with an empty name, when a fault came.
func (r reached) note(ctx context.Context, w *world, fault, name string) {
	w.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.jobs))
	w.mu.Unlock()
	for _, id := range ids {
		j, err := w.s.Job(ctx, id)
		if err != nil || name != "" && !strings.HasPrefix(j.Owner, name+"-") {
			continue
		}
		r.one(fault, moment(ctx, w.s, j))
	}
}

// String is the table.
func (r reached) String() string {
	faults := make(map[string]bool)
	pairs := 0
	for k := range r.pairs {
		faults[k[0]] = true
		pairs++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d pairs of fault and moment were reached, of %d faults:\n%-22s", pairs, len(faults), "")
	for _, m := range moments {
		fmt.Fprintf(&b, " %13.13s", m)
	}
	for _, f := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&b, "\n%-22s", f)
		for _, m := range moments {
			if n := r.pairs[[2]string{f, m}]; n > 0 {
				fmt.Fprintf(&b, " %13d", n)
			} else {
				fmt.Fprintf(&b, " %13s", "-")
			}
		}
	}
	return b.String()
}
