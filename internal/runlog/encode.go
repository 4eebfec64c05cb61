package runlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/eventhook"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// maxScratch bounds the memory that is kept for the next events.
const maxScratch = 256 << 10

// scratches are where events are encoded before their size is known.
var scratches = sync.Pool{New: func() any { return new(jsonx.Appender) }}

var handOver = eventhook.Get[store.Event]().HandOver

// Encode appends the events of entries to events, for a store to append. Their bodies share one buffer.
// A body that is too large for a store is cut where a display would cut it too.
func Encode(events []store.Event, entries []Entry) ([]store.Event, error) {
	a := scratches.Get().(*jsonx.Appender)
	defer func() {
		if cap(a.Buf) <= maxScratch {
			scratches.Put(a)
		}
	}()
	a.Buf = a.Buf[:0]
	first := len(events)
	events = slices.Grow(events, len(entries))
	for i := range entries {
		e, start := &entries[i], len(a.Buf)
		if raw := keptOf(e.Body); raw != nil {
			events = append(events, store.Event{Time: e.Time, Type: e.Type, Key: e.Key, Body: raw})
			continue
		}
		err := appendBody(a, e.Body)
		if err == nil && len(a.Buf)-start > store.MaxBody {
			if small := smaller(e.Body); small != nil {
				a.Buf = a.Buf[:start]
				err = appendBody(a, small)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("writing the event %s: %w", e.Type, err)
		}
		// The buffer may still move: until then the body only tells its size.
		events = append(events, store.Event{Time: e.Time, Type: e.Type, Key: e.Key, Body: a.Buf[start:]})
	}
	rest := make([]byte, len(a.Buf))
	copy(rest, a.Buf)
	for i := range entries {
		e := &events[first+i]
		if n := len(e.Body); keptOf(entries[i].Body) == nil {
			e.Body, rest = rest[:n:n], rest[n:]
		}
		handOver(e)
	}
	return events, nil
}

// Encode is [Encode] for one entry.
func (e *Entry) Encode() (store.Event, error) {
	events, err := Encode(nil, []Entry{*e})
	if err != nil {
		return store.Event{}, err
	}
	return events[0], nil
}

// kept is the JSON of a body: of that one, and of no copy, which may be another since.
type kept struct {
	of  *ToolsListed
	raw json.RawMessage
}

// Keep encodes the body for all journals that it is written to from now on. It must not be changed any more.
func (b *ToolsListed) Keep() {
	if ev, err := (&Entry{Body: b}).Encode(); err == nil {
		b.kept = &kept{b, ev.Body}
	}
}

// keptOf is the JSON of a body that has it already; nil of any other.
func keptOf(body any) json.RawMessage {
	if b, ok := body.(*ToolsListed); ok && b.kept != nil && b.kept.of == b {
		return b.kept.raw
	}
	return nil
}

// members is a body that many events have: it appends its own members, as its tags say.
type members interface{ appendTo(a *jsonx.Appender) }

// appendBody appends what [jsonx.Marshal] returns of a body.
func appendBody(a *jsonx.Appender, body any) error {
	if b, ok := body.(members); ok {
		start := len(a.Buf)
		a.Buf, a.Bad = append(a.Buf, '{'), false
		b.appendTo(a)
		a.Close('}')
		if !a.Bad && !deep(a.Buf[start:]) {
			return nil
		}
		a.Buf = a.Buf[:start] // for the codec's error
	}
	raw, err := jsonx.Marshal(body)
	a.Buf = append(a.Buf, raw...)
	return err
}

// deep reports whether a body may nest deeper than a reader of the journal takes; the codec then
// finds out.
func deep(body []byte) bool {
	const most = 9000
	return len(body) > most && bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) > most
}

func (b *RunStarted) appendTo(a *jsonx.Appender) {
	a.SomeText("agent", b.Agent)
	a.SomeText("parent", b.Parent)
	a.SomeTexts("path", b.Path)
	a.SomeText("hash", b.Hash)
	a.Text("model", b.Model)
	a.SomeText("system", b.System)
	a.Name("input")
	a.Open('[')
	for i := range b.Input {
		a.Open('{')
		appendMessage(a, &b.Input[i])
	}
	a.Close(']')
	a.SomeValue("schema", b.Schema)
	a.Text("nonce", b.Nonce)
	a.Int("steps", int64(b.Steps))
	a.SomeInt("tokens", int64(b.Tokens))
	a.Int("toolCalls", int64(b.ToolCalls))
	appendMoney(a, "cost", b.Cost)
	a.SomeInt("modelCalls", int64(b.ModelCalls))
	a.SomeInt("depth", int64(b.Depth))
	a.SomeText("onLimit", b.OnLimit)
	a.Int("wallMs", b.WallMS)
	a.Int("maxResult", int64(b.MaxResult))
	a.SomeInt("repeats", int64(b.Repeats))
	a.SomeInt("v", int64(b.V))
	a.SomeText("program", b.Program)
	a.SomeText("fork", b.Fork)
	a.SomeText("asks", b.Asks)
	a.SomeValue("with", b.With)
}

func (b *ToolsListed) appendTo(a *jsonx.Appender) {
	a.Name("tools")
	a.Open('[')
	for i := range b.Tools {
		t := &b.Tools[i]
		a.Open('{')
		a.Text("name", t.Name)
		a.SomeText("server", t.Server)
		a.Text("hash", t.Hash)
		a.Close('}')
	}
	a.Close(']')
	if len(b.Absent) > 0 {
		a.Any("absent", b.Absent)
	}
	if len(b.Texts) > 0 {
		a.Any("texts", b.Texts)
	}
}

func (b *ModelIntent) appendTo(a *jsonx.Appender) {
	a.Int("turn", int64(b.Turn))
	a.Int("reserved", int64(b.Reserved))
	a.SomeInt("maxTokens", int64(b.MaxTokens))
	AppendAmount(a, "held", &b.Held)
	a.SomeBool("last", b.Last)
	a.SomeInt("wallLeftMs", b.WallLeftMS)
	a.SomeBool("clamped", b.Clamped)
}

func (b *ModelResult) appendTo(a *jsonx.Appender) {
	a.Int("turn", int64(b.Turn))
	a.Name("message")
	a.Open('{')
	appendMessage(a, &b.Message)
	a.SomeText("thinking", b.Thinking)
	a.Text("finish", string(b.Finish))
	AppendUsage(a, &b.Usage)
	a.SomeInt("attempts", int64(b.Attempts))
	a.SomeText("model", b.Model)
	if b.Chosen != nil {
		a.Any("chosen", b.Chosen)
	}
	a.SomeTexts("spoilt", b.Spoilt)
}

func (b *ToolIntent) appendTo(a *jsonx.Appender) {
	a.Int("turn", int64(b.Turn))
	a.Text("callId", b.CallID)
	a.Text("tool", b.Tool)
	a.SomeText("server", b.Server)
	a.SomeText("hash", b.Hash)
	a.Value("arguments", b.Arguments)
	a.SomeBool("safe", b.Safe)
	a.SomeBool("polls", b.Polls)
	a.SomeBool("readOnly", b.ReadOnly)
}

func (b *ToolDispatched) appendTo(a *jsonx.Appender) {
	a.Int("turn", int64(b.Turn))
	a.Text("callId", b.CallID)
	a.SomeText("run", b.Run)
}

func (b *ToolResult) appendTo(a *jsonx.Appender) {
	a.Int("turn", int64(b.Turn))
	a.Text("callId", b.CallID)
	a.Text("tool", b.Tool)
	a.SomeText("server", b.Server)
	a.Bool("made", b.Made)
	a.SomeBool("late", b.Late)
	a.SomeInt("repeated", int64(b.Repeated))
	a.Name("result")
	appendResult(a, b.Result)
	a.SomeBool("noRoom", b.NoRoom)
}

func (b *RunFinished) appendTo(a *jsonx.Appender) {
	a.Text("state", string(b.State))
	a.Text("stop", b.Stop)
	a.SomeText("text", b.Text)
	a.SomeValue("structured", b.Structured)
	a.SomeText("incomplete", b.Incomplete)
	a.SomeText("error", b.Error)
	AppendUsage(a, &b.Usage)
	a.Int("steps", int64(b.Steps))
	a.Int("toolCalls", int64(b.ToolCalls))
	AppendAmount(a, "spent", &b.Spent)
}

// appendMessage appends the members of a message, and ends it.
func appendMessage(a *jsonx.Appender, m *llm.Message) {
	a.Text("role", string(m.Role))
	a.Name("content")
	var err error
	a.Buf, err = m.Content.AppendJSON(a.Buf)
	a.Bad = a.Bad || err != nil
	if len(m.State) > 0 {
		a.Any("state", m.State)
	}
	a.Close('}')
}

func appendResult(a *jsonx.Appender, r *mcp.CallToolResult) {
	if r == nil {
		a.Raw(nil)
		return
	}
	var err error
	a.Buf, err = r.AppendJSON(a.Buf)
	a.Bad = a.Bad || err != nil
}

// AppendUsage appends the member that usage is.
func AppendUsage(a *jsonx.Appender, u *Usage) {
	a.Name("usage")
	a.Open('{')
	a.Int("input", int64(u.Input))
	a.Int("output", int64(u.Output))
	a.SomeBool("estimated", u.Estimated)
	appendMoney(a, "cost", u.Cost)
	a.SomeInt("over", int64(u.Over))
	appendMoney(a, "overCost", u.OverCost)
	a.Close('}')
}

// AppendAmount appends a member that is an amount, unless it is zero.
func AppendAmount(a *jsonx.Appender, name string, n *budget.Amount) {
	if *n == (budget.Amount{}) {
		return
	}
	a.Name(name)
	a.Open('{')
	a.SomeInt("tokens", int64(n.Tokens))
	appendMoney(a, "cost", n.Cost)
	a.SomeInt("modelCalls", int64(n.ModelCalls))
	a.SomeInt("toolCalls", int64(n.ToolCalls))
	a.SomeInt("steps", int64(n.Steps))
	a.Close('}')
}

func appendMoney(a *jsonx.Appender, name string, m llm.Money) {
	if m != 0 {
		a.Text(name, m.String())
	}
}
