//go:build linux

package killmatrix

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// kills is how often the process of a run is killed at random moments.
const kills = 20

// TestKillMatrixRandom: a run of three agents, with tasks of a server of 2026-07-28 under way, whose process is
// killed at twenty random moments, ends as one that was left alone.
func TestKillMatrixRandom(t *testing.T) {
	seeds := 1
	if whole {
		seeds = 5
	}
	want := calm(t, transports[1], "crowd")
	cases := make(map[string]func(*testing.T))
	for range seeds {
		seed := rand.Uint64()
		if text := os.Getenv("KILL_SEED"); text != "" {
			seed, _ = strconv.ParseUint(text, 10, 64)
		}
		cases[fmt.Sprintf("KILL_SEED=%d", seed)] = func(t *testing.T) {
			began := time.Now()
			got := newWorld(t, transports[1], "crowd").killOften(rand.New(rand.NewPCG(seed, 0)))
			if got.unknown > 0 { // that a person reports what happened is read with each later turn
				got.Tokens = want.Tokens + got.lost
			}
			got.compare(t, point{}, want)
			t.Logf("%d tokens of turns that were lost, %d calls of unknown outcome, %v", got.lost, got.unknown, time.Since(began).Round(time.Second))
		}
	}
	sideBySide(t, working, cases)
}

// killOften kills process after process at a random moment, and lets the last one end.
func (w *world) killOften(r *rand.Rand) *outcome {
	w.t.Helper()
	ctx, end := w.begin()
	defer end()
	for n := range kills {
		p := w.start(ctx, w.job)
		w.await(p, "the process has begun", func() bool {
			raw, err := os.ReadFile(w.job.Orders + ".pid")
			return err == nil && string(raw) == strconv.Itoa(p.pid)
		})
		select {
		case <-time.After(time.Duration(r.Int64N(int64(300 * time.Millisecond)))):
		case <-p.ended:
			w.t.Fatalf("the run has ended after %d kills, want %d: it is too short", n, kills)
		}
		if err := p.cmd.Process.Kill(); err != nil {
			w.t.Fatal(err)
		}
		<-p.ended
		w.release(ctx)
	}
	last, err := w.host(ctx, w.job)
	if err != nil {
		w.t.Fatal(err)
	}
	out := &outcome{report: *last}
	w.read(ctx, out)
	return out
}
