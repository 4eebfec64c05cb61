package agent_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// said is a conversation in one line for each message.
func said(messages []llm.Message) []string {
	var out []string
	for _, m := range messages {
		text := string(m.Role) + ":"
		for _, b := range m.Content {
			switch b := b.(type) {
			case *mcp.TextContent:
				text += " " + b.Text
			case *mcp.ToolUseContent:
				text += fmt.Sprintf(" %s(%s)", b.Name, b.Input)
			case *mcp.ToolResultContent:
				text += " =" + b.Content.Text()
			}
		}
		out = append(out, text)
	}
	return out
}

// A run goes on with what was said in another: the model sees all of it, and ids of calls
// are not used twice.
func TestConversation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(
			llmtest.Calls(call("double", in{21}), call("double", in{1})), llmtest.Say("42 and 2"),
			call("double", in{42}), llmtest.Say("84"),
		)
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}})
		if _, err := start(t, rt, "one").Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		history, err := rt.Conversation(t.Context(), "one")
		want := []string{"user: go", `assistant: double({"n":21}) double({"n":1})`, "user: =42 =2", "assistant: 42 and 2"}
		if got := said(history); err != nil || !slices.Equal(got, want) {
			t.Fatalf("Conversation(one): got %q and error %v, want %q", got, err, want)
		}
		run, err := rt.Start(t.Context(), "and twice that?", &agent.RunOptions{ID: "two", History: history})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "84" {
			t.Errorf("Wait: got %+v and error %v", res, err)
		}
		want = append(want, "user: and twice that?", `assistant: double({"n":42})`, "user: =84", "assistant: 84")
		history, err = rt.Conversation(t.Context(), "two")
		if got := said(history); err != nil || !slices.Equal(got, want) {
			t.Errorf("Conversation(two): got %q and error %v, want %q", got, err, want)
		}
		if err := (&llm.Request{Messages: history}).Validate(); err != nil {
			t.Errorf("the conversation: %v", err)
		}
		// The history belongs to what identifies a run.
		if _, err := rt.Start(t.Context(), "and twice that?", &agent.RunOptions{ID: "two"}); !errors.Is(err, agent.ErrRunExists) {
			t.Errorf("Start without the history: got error %v, want %v", err, agent.ErrRunExists)
		}
		if _, err := rt.Conversation(t.Context(), "three"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Conversation(three): got error %v, want %v", err, store.ErrNotFound)
		}
	})
}

// What a run that was cancelled has left open is not in the conversation, which models
// take as it is.
func TestConversationThatWasCutOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := llmtest.Script(call("double", in{1}), call("hang", nil), llmtest.Say("fine"))
		rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double, hang}})
		run := start(t, rt, "one")
		for ev, err := range run.Events(t.Context()) {
			if s, ok := ev.(agent.ToolStarted); ok && s.Tool == "hang" || err != nil {
				break
			}
		}
		run.Cancel(errTest)
		if _, err := run.Wait(t.Context()); !errors.Is(err, errTest) {
			t.Fatalf("Wait: got error %v", err)
		}
		history, err := rt.Conversation(t.Context(), "one")
		if err != nil || len(history) < 3 {
			t.Fatalf("Conversation: got %q and error %v", said(history), err)
		}
		run, err = rt.Start(t.Context(), "go on", &agent.RunOptions{History: history})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := run.Wait(t.Context()); err != nil || res.Text != "fine" {
			t.Errorf("Wait: got %+v and error %v", res, err)
		}
	})
}

// Allow and Deny choose among the servers' tools by patterns of their names.
func TestAllowAndDeny(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNotes(t)
		rt := open(t, &agent.Options{Model: llmtest.Script(llmtest.Say("a"), llmtest.Say("b")), Servers: []mcpclient.Server{mcpclient.InProcess("notes", n)}})
		for _, tt := range []struct {
			allow, deny []string
			want        []string
		}{
			{[]string{"notes__*"}, []string{"*__hang"}, []string{"notes__read", "notes__write"}},
			{[]string{"notes__r*"}, nil, []string{"notes__read"}},
		} {
			a, err := rt.Agent("a", &agent.Config{Allow: tt.allow, Deny: tt.deny})
			if err != nil {
				t.Fatal(err)
			}
			run, err := a.Start(t.Context(), "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			for ev, err := range run.Events(t.Context()) {
				if l, ok := ev.(agent.ToolsListed); ok && !slices.Equal(l.Tools, tt.want) || err != nil {
					t.Errorf("Allow %q, Deny %q: got %q and error %v, want %q", tt.allow, tt.deny, l.Tools, err, tt.want)
				}
			}
		}
		if _, err := rt.Agent("a", &agent.Config{Deny: []string{"[x"}}); err == nil {
			t.Error("a bad pattern: got no error")
		}
	})
}
