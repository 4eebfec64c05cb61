package runlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// generator makes bodies with anything in their fields.
type generator struct {
	*rand.Rand
	bad  bool // one value in some hundred has no JSON
	deep bool // or rather nests too deep for what is around it
}

var (
	texts = []string{"", "a", "plain text of some length, as models write", "a\"b\\c\n\t\x00\x7f", "é\u2028😀", "<&>", strings.Repeat("long ", 200)}
	raws  = []string{`{}`, `{"a":1}`, "{ \"a\" :\n[1, 2.50e3, -0] }", `"\u0041\/\n"`, `null`, `[]`, `1e400`, `{"é":"\ud83d\ude00","b":[true,false,null]}`, strings.Repeat("[", 200) + strings.Repeat("]", 200)}
	none  = []string{`{`, ``, `{"a":1,"a":2}`, "\"\xff\"", `{}{}`}
)

func (g generator) rarely() bool { return g.bad && g.IntN(300) == 0 }

func (g generator) text() string {
	if g.rarely() {
		return "\xff"
	}
	return texts[g.IntN(len(texts))]
}

func (g generator) raw() json.RawMessage {
	switch {
	case g.rarely():
		if g.deep {
			return json.RawMessage(strings.Repeat("[", 9998) + strings.Repeat("]", 9998))
		}
		return json.RawMessage(none[g.IntN(len(none))])
	case g.IntN(3) == 0:
		return nil
	}
	return json.RawMessage(raws[g.IntN(len(raws))])
}

// content returns a block; deep is how many more may be inside of each other.
func (g generator) content(deep int) mcp.Content {
	blocks := []mcp.Content{
		new(mcp.TextContent), new(mcp.ToolUseContent), new(mcp.ToolResultContent), new(mcp.TextContent), new(mcp.ToolUseContent),
		new(mcp.ImageContent), new(mcp.ResourceLink), &mcp.UnknownContent{Type: "x", Raw: json.RawMessage(`{"type":"x"}`)},
	}
	c := blocks[g.IntN(len(blocks))]
	if g.rarely() {
		return nil
	}
	if _, unknown := c.(*mcp.UnknownContent); !unknown {
		g.fill(reflect.ValueOf(c).Elem(), deep-1)
	}
	return c
}

// fill sets every field of v.
func (g generator) fill(v reflect.Value, deep int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(g.text())
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, -7, 1 << 40}[g.IntN(4)])
	case reflect.Bool:
		v.SetBool(g.IntN(2) == 0)
	case reflect.Float64:
		v.SetFloat(g.Float64())
	case reflect.Uint8:
		v.SetUint(uint64(g.IntN(256)))
	case reflect.Pointer:
		if g.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			g.fill(v.Elem(), deep)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			if rare := f.Name == "Extra" || f.Name == "Annotations" || f.Name == "Meta"; !rare || g.IntN(4) == 0 {
				g.fill(v.Field(i), deep)
			}
		}
	case reflect.Interface:
		if c := g.content(deep); c != nil {
			v.Set(reflect.ValueOf(c))
		}
	case reflect.Map:
		m := reflect.MakeMap(v.Type())
		for range g.IntN(3) {
			key := g.text()
			if g.IntN(20) == 0 {
				key = "text" // which a block has already
			}
			m.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(json.RawMessage(cmp.Or(string(g.raw()), "1"))))
		}
		v.Set(m)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes(g.raw())
			return
		}
		n := g.IntN(4)
		if n == 3 || deep < 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			g.fill(v.Index(i), deep)
		}
	default:
		panic(v.Kind().String())
	}
}

// reflectedBlocks is a list as the codec writes it block by block.
func reflectedBlocks(cs mcp.Contents) ([]byte, error) {
	out := []byte{'['}
	for i, c := range cs {
		if c == nil {
			return nil, errors.New("a nil block")
		}
		raw, err := jsonx.Marshal(c)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	return append(out, ']'), nil
}

// checkEncoders compares the encoders with the codec, which works by reflection.
func checkEncoders(t *testing.T, seed uint64, bad bool) {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 0)), bad, false}
	compare := func(v any, got []byte, err error, want []byte, wantErr error) {
		t.Helper()
		if (err != nil) != (wantErr != nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %T is written as\n%.2000s, %v; the codec writes\n%.2000s, %v", seed, v, got, err, want, wantErr)
		}
	}

	var cs mcp.Contents
	g.fill(reflect.ValueOf(&cs).Elem(), 3)
	got, err := cs.AppendJSON(nil)
	want, wantErr := reflectedBlocks(cs)
	compare(cs, got, err, want, wantErr)

	var r mcp.CallToolResult
	g.fill(reflect.ValueOf(&r).Elem(), 2)
	got, err = r.AppendJSON([]byte("behind"))
	type members mcp.CallToolResult
	want, wantErr = jsonx.Marshal((*members)(&r))
	compare(r, bytes.TrimPrefix(got, []byte("behind")), err, want, wantErr)

	// Two events share a buffer, and neither can grow into the other.
	g.deep = seed%3 == 0
	entries := make([]Entry, 2)
	for i := range entries {
		bodies := []any{new(RunStarted), new(ToolsListed), new(ModelIntent), new(ModelResult), new(ToolIntent), new(ToolDispatched), new(ToolResult), new(RunFinished), new(InputAdded)}
		entries[i] = Entry{Type: "x", Key: "k", Body: bodies[g.IntN(len(bodies))]}
		g.fill(reflect.ValueOf(entries[i].Body).Elem(), 2)
	}
	before := store.Event{Type: "before"}
	events, err := Encode([]store.Event{before}, entries)
	first, wantErr := jsonx.Marshal(entries[0].Body)
	second, wantErr2 := jsonx.Marshal(entries[1].Body)
	if wantErr = errors.Join(wantErr, wantErr2); err != nil || wantErr != nil {
		compare(entries, nil, err, nil, wantErr)
		return
	}
	if !reflect.DeepEqual(events[0], before) {
		t.Fatalf("seed %d: the event before became %+v", seed, events[0])
	}
	_ = append(events[1].Body, "more"...)
	compare(entries[0].Body, events[1].Body, nil, first, nil)
	compare(entries[1].Body, events[2].Body, nil, second, nil)
}

// TestEncodeAsTheCodec: the encoders write what the codec writes of the same bodies, and refuse
// what it refuses.
func TestEncodeAsTheCodec(t *testing.T) {
	for seed := range uint64(4000) {
		checkEncoders(t, seed, seed%2 == 0)
	}
}

// FuzzEncode is TestEncodeAsTheCodec for any seed.
func FuzzEncode(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed%2 == 0)
	}
	f.Fuzz(checkEncoders)
}

// TestKeep: a body that is kept is encoded once, and a copy of it anew.
func TestKeep(t *testing.T) {
	listed := &ToolsListed{Tools: []ToolRef{{Name: "t", Hash: "h"}}}
	listed.Keep()
	entries := []Entry{{Body: &ToolDispatched{Turn: 1}}, {Body: listed}, {Body: &ToolDispatched{Turn: 2}}, {Body: listed}}
	events, err := Encode(nil, entries)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		want, err := jsonx.Marshal(entries[i].Body)
		if err != nil || !bytes.Equal(events[i].Body, want) {
			t.Errorf("event %d: got %s, want %s (%v)", i, events[i].Body, want, err)
		}
	}
	if &events[1].Body[0] != &events[3].Body[0] || cap(events[1].Body) != len(events[1].Body) {
		t.Error("it was encoded again, or can grow")
	}
	changed := *listed
	changed.Tools = []ToolRef{{Name: "other"}}
	if ev, err := (&Entry{Body: &changed}).Encode(); err != nil || !bytes.Contains(ev.Body, []byte("other")) {
		t.Errorf("a copy that was changed: got %s, %v", ev.Body, err)
	}
	bad := &ToolsListed{Tools: []ToolRef{{Name: "\xff"}}}
	bad.Keep()
	if _, err := (&Entry{Body: bad}).Encode(); err == nil {
		t.Error("what cannot be written is kept")
	}
}

// TestEncodeAllocates: what a turn writes takes a buffer, where there is room for the events.
func TestEncodeAllocates(t *testing.T) {
	if mcptest.Race {
		t.Skip("with the race detector pools forget on purpose")
	}
	entries := []Entry{
		{Body: &ModelResult{Turn: 1, Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "c", Name: "t", Input: json.RawMessage(`{"a":1}`)}}}, Finish: llm.FinishStop}},
		{Body: &ToolIntent{Turn: 1, CallID: "c", Tool: "t", Arguments: json.RawMessage(`{"a":1}`)}},
		{Body: &ToolDispatched{Turn: 1, CallID: "c"}},
		{Body: &ToolResult{Turn: 1, CallID: "c", Tool: "t", Made: true, Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("found")}}}},
		{Body: &ModelIntent{Turn: 2, Reserved: 100, Held: budget.Amount{Tokens: 200}}},
	}
	events := make([]store.Event, 0, len(entries))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Encode(events, entries); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
