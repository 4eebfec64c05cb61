package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/loop"
	"github.com/troupe-dev/troupe/agent/internal/eventlog"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// scene writes a run's events to a record and to a store, as a loop does.
type scene struct {
	t   *testing.T
	rec *record
	mem *memstore.Store
}

func newScene(t *testing.T, maximum int) *scene {
	s := &scene{t: t, mem: memstore.New(nil)}
	if _, err := s.mem.Create(t.Context(), store.Run{ID: "r"}, "o", time.Hour); err != nil {
		t.Fatal(err)
	}
	run := &Run{id: "r", store: s.mem}
	run.record = newRecord(run, s.mem, new(stalls), nil)
	s.rec = run.record
	s.rec.log.Max = maximum
	return s
}

func (s *scene) journal(typ, key string, body any) {
	s.t.Helper()
	raw, err := mcp.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	now := store.Clock(time.Now())
	seq, err := s.mem.Append(context.Background(), store.Append{Run: "r", Owner: "o", Epoch: 1, After: store.Unchecked,
		Events: []store.Event{{Time: now, Type: typ, Key: key, Body: raw}}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rec.Journalled([]runlog.Entry{{Seq: seq, Time: now, Type: typ, Key: key, Body: body}})
}

// turn is one turn with a tool call, in two pieces of text.
func (s *scene) turn(n int) {
	a, b := fmt.Sprintf("turn %d ", n), strings.Repeat("x", 50)
	s.rec.Thinking(n, "hm")
	s.rec.Text(n, a)
	s.rec.Text(n, b)
	s.journal(store.ModelResult, "", &runlog.ModelResult{Turn: n, Message: llm.Assistant(a + b), Thinking: "hm"})
	key := fmt.Sprint("k", n)
	s.journal(store.ToolIntent, key, &runlog.ToolIntent{Turn: n, Tool: "t", Arguments: []byte("{}")})
	s.journal(store.ToolDispatched, key, &runlog.ToolDispatched{Turn: n})
	s.journal(store.ToolResult, key, &runlog.ToolResult{Turn: n, Tool: "t", Made: true, Result: mcp.ErrorResult("e")})
}

func (s *scene) reader() *eventlog.Reader[Header, Event] { return eventlog.Read(s.rec) }

// read reads up to most batches, and returns the events with neighbouring texts
// merged.
func (s *scene) read(r *eventlog.Reader[Header, Event], most int) []string {
	s.t.Helper()
	var out []string
	for range most {
		events, err := r.Next(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		for _, ev := range events {
			out = append(out, brief(ev))
		}
	}
	return out
}

func brief(ev Event) string {
	switch ev := ev.(type) {
	case Text:
		return fmt.Sprintf("text %d %d", ev.Turn, len(ev.Delta))
	case ModelTurn:
		return fmt.Sprintf("turn %d", ev.Turn)
	}
	return ev.EventType()
}

// TestRecordIsBounded: what does not fit is read from the store, and nothing is lost
// or seen twice, wherever the reader was.
func TestRecordIsBounded(t *testing.T) {
	for _, first := range []int{0, 1, 2, 3, 4, 5, 9} {
		t.Run(fmt.Sprint(first), func(t *testing.T) {
			small, big := newScene(t, 2000), newScene(t, 1<<20)
			r := small.reader()
			small.turn(1)
			big.turn(1)
			got := small.read(r, min(first, 5))
			for n := 2; n <= 30; n++ {
				small.turn(n)
				big.turn(n)
			}
			for _, s := range []*scene{small, big} {
				s.journal(store.RunFinished, "", &runlog.RunFinished{State: store.Finished})
				s.rec.Closed(loop.Outcome{State: store.Finished})
			}
			got = append(got, small.read(r, 1000)...)
			want := big.read(big.reader(), 1000)
			if !slices.Equal(got, want) {
				t.Errorf("events:\n%q\nwant\n%q", got, want)
			}
			if len(want) != 30*5+1 {
				t.Errorf("events: %d", len(want))
			}
		})
	}
}

// TestTextInTheMiddleIsEvicted: a reader that had half of a text gets the other half.
func TestTextInTheMiddleIsEvicted(t *testing.T) {
	s := newScene(t, 1500)
	s.rec.Text(1, "half")
	r := s.reader()
	if got := s.read(r, 1); !slices.Equal(got, []string{"text 1 4"}) {
		t.Fatalf("first: %q", got)
	}
	s.rec.Text(1, " and half")
	s.journal(store.ModelResult, "", &runlog.ModelResult{Turn: 1, Message: llm.Assistant("half and half")})
	for n := 2; n < 20; n++ {
		s.turn(n)
	}
	got := s.read(r, 3)
	if want := []string{"text 1 9", "turn 1"}; len(got) < 2 || !slices.Equal(got[:2], want) {
		t.Errorf("then: %q, want %q first", got, want)
	}
}

// TestForgottenRun: a reader whose events are gone hears of it.
func TestForgottenRun(t *testing.T) {
	s := newScene(t, 500)
	for n := 1; n < 20; n++ {
		s.turn(n)
	}
	if err := s.mem.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.reader().Next(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Next: got %v, want ErrClosed", err)
	}
}

// TestUnwrittenEnd: readers get a last event although the journal has none.
func TestUnwrittenEnd(t *testing.T) {
	s := newScene(t, 1<<20)
	s.turn(1)
	s.rec.Closed(loop.Outcome{State: store.Failed, Stop: runlog.StopFailed, Err: errors.New("disk full")})
	s.rec.Text(9, "late")
	got := s.read(s.reader(), 100)
	if last := got[len(got)-1]; last != "run_finished" {
		t.Errorf("events: %q", got)
	}
}

// TestMergedText: a reader who comes late gets the pieces of a text as one.
func TestMergedText(t *testing.T) {
	s := newScene(t, 1<<20)
	for range 10_000 {
		s.rec.Text(1, "x")
	}
	if got := s.read(s.reader(), 1); !slices.Equal(got, []string{"text 1 10000"}) {
		t.Errorf("events: %q", got)
	}
}
