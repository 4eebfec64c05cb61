package agent

import (
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestUnread: what nobody has asked for is left to the store, but for a text that is not
// in it yet; from the first reader on it is kept.
func TestUnread(t *testing.T) {
	r := newRecord("r", nil, new(stalls), nil)
	r.unread = true
	held := func() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.items) }
	result := &runlog.ModelResult{Turn: 1, Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("hello")}}}
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"an event", func() { r.Journalled([]runlog.Entry{{Seq: 1, Time: time.Now(), Body: &runlog.RunStarted{}}}) }, 0},
		{"a text", func() { r.Text(1, "hel") }, 1},
		{"an event within a turn", func() { r.Journalled([]runlog.Entry{{Seq: 2, Body: &runlog.LimitRaised{}}}) }, 2},
		{"more text", func() { r.Text(1, "lo") }, 3},
		{"the end of the turn", func() { r.Journalled([]runlog.Entry{{Seq: 3, Body: result}}) }, 0},
		{"a reader", func() { r.read(converter{}) }, 0},
		{"an event that is read", func() { r.Journalled([]runlog.Entry{{Seq: 4, Body: &runlog.StopMet{}}}) }, 1},
	} {
		if step.do(); held() != step.want {
			t.Errorf("%s: got %d items, want %d", step.what, held(), step.want)
		}
	}
}
