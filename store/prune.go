package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// MaxPrune bounds what one call of [Journal].PruneRuns or [Jobs].PruneJobs removes, so that
// other writers do not wait for long.
const MaxPrune = 100

// maxExcept bounds the selections that one [Prune] leaves out.
const maxExcept = 100

// Prune selects runs or jobs that have ended, to be removed: all that ended before a time, and
// all but the newest. The zero value selects none.
type Prune struct {
	Before time.Time // those that ended before this time; zero selects none by time
	Keep   int       // all but so many of the newest; zero selects none by number
	Limit  int       // at most so many, the oldest first; zero, or above MaxPrune, means MaxPrune

	// Selection narrows what is looked at: others are neither removed nor counted for Keep.
	Selection
	// Except are those that stay, and are not counted either: such as other rules decide about. At most 100.
	Except []Selection
}

// Selection is of runs and jobs that have ended, by agent and state. The zero value has all.
type Selection struct {
	Agent  string   // those of this agent; empty for any
	States []string // those in one of these [EndStates]; none for any
}

// EndStates lists the states in which runs and jobs have ended: finished is of runs only, done and
// unknown are of jobs only.
func EndStates() []string {
	return []string{string(Finished), string(JobDone), string(Failed), string(Cancelled), string(Limited), string(JobUnknown)}
}

// Check reports what is wrong with p.
func (p Prune) Check() error {
	if p.Keep < 0 || p.Limit < 0 {
		return &InvalidError{"prune", "has a number below zero"}
	}
	if len(p.Except) > maxExcept {
		return &LimitError{"prune.Except", len(p.Except), maxExcept}
	}
	for _, s := range append(p.Except[:len(p.Except):len(p.Except)], p.Selection) {
		if err := s.Check(); err != nil {
			return err
		}
	}
	return nil
}

// Check reports what is wrong with s.
func (s Selection) Check() error {
	for _, state := range s.States {
		if all := EndStates(); !slices.Contains(all, state) {
			return &InvalidError{"selection.States", fmt.Sprintf("has %.40q, in which nothing ends: want some of %v", state, all)}
		}
	}
	return checkTexts("selection.Agent", s.Agent)
}

// Has reports whether a run or job that has ended is one of s.
func (s Selection) Has(agent, state string) bool {
	return (s.Agent == "" || s.Agent == agent) && (len(s.States) == 0 || slices.Contains(s.States, state))
}

// Has reports whether p looks at a run or job that has ended, by its agent and state.
func (p Prune) Has(agent, state string) bool {
	return p.Selection.Has(agent, state) && !slices.ContainsFunc(p.Except, func(s Selection) bool { return s.Has(agent, state) })
}

// Most is the bound on what is removed.
func (p Prune) Most() int { return min(cmp.Or(p.Limit, MaxPrune), MaxPrune) }

// Shrinker is a [Store] that [PruneAll] asks to give disk back. It is optional, because not every store
// has something to give back: one in memory has no file, and a database server looks after its files itself.
type Shrinker interface {
	// Shrink gives room that nothing uses back to the system, in steps between which other writes go on, until none
	// is left or ctx ends. It returns the bytes that were given back by then, and those that are unused and stay in
	// the file. Where it cannot give any back, it returns 0, what is unused, and nil.
	Shrink(ctx context.Context) (freed, unused int64, err error)
}

// Pruned is what [PruneAll] has done.
type Pruned struct {
	Runs   int   `json:"runs"`        // removed
	Jobs   int   `json:"jobs"`        // removed
	Freed  int64 `json:"freedBytes"`  // of disk that were given back
	Unused int64 `json:"unusedBytes"` // of disk that the store has, does not need now and has kept: it uses them for what comes
}

// PruneAll removes the runs and jobs that each of these selects, page by page, until none is left or ctx
// ends. Then a [Shrinker] gives disk back. It returns what was done by then.
func PruneAll(ctx context.Context, s Store, these ...Prune) (done Pruned, err error) {
	all := func(p Prune, removed *int, prune func(context.Context, Prune) (int, error)) error {
		for {
			n, err := prune(ctx, p)
			if *removed += n; err != nil || n < p.Most() {
				return err
			}
		}
	}
	for _, p := range these {
		if err = all(p, &done.Runs, s.PruneRuns); err == nil {
			err = all(p, &done.Jobs, s.PruneJobs)
		}
		if err != nil {
			return done, err
		}
	}
	if shrinker, ok := s.(Shrinker); ok {
		done.Freed, done.Unused, err = shrinker.Shrink(ctx)
	}
	return done, err
}
