package transcript

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestInOrder: what is in order stays the model's, unless others may change it; what is not is replaced in a copy.
func TestInOrder(t *testing.T) {
	call := func(id, input string) *mcp.ToolUseContent {
		return &mcp.ToolUseContent{ID: id, Name: "tool", Input: json.RawMessage(input)}
	}
	good := func() mcp.Contents { return mcp.Contents{mcp.Text("text"), call("a", `{"n":1}`)} }
	tests := []struct {
		name           string
		content        mcp.Contents
		shared, copied bool
		want           mcp.Contents
		spoilt         []string
	}{
		{"nothing", nil, false, false, nil, nil},
		{"nothing, shared", nil, true, false, nil, nil},
		{"in order", good(), false, false, good(), nil},
		{"in order, shared", good(), true, true, good(), nil},
		{"text", mcp.Contents{mcp.Text("a\xffb"), call("a", `{}`)}, false, true, mcp.Contents{mcp.Text("a\uFFFDb"), call("a", `{}`)}, nil},
		{"no ID", mcp.Contents{call("", `{}`)}, false, true, mcp.Contents{call("call-2-0-0", `{}`)}, nil},
		{"two IDs", mcp.Contents{call("a", `{}`), call("a", `{}`)}, false, true, mcp.Contents{call("a", `{}`), call("call-2-1-0", `{}`)}, nil},
		{"no arguments", mcp.Contents{call("a", "")}, false, true, mcp.Contents{call("a", `{}`)}, nil},
		{"arguments", mcp.Contents{call("a", "[1]"), call("b", "{"), call("c", "{}")}, false, true,
			mcp.Contents{call("a", `{"unreadable":"[1]","error":"it is not a JSON object"}`), call("b", `{"unreadable":"{","error":"unexpected EOF after offset 1"}`), call("c", "{}")}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		before, _ := json.Marshal(tt.content)
		tr := New(nil)
		got, spoilt := tr.InOrder(2, tt.content, tt.shared)
		if !reflect.DeepEqual(got, tt.want) || !reflect.DeepEqual(spoilt, tt.spoilt) {
			t.Errorf("%s: got %s, %q", tt.name, must(json.Marshal(got)), spoilt)
		}
		if after, _ := json.Marshal(tt.content); string(after) != string(before) {
			t.Errorf("%s: the content became %s", tt.name, after)
		}
		if len(got) > 0 && (&got[0] != &tt.content[0]) != tt.copied {
			t.Errorf("%s: copied: %v", tt.name, !tt.copied)
		}
		for i := range got {
			if tt.shared && got[i] == tt.content[i] {
				t.Errorf("%s: block %d is shared", tt.name, i)
			}
		}
	}
}

func must(raw []byte, _ error) string { return string(raw) }

// TestEstimate: the sum that is kept is the estimate of the messages, whatever becomes of them, and a
// request of others is not taken for one of these.
func TestEstimate(t *testing.T) {
	tr := New([]llm.Message{llm.User("go")})
	check := func(req *llm.Request) {
		t.Helper()
		if got, want := tr.Estimate(req), llm.EstimateTokens(req); got != want {
			t.Errorf("%d messages: got %d, want %d", len(req.Messages), got, want)
		}
	}
	request := func() *llm.Request {
		return &llm.Request{System: "Be brief.", Messages: tr.Messages(), Tools: []llm.Tool{{Name: "f", Description: "does f"}}, Schema: []byte(`{}`)}
	}
	for range 30 {
		tr.Encodings()
		tr.Say(llm.Assistant(strings.Repeat("abc ", 500)))
		tr.Say(llm.Message{Role: llm.RoleUser})
		check(request())
	}
	old := request()
	tr.Say(llm.User("more"))
	check(old)
	tr.Replace(tr.Messages()[10:])
	check(old)
	check(request())
	changed := request()
	changed.Messages = slices.Clone(changed.Messages)
	changed.Messages[0] = llm.User(strings.Repeat("long ", 1000))
	check(changed)
	check(&llm.Request{})
	if tr.long == nil {
		t.Error("the conversation is short")
	}
}

func TestEncodings(t *testing.T) {
	tr := New([]llm.Message{llm.User("go")})
	if tr.Encodings() != nil {
		t.Error("a short conversation is kept")
	}
	tr.Say(llm.User(strings.Repeat("abc ", worthKeeping)))
	kept := tr.Encodings()
	if kept == nil || tr.Encodings() != kept {
		t.Errorf("got %p and then %p, want the same", kept, tr.Encodings())
	}
	if tr.LetGo(); tr.Encodings() == kept {
		t.Error("it is still there")
	}
}
