package journal

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/store"
)

// TestAnswerOfAnAppendBefore: a second answer to an append changes nothing of the next one that the writing is used for,
// by whichever run.
func TestAnswerOfAnAppendBefore(t *testing.T) {
	w, late := new(writing), errors.New("a second answer")
	before := w.begin()
	if before(7, nil); !w.begun() || w.seq != 7 {
		t.Fatalf("the first answer: got %d", w.seq)
	}
	w.free()
	answer := w.begin()
	before(8, late)
	if w.seq != 0 || w.err != nil {
		t.Errorf("the next append has the answer of the one before: %d, %v", w.seq, w.err)
	}
	answer(9, nil)
	answer(10, late)
	before(8, late)
	if !w.begun() || w.seq != 9 || w.err != nil {
		t.Errorf("got the answer %d, %v", w.seq, w.err)
	}
	w.begin()
	if before(8, late); w.begun() {
		t.Error("an append without an answer has one")
	}
}

// TestFree: what is used again holds nothing of the run before, and nothing that is large or that a store may hold is.
func TestFree(t *testing.T) {
	w := new(writing)
	use := func(n int) {
		w.add(Batch{Summary: "summary"}, make([]runlog.Entry, n), time.Now())
		for i := range w.entries {
			w.entries[i].Type, w.entries[i].Body = store.ToolDispatched, &runlog.ToolDispatched{CallID: "call"}
		}
		w.flush()
		w.begin()
		if err := w.encode(store.Append{Run: "run", Epoch: 1}); err != nil {
			t.Fatal(err)
		}
	}
	use(3)
	w.free()
	if len(w.batches)+len(w.entries)+len(w.events)+len(w.all)+len(w.parts) > 0 || w.encoded {
		t.Errorf("it is not empty: %+v", w)
	}
	for _, e := range w.entries[:3] {
		if e != (runlog.Entry{}) {
			t.Errorf("it holds %+v", e)
		}
	}
	if e, p := w.events[:3][2], w.all[:1][0]; e.Body != nil || p.Events != nil || p.Run != "" || w.batches[:1][0].entries != nil {
		t.Errorf("it holds %+v, %+v", e, p)
	}
	for _, keep := range []func(){func() { use(1); w.shared = true }, func() { use(maxKept + 1) }} {
		w = new(writing)
		keep()
		w.free()
		if len(w.entries) == 0 {
			t.Errorf("it is used again: shared %v, %d entries", w.shared, cap(w.entries))
		}
	}
}

// TestBatches: a batch has its own entries after others have moved them.
func TestBatches(t *testing.T) {
	w := new(writing)
	for n := range 20 {
		w.add(Batch{}, make([]runlog.Entry, n%3), time.UnixMilli(int64(n)))
	}
	w.flush()
	at := 0
	for n, b := range w.batches {
		if len(b.entries) != n%3 || cap(b.entries) != n%3 {
			t.Fatalf("batch %d has %d entries, room for %d", n, len(b.entries), cap(b.entries))
		}
		for i := range b.entries {
			if &b.entries[i] != &w.entries[at] || !b.entries[i].Time.Equal(time.UnixMilli(int64(n))) {
				t.Errorf("batch %d: entry %d is another's", n, i)
			}
			at++
		}
	}
}
