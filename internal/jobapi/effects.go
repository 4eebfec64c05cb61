package jobapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// Effect is a call of a job that may have changed something: an attempt that begins anew may make
// it again.
type Effect struct {
	Tool, Server, Run string
	At                time.Time
	Unknown           bool // its outcome
}

// Effects are such calls, those of the newest attempt first.
type Effects struct {
	Calls  []Effect
	Unread int // runs that were not looked at
}

// Bounds of what is looked at for the effects of one job.
const (
	maxEffects    = 200
	maxEffectRuns = 50
)

// EffectsOf reads the calls with effects of a job: of its attempts and of the runs that they have
// started, each call once. An attempt that goes on from another has that one's calls in its journal,
// too.
func EffectsOf(ctx context.Context, s store.Journal, j *store.Job) (*Effects, error) {
	var runs []string
	for n := j.Attempts; n > 0; n-- {
		runs = append(runs, j.RunID(n))
	}
	if j.Run != "" && !slices.Contains(runs, j.Run) {
		runs = append([]string{j.Run}, runs...)
	}
	out, seen := new(Effects), make(map[string]bool)
	for i := 0; i < len(runs); i++ {
		if i == maxEffectRuns || len(out.Calls) >= maxEffects {
			out.Unread = len(runs) - i
			return out, nil
		}
		state, err := runlog.Fold(ctx, s, runs[i])
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, call := range state.Calls {
			if call.Starts() && !slices.Contains(runs, call.Run) {
				runs = append(runs, call.Run)
			}
			if call.Effect() && !seen[call.Key] {
				seen[call.Key] = true
				out.Calls = append(out.Calls, Effect{call.Tool, call.Server, runs[i], call.SentAt, !call.Done})
			}
		}
	}
	return out, nil
}

// EffectCount is how many calls of one tool have effects.
type EffectCount struct {
	Tool, Server string
	Calls        int
	Unknown      int // of them, those of unknown outcome
}

// CountEffects counts calls by their tool, by name.
func CountEffects(calls []Effect) []EffectCount {
	var out []EffectCount
	for _, c := range calls {
		i := slices.IndexFunc(out, func(n EffectCount) bool { return n.Tool == c.Tool && n.Server == c.Server })
		if i < 0 {
			i, out = len(out), append(out, EffectCount{Tool: c.Tool, Server: c.Server})
		}
		out[i].Calls++
		if c.Unknown {
			out[i].Unknown++
		}
	}
	slices.SortFunc(out, func(a, b EffectCount) int { return strings.Compare(a.Tool+"\x00"+a.Server, b.Tool+"\x00"+b.Server) })
	return out
}

// String is the count in words, such as: pay of the server bank, 2 calls, of them 1 of unknown outcome.
func (n EffectCount) String() string {
	text := n.Tool
	if n.Server != "" {
		text += " of the server " + n.Server
	}
	if n.Calls == 1 {
		text += ", 1 call"
	} else {
		text += fmt.Sprintf(", %d calls", n.Calls)
	}
	if n.Unknown > 0 {
		text += fmt.Sprintf(", of them %d of unknown outcome", n.Unknown)
	}
	return text
}

// AwaySince is since when the model's provider is away that a job waits for; zero for a job that waits
// for none.
func AwaySince(ctx context.Context, s store.Journal, j *store.Job) (time.Time, error) {
	if j.State != store.JobWaiting || j.Run == "" {
		return time.Time{}, nil
	}
	state, err := runlog.Fold(ctx, s, j.Run)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	case state.Parked == nil || state.Parked.Class == "" || state.Outage == nil:
		return time.Time{}, nil
	}
	return state.Outage.Since, nil
}
