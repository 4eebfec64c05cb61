package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// run is a run whose events are texts. What its converter makes of them the tests of package agent
// check.
type run struct{ log Log[struct{}, string] }

func newRun(maximum int) *run { return &run{log: Log[struct{}, string]{Run: "r", Max: maximum}} }

func (r *run) Events() *Log[struct{}, string]              { return &r.log }
func (r *run) Converter() Converter[struct{}, string]      { return r }
func (r *run) Head(int64, time.Time) struct{}              { return struct{}{} }
func (r *run) Entry(e *runlog.Entry) []string              { return []string{e.Type} }
func (r *run) Passing(ev string) string                    { return ev }
func (r *run) Nested(_ int64, key string, e string) string { return key + " " + e }
func (r *run) Text(_ struct{}, _ int, _ bool, delta string) (string, bool) {
	return delta, delta != ""
}

func (r *run) held() int {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return len(r.log.items)
}

// TestUnread: what has no reader is left to the store, but for a text that is not
// in it yet; from the first reader on it is kept.
func TestUnread(t *testing.T) {
	r := newRun(1 << 20)
	r.log.Leave()
	result := &runlog.ModelResult{Turn: 1, Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("hello")}}}
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"an event", func() { r.log.Add([]runlog.Entry{{Seq: 1, Time: time.Now(), Body: &runlog.RunStarted{}}}) }, 0},
		{"a text", func() { r.log.Text(1, "hel", false) }, 1},
		{"an event within a turn", func() { r.log.Add([]runlog.Entry{{Seq: 2, Body: &runlog.LimitRaised{}}}) }, 2},
		{"more text", func() { r.log.Text(1, "lo", false) }, 3},
		{"the end of the turn", func() { r.log.Add([]runlog.Entry{{Seq: 3, Body: result}}) }, 0},
		{"a reader", func() { Read(r) }, 0},
		{"an event that is read", func() { r.log.Add([]runlog.Entry{{Seq: 4, Body: &runlog.StopMet{}}}) }, 1},
	} {
		if step.do(); r.held() != step.want {
			t.Errorf("%s: got %d items, want %d", step.what, r.held(), step.want)
		}
	}
}

// TestBounded: what does not fit is not kept once the journal has it.
func TestBounded(t *testing.T) {
	r := newRun(2000)
	for n := range 30 {
		r.log.Text(n, strings.Repeat("x", 50), true)
		r.log.Text(n, strings.Repeat("x", 60), false)
		seq := int64(n)*4 + 1
		r.log.Add([]runlog.Entry{{Seq: seq, Body: &runlog.ModelResult{Turn: n}}, {Seq: seq + 1, Body: &runlog.ToolIntent{}},
			{Seq: seq + 2, Body: &runlog.ToolDispatched{}}, {Seq: seq + 3, Body: &runlog.ToolResult{Result: mcp.ErrorResult("e")}}})
		if got := r.held(); got > 10 {
			t.Fatalf("turn %d: %d items in memory, want 10 at most", n, got)
		}
	}
}

// TestMergedText: deltas cost memory for their text only.
func TestMergedText(t *testing.T) {
	r := newRun(1 << 20)
	for range 10_000 {
		r.log.Text(1, "x", false)
	}
	if got := r.held(); got != 1 {
		t.Errorf("%d items, want 1", got)
	}
}

// BenchmarkText is what a model's delta costs a run that has a reader.
func BenchmarkText(b *testing.B) {
	r := newRun(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		r.log.Text(1, "word ", false)
		if len(r.log.items[0].text) > 1<<20 {
			r.log.items[0].text = r.log.items[0].text[:0]
		}
	}
}

// TestUnreadAllocates: events that have no reader take no memory, not even for a moment.
func TestUnreadAllocates(t *testing.T) {
	r, entries := newRun(1<<20), []runlog.Entry{{Seq: 1, Body: &runlog.ModelIntent{}}, {Seq: 2, Body: &runlog.StopMet{}}}
	r.log.Leave()
	if n := testing.AllocsPerRun(10, func() { r.log.Add(entries) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}
