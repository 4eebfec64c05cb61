package llm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/talk"
	"github.com/troupe-dev/troupe/mcp"
)

// encoder encodes each message with the one before it, and notes which.
type encoder struct {
	kept  llm.Encodings
	asked []int
}

func plain(dst []byte, messages []llm.Message, i int) ([]byte, error) {
	for _, m := range messages[max(0, i-1) : i+1] {
		dst = appendContents(fmt.Appendf(dst, "%q", m.Role), m.Content)
	}
	return dst, nil
}

// appendContents appends all that an encoding may depend on.
func appendContents(dst []byte, cs mcp.Contents) []byte {
	dst = append(dst, '[')
	for _, c := range cs {
		switch c := c.(type) {
		case *mcp.ToolUseContent:
			dst = fmt.Appendf(dst, "%q %q %q,", c.ID, c.Name, c.Input)
		case *mcp.ToolResultContent:
			dst = appendContents(fmt.Appendf(dst, "%q %q %v", c.ToolUseID, c.StructuredContent, c.IsError), c.Content)
		default:
			dst = fmt.Appendf(dst, "%q,", fmt.Sprintf("%T %+v", c, c))
		}
	}
	return append(dst, ']')
}

// encode checks that all is as if nothing had been kept, and returns the messages that were encoded.
func (e *encoder) encode(t *testing.T, dialect string, messages []llm.Message) []int {
	t.Helper()
	e.asked = nil
	got, err := e.kept.Encode(dialect, messages, func(dst []byte, i int) ([]byte, error) {
		e.asked = append(e.asked, i)
		return plain(append(dst, dialect...), messages, i)
	})
	if err != nil || len(got) != len(messages) {
		t.Fatalf("Encode: got %d parts and error %v, want %d", len(got), err, len(messages))
	}
	for i, part := range got {
		if want, _ := plain([]byte(dialect), messages, i); !bytes.Equal(part, want) {
			t.Fatalf("part %d of %d: got %s, want %s", i, len(messages), part, want)
		}
	}
	return e.asked
}

func calls(n int) []llm.Message {
	id := fmt.Sprint(n)
	return []llm.Message{
		{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("I look."), &mcp.ToolUseContent{ID: id, Name: "f", Input: json.RawMessage(`{"n":1}`)}}},
		{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: id, Content: mcp.Contents{
			mcp.Text("found"), &mcp.ImageContent{Data: []byte{1, 2}, MIMEType: "image/png"}}}}},
	}
}

func TestEncodings(t *testing.T) {
	history := slices.Concat([]llm.Message{llm.User("go")}, calls(1), calls(2), calls(3), calls(4))
	call := func(i int) *mcp.ToolUseContent { return history[i].Content[1].(*mcp.ToolUseContent) }
	result := func(i int) *mcp.ToolResultContent { return history[i].Content[0].(*mcp.ToolResultContent) }
	var e encoder
	for _, step := range []struct {
		what     string
		do       func()
		messages func() []llm.Message
		want     []int
	}{
		{what: "the first three", messages: func() []llm.Message { return history[:3] }, want: []int{0, 1, 2}},
		{what: "all", want: []int{3, 4, 5, 6, 7, 8}},
		{what: "the same"},
		{what: "another array, and other blocks of the same text", do: func() {
			history = slices.Clone(history)
			for i := range history {
				history[i].Content = slices.Clone(history[i].Content)
			}
			history[0].Content[0] = mcp.Text(strings.Clone("go"))
		}},
		{what: "another message in the same place", do: func() { history[0] = llm.User("Go") }, want: []int{0, 1}},
		{what: "a text in place", do: func() { history[1].Content[0].(*mcp.TextContent).Text = "I Look." }, want: []int{1, 2}},
		{what: "arguments in place", do: func() { call(3).Input[5] = '2' }, want: []int{3, 4}},
		{what: "an image in place", do: func() { result(4).Content[1].(*mcp.ImageContent).Data[0] = 9 }, want: []int{4, 5}},
		{what: "an error", do: func() { result(6).IsError = true }, want: []int{6, 7}},
		{what: "structured", do: func() { result(8).StructuredContent = json.RawMessage(`1`) }, want: []int{8}},
		{what: "an exchange less", messages: func() []llm.Message { return slices.Concat(history[:3], history[5:]) }, want: []int{3}},
		{what: "and back", want: []int{3, 4, 5}},
		{what: "shorter", messages: func() []llm.Message { return history[:7] }},
		{what: "in another order", messages: func() []llm.Message { return slices.Concat(history[:1], history[5:7], history[1:5]) }, want: []int{1, 3}},
		{what: "a message twice", messages: func() []llm.Message { return slices.Concat(history[:1], history[5:7], history[5:7]) }, want: []int{3, 4}},
		{what: "none", messages: func() []llm.Message { return nil }},
	} {
		if step.do != nil {
			step.do()
		}
		messages := history
		if step.messages != nil {
			messages = step.messages()
		}
		if got := e.encode(t, "a", messages); !slices.Equal(got, step.want) {
			t.Errorf("%s: encoded %d, want %d", step.what, got, step.want)
		}
	}
	e.encode(t, "a", history)
	if got := e.encode(t, "b", history); len(got) != len(history) {
		t.Errorf("another dialect: encoded %d, want all", got)
	}
}

// An error leaves nothing behind, and what came before it is kept.
func TestEncodingsError(t *testing.T) {
	history := slices.Concat([]llm.Message{llm.User("go")}, calls(1), calls(2))
	var e encoder
	bad := errors.New("bad")
	if _, err := e.kept.Encode("a", history, func(dst []byte, i int) ([]byte, error) {
		if i == 2 {
			return nil, bad
		}
		return plain(append(dst, 'a'), history, i)
	}); !errors.Is(err, bad) {
		t.Fatalf("Encode: got error %v, want %v", err, bad)
	}
	if got := e.encode(t, "a", history); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("encoded %d, want those from the failed one on", got)
	}
}

// What does not fit into the bound is encoded each time.
func TestEncodingsBound(t *testing.T) {
	var history []llm.Message
	var kept llm.Encodings
	for i := range 6 {
		history = append(history, llm.User(strings.Repeat(fmt.Sprint(i), 900<<10)))
	}
	encode := func(messages []llm.Message) (asked []int) {
		t.Helper()
		parts, err := kept.Encode("a", messages, func(dst []byte, i int) ([]byte, error) {
			asked = append(asked, i)
			return append(dst, messages[i].Content.Text()...), nil
		})
		for i, part := range parts {
			if err != nil || string(part) != messages[i].Content.Text() {
				t.Fatalf("part %d is not that of its message, error %v", i, err)
			}
		}
		return asked
	}
	if got := encode(history); len(got) != 6 {
		t.Errorf("encoded %d, want all", got)
	}
	if got := encode(history); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("again: encoded %d, want what is beyond 4 MiB", got)
	}
	if got := encode(history[2:]); !slices.Equal(got, []int{0, 2, 3}) {
		t.Errorf("after a cut: encoded %d", got)
	}
	if got := encode(history[2:]); len(got) != 0 {
		t.Errorf("after a cut, again: encoded %d, want none", got)
	}
}

// Requests of one conversation may be encoded at the same time: here by two clients that have got
// different parts of it.
func TestEncodingsAtOnce(t *testing.T) {
	var kept llm.Encodings
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			history := []llm.Message{llm.User("go")}
			for n := range 50 {
				history = append(history, calls(n)...)
				if n%10 == g {
					history = slices.Delete(slices.Clone(history), 1, 3)
				}
				req := &llm.Request{Messages: history, Encodings: &kept}
				if err := req.Validate(); err != nil {
					t.Error(err)
				}
				dialect := []string{"a", "b"}[g%2]
				parts, err := kept.Encode(dialect, history, func(dst []byte, i int) ([]byte, error) { return plain(append(dst, dialect...), history, i) })
				for i, part := range parts {
					if want, _ := plain([]byte(dialect), history, i); err != nil || !bytes.Equal(part, want) {
						t.Errorf("part %d: got %s and error %v, want %s", i, part, err, want)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// FuzzEncodings holds that a conversation is encoded and checked as if nothing of it was kept,
// whatever happens to it between two requests.
func FuzzEncodings(f *testing.F) {
	talk.Seed(f.Add)
	f.Fuzz(func(t *testing.T, data []byte) {
		var e encoder
		tk := talk.New(data)
		for n := 0; tk.Next() && n < 80; n++ {
			plain := &llm.Request{Messages: tk.Messages}
			kept := &llm.Request{Messages: tk.Messages, Encodings: &e.kept}
			want, got := plain.Validate(), kept.Validate()
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("Validate: got %v, want %v", got, want)
			}
			if n%5 != 4 && want == nil {
				e.encode(t, "a", tk.Messages)
			}
		}
	})
}

// A message with other provider state is encoded anew.
func TestEncodingsKnowState(t *testing.T) {
	var e llm.Encodings
	said := llm.Assistant("hello")
	encoded := 0
	for _, data := range []string{`1`, `1`, `2`, ``} {
		said.State = nil
		if data != "" {
			said.State = []llm.ProviderState{{Provider: "p", Kind: "k", Data: json.RawMessage(data)}}
		}
		if _, err := e.Encode("d", []llm.Message{llm.User("go"), said}, func(dst []byte, i int) ([]byte, error) { encoded += i; return append(dst, 'x'), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if encoded != 3 {
		t.Errorf("it was encoded %d times, want 3", encoded)
	}
}
