// Package talk makes conversations that grow, are cut and change, for tests of what is kept of them.
package talk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Talk is a conversation. The bytes it was made of decide what happens to it.
type Talk struct {
	Messages []llm.Message
	data     []byte
	calls    int
	before   []llm.Message // what was spoilt; nil unless it is
}

// New returns a conversation with one message.
func New(data []byte) *Talk {
	return &Talk{Messages: []llm.Message{llm.User("go")}, data: data}
}

// take returns the next byte below n, and zero at the end.
func (t *Talk) take(n int) int {
	if len(t.data) == 0 {
		return 0
	}
	b := t.data[0]
	t.data = t.data[1:]
	return int(b) % n
}

// Next changes the conversation, mostly by what a run does. It reports false when all bytes are used.
func (t *Talk) Next() bool {
	if len(t.data) == 0 {
		return false
	}
	if t.before != nil {
		t.Messages, t.before = t.before, nil
	}
	switch t.take(16) {
	default:
		t.exchange()
	case 6:
		t.Messages = append(t.Messages, llm.Assistant(t.text()), llm.User(t.text()))
	case 7: // as a cut of the history does
		if at := t.exchangeAt(); at > 0 {
			t.Messages = slices.Delete(slices.Clone(t.Messages), at, at+2)
		}
	case 8: // as a guard has it: nothing is where it was, and all is the same
		t.Messages = slices.Clone(t.Messages)
		for i := range t.Messages {
			t.Messages[i].Content = copied(t.Messages[i].Content)
		}
	case 9: // as a cut leaves its note
		t.Messages = slices.Clone(t.Messages)
		t.Messages[0].Content = append(slices.Clip(t.Messages[0].Content), mcp.Text(t.text()))
	case 10:
		t.Messages = t.Messages[:1:1]
	case 11:
		if a, b := t.exchangeAt(), t.exchangeAt(); a > 0 {
			for i := range 2 {
				t.Messages[a+i], t.Messages[b+i] = t.Messages[b+i], t.Messages[a+i]
			}
		}
	case 12, 13:
		t.inPlace(t.Messages[t.take(len(t.Messages))].Content)
	case 14:
		t.spoil()
	}
	return true
}

func (t *Talk) text() string {
	return []string{"", "a", "\"q\"\n<b>", "é\u2028", "\xff", `"messages":null`, strings.Repeat("long ", 40)}[t.take(7)]
}

// exchange adds calls and their results.
func (t *Talk) exchange() {
	var calls, results mcp.Contents
	if text := t.text(); text != "" {
		calls = mcp.Contents{mcp.Text(text)}
	}
	for range 1 + t.take(3) {
		t.calls++
		id := fmt.Sprintf("%d%s", t.calls, t.text())
		input := []string{`{}`, ``, `{"a": 1, "b":"\u00e9"}`, `{"z":[1.50,null],"a":{}}`}[t.take(4)]
		calls = append(calls, &mcp.ToolUseContent{ID: id, Name: "f" + t.text(), Input: json.RawMessage(input)})
		res := &mcp.ToolResultContent{ToolUseID: id, IsError: t.take(4) == 1}
		for range t.take(3) {
			res.Content = append(res.Content, t.block())
		}
		if t.take(3) == 1 {
			res.StructuredContent = json.RawMessage(`{"n":7}`)
		}
		results = slices.Insert(results, t.take(len(results)+1), mcp.Content(res))
	}
	t.Messages = append(t.Messages, llm.Message{Role: llm.RoleAssistant, Content: calls}, llm.Message{Role: llm.RoleUser, Content: results})
}

func (t *Talk) block() mcp.Content {
	switch t.take(8) {
	case 1:
		return &mcp.ImageContent{Data: []byte{1, 2, byte(t.take(256))}, MIMEType: "image/png"}
	case 2:
		return &mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav"}
	case 3:
		return &mcp.ResourceLink{URI: "file:///a", Name: t.text()}
	case 4:
		return &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "file:///a", Text: t.text()}}
	case 5:
		return &mcp.UnknownContent{Type: "odd", Raw: json.RawMessage(`{"type":"odd"}`)}
	}
	return mcp.Text(t.text())
}

// exchangeAt returns where the calls of one of the exchanges are; zero without any.
func (t *Talk) exchangeAt() int {
	if len(t.Messages) < 3 {
		return 0
	}
	return 1 + 2*t.take((len(t.Messages)-1)/2)
}

// inPlace changes a block where it is, as nothing should that others have.
func (t *Talk) inPlace(cs mcp.Contents) {
	if len(cs) == 0 {
		return
	}
	switch c := cs[t.take(len(cs))].(type) {
	case *mcp.TextContent:
		c.Text = t.text()
	case *mcp.ToolUseContent:
		if i := strings.IndexAny(string(c.Input), "0123456789"); i >= 0 {
			c.Input[i] = byte('1' + t.take(9))
		} else {
			c.Name = "g" + t.text()
		}
	case *mcp.ToolResultContent:
		switch t.take(3) {
		case 0:
			t.inPlace(c.Content)
		case 1:
			c.IsError = !c.IsError
		default:
			c.Content = append(c.Content, t.block())
		}
	case *mcp.ImageContent:
		c.Data[0] ^= 1
	case *mcp.ResourceLink:
		c.Name = t.text()
	case *mcp.EmbeddedResource:
		c.Resource.Text = t.text()
	}
}

// spoil makes a conversation that no server takes, mostly, until the next change.
func (t *Talk) spoil() {
	t.before = t.Messages
	t.Messages = slices.Clone(t.Messages)
	i := t.take(len(t.Messages))
	m := &t.Messages[i]
	switch t.take(4) {
	case 0:
		m.Role = "system"
	case 1:
		t.Messages = slices.Delete(t.Messages, i, i+1)
	case 2:
		t.Messages = append(t.Messages, *m)
	case 3:
		if len(m.Content) > 0 {
			m.Content = m.Content[1:]
		}
	}
	if len(t.Messages) == 0 {
		t.Messages = []llm.Message{llm.User("go")}
	}
}

func copied(cs mcp.Contents) mcp.Contents {
	cs = slices.Clone(cs)
	for i, c := range cs {
		switch c := c.(type) {
		case *mcp.TextContent:
			cs[i] = mcp.Text(strings.Clone(c.Text))
		case *mcp.ToolUseContent:
			cs[i] = &mcp.ToolUseContent{ID: strings.Clone(c.ID), Name: c.Name, Input: slices.Clone(c.Input)}
		case *mcp.ToolResultContent:
			res := *c
			res.Content = copied(c.Content)
			cs[i] = &res
		}
	}
	return cs
}

// Check has send send the requests of a conversation, each with and without what is kept of those before. It fails
// the test if that makes a difference to what is sent, or to the error. Vary changes a request, and may be nil.
func Check(t *testing.T, data []byte, vary func(n int, req *llm.Request), send func(n int, req *llm.Request) (sent []byte, err error)) {
	t.Helper()
	var kept llm.Encodings
	tk := New(data)
	for n := 0; tk.Next() && n < 80; n++ {
		req := &llm.Request{Messages: tk.Messages}
		if n%3 == 0 {
			req.System, req.Model = "Be brief.", "\"messages\":null"
		}
		if vary != nil {
			vary(n, req)
		}
		want, wantErr := send(n, req)
		req.Encodings = &kept
		got, gotErr := send(n, req)
		if !bytes.Equal(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("with parts kept: got %s and error %v\nwant %s and error %v", got, gotErr, want, wantErr)
		}
	}
}

// Sent returns the body of a request. It fails the test if the body is not as long as the request says, or is another
// one when it is sent again.
func Sent(t *testing.T, r *http.Request) []byte {
	t.Helper()
	again, _ := r.GetBody()
	first, _ := io.ReadAll(iotest.HalfReader(again))
	sent, _ := io.ReadAll(r.Body)
	if !bytes.Equal(first, sent) || int64(len(sent)) != r.ContentLength {
		t.Errorf("a body of %d bytes has %d, and %d the second time", r.ContentLength, len(sent), len(first))
	}
	return sent
}

// Seed adds the first inputs of a fuzz test.
func Seed(add func(...any)) {
	for seed := range 4 {
		data := make([]byte, 150)
		for i := range data {
			data[i] = byte(i*i*(2*seed+3) + i*7 + seed)
		}
		add(data)
	}
}
