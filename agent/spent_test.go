package agent_test

import (
	"context"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// wantJournalled wants that what a run has spent is in its journal and those of the runs it
// has started, and as much of it as so is called beside the turns.
func wantJournalled(t *testing.T, s store.Store, run, what string, n int) {
	t.Helper()
	var end *runlog.RunFinished
	var sum budget.Amount
	beside := 0
	add := func(u runlog.Usage, requests int) {
		sum.Tokens, sum.Cost, sum.ModelCalls = sum.Tokens+u.Total(), sum.Cost+u.Cost, sum.ModelCalls+max(1, requests)
	}
	for ev, err := range store.Replay(context.Background(), s, run, 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := runlog.Decode(ev)
		if err != nil {
			t.Fatal(err)
		}
		switch b := e.Body.(type) {
		case *runlog.ModelResult:
			add(b.Usage, b.Attempts)
		case *runlog.ModelFailed:
			add(b.Usage, b.Attempts)
		case *runlog.Spent:
			if add(b.Usage, 1); b.What == what {
				beside++
			}
		case *runlog.RunFinished:
			end = b
		}
	}
	if end == nil {
		t.Fatalf("run %s has no end", run)
	}
	if got := end.Spent; got.Tokens != sum.Tokens || got.Cost != sum.Cost || got.ModelCalls != sum.ModelCalls || beside != n {
		t.Errorf("the end says %+v, and its events %+v; %d of them are %s, want %d", got, sum, beside, what, n)
	}
}
