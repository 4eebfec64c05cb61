//go:build unix

package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// TestPoison: a job that kills its worker each time asks a person after a bounded number of losses, the last of
// which hit no job beside it; those are done, without a failure (SECA-53, SECA-54). It ends as the answer says.
func TestPoison(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := newFleet(t)
	poison := f.add(store.Job{ID: "poison", Agent: "a", Prompt: "die"})
	var others []string
	for i := range 7 {
		others = append(others, f.add(store.Job{ID: fmt.Sprint("long-", i), Agent: "a", Prompt: "long"}))
	}
	for i := range 20 {
		others = append(others, f.add(store.Job{ID: fmt.Sprint("plain-", i), Agent: "a", Prompt: "plain"}))
	}
	deaths := 0
	for ended := false; !ended; {
		p := f.start(ctx, "a")
		died := false
		f.until(ctx, "the poison to kill its worker or to end", func() bool {
			died = closed(p.quiet)
			j, err := f.store.Job(ctx, poison)
			if err != nil {
				t.Fatal(err)
			}
			if j.State == store.JobWaiting && f.left(ctx) == 1 {
				asks, err := f.store.Asks(ctx, store.AskQuery{Run: j.Run, Status: store.AskPending})
				if err != nil || len(asks) > 1 {
					t.Fatalf("Asks: got %+v, %v", asks, err)
				}
				for _, a := range asks {
					if _, err := f.store.SettleAsk(ctx, a.ID, store.Decision{Status: store.AskDeclined, By: "ada"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			ended = j.State.Ended()
			return died || ended && f.left(ctx) == 0
		})
		if died {
			ended = false
			_ = p.cmd.Wait() // it was killed
			if deaths++; deaths > childLosses+2 {
				t.Fatalf("the worker has died %d times of a job that may lose %d", deaths, childLosses)
			}
			continue
		}
		f.end(ctx, p)
	}
	j, err := f.store.Job(ctx, poison)
	if err != nil || j.State != store.JobCancelled || j.Losses != childLosses || j.Failures != 0 {
		t.Errorf("the poison: got %s after %d losses and %d failures, %v (%s), want cancelled by a person after %d losses", j.State, j.Losses, j.Failures, err, j.Error, childLosses)
	}
	for _, id := range others {
		if j, err := f.store.Job(ctx, id); err != nil || j.State != store.JobDone || j.Losses > 2 || j.Failures > 0 {
			t.Errorf("job %q beside it: got %s, %v (%s), %d losses, want done after 2 losses at most", id, j.State, err, j.Error, j.Losses)
		}
	}
	if deaths != childLosses {
		t.Errorf("deaths of workers: got %d, want %d", deaths, childLosses)
	}
}

// left counts the jobs that have not ended.
func (f *fleet) left(ctx context.Context) (n int) {
	f.t.Helper()
	counts, err := f.store.JobCounts(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for state, jobs := range counts {
		if !state.Ended() {
			n += jobs
		}
	}
	if _, err := f.store.Job(ctx, "probe"); err == nil { // of stand
		n--
	}
	return n
}

// TestRandomDeaths: two workers are killed, and stand still past their leases, at random moments. Every job
// ends once, and no unsafe call is made twice (SECA-53).
func TestRandomDeaths(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; not with -short")
	}
	rounds, jobs := 8, 900
	if raceEnabled {
		rounds, jobs = 1, 24
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := newFleet(t)
	kinds := map[string]string{}
	for i := range jobs {
		kind := []string{"plain", "safe", "unsafe"}[i%3]
		kinds[f.add(store.Job{ID: fmt.Sprintf("%s-%d", kind, i), Agent: "a", Prompt: kind, MaxAttempts: 50})] = kind
	}
	fleet := []*process{f.start(ctx, "a"), f.start(ctx, "a")}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	for range rounds {
		i := dice.IntN(2)
		f.wait(ctx, time.Duration(dice.IntN(300))*time.Millisecond)
		p := fleet[i]
		if dice.IntN(3) == 0 {
			f.stand(p)
			f.wait(ctx, childLease+time.Second)
			p.signal(t, syscall.SIGCONT)
			continue
		}
		f.kill(ctx, p)
		fleet[i] = f.start(ctx, "a")
	}
	f.until(ctx, "all jobs to end", func() bool {
		f.answer(ctx, store.AskQuery{Status: store.AskPending})
		return f.left(ctx) == 0
	})
	for _, p := range fleet {
		f.end(ctx, p)
	}
	effects, states := f.effects(), map[store.JobState]int{}
	for id, kind := range kinds {
		j, err := f.store.Job(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		states[j.State]++
		n := effects[id]
		switch {
		case j.State != store.JobDone:
			t.Errorf("job %q: got %s (%s), want done", id, j.State, j.Error)
		case kind == "plain" && n != 0, kind == "safe" && n < 1, kind == "unsafe" && n > 1:
			t.Errorf("job %q, done: got %d effects", id, n)
		}
		if len(f.ends[id]) > 1 {
			t.Errorf("job %q: its end was told %v, want once", id, f.ends[id])
		}
	}
	t.Logf("jobs: %v", states)
}

// wait listens to the children for a while.
func (f *fleet) wait(ctx context.Context, d time.Duration) {
	f.t.Helper()
	end := time.Now().Add(d)
	f.until(ctx, "a moment", func() bool { return !time.Now().Before(end) })
}
