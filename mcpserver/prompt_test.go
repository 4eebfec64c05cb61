package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type reviewIn struct {
	Code  string `json:"code" jsonschema:"what to review"`
	Style string `json:"style,omitempty"`
	Skip  string `json:"-"`
}

type noArguments = map[string]string

// says returns a handler of prompts that returns a value.
func says[Out mcpserver.PromptOut](value Out) func(context.Context, noArguments) (Out, error) {
	return func(context.Context, noArguments) (Out, error) { return value, nil }
}

// addPrompts adds prompts of every kind.
func addPrompts(s *mcpserver.Server) error {
	message := func(c mcp.Content) []mcp.PromptMessage {
		return []mcp.PromptMessage{{Role: mcp.RoleAssistant, Content: c}}
	}
	return errors.Join(
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "simple", Description: "d"}, says("hello")),
		mcpserver.AddPrompt(s, &mcp.Prompt{
			Name: "greet", Title: "Greets", Icons: []mcp.Icon{{Src: "data:image/png;base64,AA=="}}, Meta: mcp.Meta{"com.example/a": json.RawMessage(`1`)},
			Arguments: []mcp.PromptArgument{{Name: "name", Title: "Name", Description: "who", Required: true}, {Name: "tone"}},
		}, func(_ context.Context, req *mcpserver.PromptRequest, in map[string]string) (string, error) {
			return fmt.Sprint(req.Name(), " ", in), nil
		}),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "review"}, func(_ context.Context, in reviewIn) (string, error) {
			return in.Code + "/" + in.Style + "/" + in.Skip, nil
		}),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "blocks"}, says(&mcp.GetPromptResult{
			Description: "several", Meta: mcp.Meta{"com.example/b": json.RawMessage(`2`)},
			Messages: []mcp.PromptMessage{
				{Role: mcp.RoleUser, Content: &mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}},
				{Role: mcp.RoleUser, Content: &mcp.AudioContent{Data: []byte{1}, MIMEType: "audio/wav"}},
				{Role: mcp.RoleUser, Content: &mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "test://a", MIMEType: "text/plain", Text: "a"}}},
				{Role: mcp.RoleAssistant, Content: &mcp.ResourceLink{URI: "test://b", Name: "b", Icons: []mcp.Icon{{Src: "data:,"}}}},
			},
		})),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "nil"}, says[*mcp.GetPromptResult](nil)),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "no type"}, says(message(&mcp.ImageContent{Data: []byte{1}}))),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "no audio type"}, says(message(&mcp.AudioContent{Data: []byte{1}}))),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "no uri"}, says(message(&mcp.EmbeddedResource{Resource: mcp.ResourceContents{MIMEType: "text/plain"}}))),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "no content"}, says(message(nil))),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "tool use"}, says(message(&mcp.ToolUseContent{ID: "1", Name: "x"}))),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "no role"}, says([]mcp.PromptMessage{{Content: mcp.Text("x")}})),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "secret"}, func(context.Context, noArguments) (string, error) { return "", errors.New("hunter2") }),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "refused"}, func(context.Context, noArguments) (string, error) { return "", mcp.Errorf(1234, "no") }),
	)
}

func withPrompts(t *testing.T, f func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, nil)
				if err := errors.Join(addPrompts(s), addResources(s)); err != nil {
					t.Fatal(err)
				}
				p := serve(t, s)
				p.open(v)
				f(t, v, p, s)
			})
		})
	}
}

func get(v mcp.Version, id any, name, arguments string) string {
	return request(v, id, mcp.MethodGetPrompt, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// PRM-01, TOOL-02: the list, in its order, without what older revisions do not have.
func TestListPrompts(t *testing.T) {
	withPrompts(t, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		var got struct{ Result mcp.ListPromptsResult }
		if err := json.Unmarshal([]byte(p.ask(request(v, 1, mcp.MethodListPrompts, "{}"))), &got); err != nil {
			t.Fatal(err)
		}
		byName := map[string]mcp.Prompt{}
		var names []string
		for _, one := range got.Result.Prompts {
			byName[one.Name] = one
			names = append(names, one.Name)
		}
		if len(names) != 13 || !slices.IsSorted(names) {
			t.Errorf("got %v", names)
		}
		greet := byName["greet"]
		titles := v.Has(mcp.FeatureTitles)
		if (greet.Title != "") != titles || (greet.Meta != nil) != titles || (greet.Arguments[0].Title != "") != titles ||
			(greet.Icons != nil) != v.Has(mcp.FeatureIcons) || len(greet.Arguments) != 2 || !greet.Arguments[0].Required || greet.Arguments[1].Required {
			t.Errorf("members of %s: got %+v", v, greet)
		}
		want := []mcp.PromptArgument{{Name: "code", Description: "what to review", Required: true}, {Name: "style"}}
		if got := byName["review"].Arguments; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("arguments of a struct: got %+v, want %+v", got, want)
		}
	})
}

// PRM-02, PRM-03: arguments are strings, those that are required are there, and the
// handler gets no others.
func TestGetPrompt(t *testing.T) {
	withPrompts(t, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		text := func(name, arguments, want string) {
			t.Helper()
			var got struct{ Result mcp.GetPromptResult }
			answer := p.ask(get(v, 1, name, arguments))
			if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Result.Messages) != 1 {
				t.Fatalf("%s %s: got %s", name, arguments, answer)
			}
			m := got.Result.Messages[0]
			if c, ok := m.Content.(*mcp.TextContent); !ok || c.Text != want || m.Role != mcp.RoleUser {
				t.Errorf("%s %s: got %s, want %s", name, arguments, answer, want)
			}
		}
		text("simple", `{}`, "hello")
		text("simple", `{"unknown":7}`, "hello")
		text("greet", `{"name":"Ada"}`, "greet map[name:Ada]")
		text("greet", `{"name":"","tone":"<b>&é","other":{}}`, "greet map[name: tone:<b>&é]") // PRM-06: it is text
		text("review", `{"code":"x","style":"y","Skip":"z","-":"z"}`, "x/y/")
		if got := p.ask(request(v, 2, mcp.MethodGetPrompt, `{"name":"simple"}`)); !strings.Contains(got, `"hello"`) {
			t.Errorf("without arguments: got %s", got)
		}
		for _, params := range []string{
			`{}`, `{"name":7}`, `{"name":"unknown"}`, `{"name":""}`, `{"name":"simple","arguments":[]}`, `{"name":"simple","arguments":"x"}`,
			`{"name":"simple","arguments":null}`, `{"name":"greet"}`, `{"name":"greet","arguments":{}}`, `{"name":"greet","arguments":{"name":7}}`,
			`{"name":"greet","arguments":{"name":null}}`, `{"name":"greet","arguments":{"name":["a"]}}`, `{"name":"greet","arguments":{"name":{}}}`,
			`{"name":"greet","arguments":{"Name":"a"}}`, `{"name":"greet","arguments":{"name":"a","tone":true}}`, `{"name":"review","arguments":{"style":"x"}}`,
		} {
			p.expectError(request(v, 3, mcp.MethodGetPrompt, params), mcp.CodeInvalidParams, "3")
		}
	})
}

// PRM-04, CONT-01, CONT-02, CONT-03: blocks that a revision lacks become text, and a
// result that is none is not sent.
func TestPromptResults(t *testing.T) {
	withPrompts(t, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		answer := p.ask(get(v, 1, "blocks", "{}"))
		var got struct{ Result mcp.GetPromptResult }
		if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Result.Description != "several" {
			t.Fatalf("got %s", answer)
		}
		var types []string
		for _, m := range got.Result.Messages {
			types = append(types, m.Content.ContentType())
		}
		want := []string{"image", "audio", "resource", "resource_link"}
		if !v.Has(mcp.FeatureAudioBlocks) {
			want[1] = "text"
		}
		if !v.Has(mcp.FeatureResourceLinks) {
			want[3] = "text"
		}
		if !slices.Equal(types, want) {
			t.Errorf("got %v, want %v", types, want)
		}
		if icons := strings.Contains(answer, `"icons"`); icons != v.Has(mcp.FeatureIcons) {
			t.Errorf("icons in %s: got %s", v, answer)
		}
		if modern := v.Era() == mcp.EraModern; strings.Contains(answer, "serverInfo") != modern || !strings.Contains(answer, "com.example/b") {
			t.Errorf("_meta: got %s", answer)
		}
		for _, name := range []string{"nil", "no type", "no audio type", "no uri", "no content", "no role", "tool use", "secret"} {
			if e := p.expectError(get(v, 2, name, "{}"), mcp.CodeInternal, "2"); e.Message != "internal error" {
				t.Errorf("%s: got %q", name, e.Message)
			}
		}
		p.expectError(get(v, 3, "refused", "{}"), 1234, "3")
	})
}

func TestAddPromptErrors(t *testing.T) {
	prompts := map[string]*mcp.Prompt{
		"nil": nil, "no name": {}, "taken": {Name: "simple"}, "long name": {Name: strings.Repeat("a", 1000)}, "name": {Name: "\xff"},
		"icon":           {Name: "x", Icons: []mcp.Icon{{Src: "http://example.com/i.png"}}},
		"argument":       {Name: "x", Arguments: []mcp.PromptArgument{{}}},
		"argument twice": {Name: "x", Arguments: []mcp.PromptArgument{{Name: "a"}, {Name: "a"}}},
	}
	for name, p := range prompts {
		refused(t, name, func(s *mcpserver.Server) error { return mcpserver.AddPromptFunc(s, p, says("")) })
	}
	refused(t, "number", func(s *mcpserver.Server) error {
		return mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "x"}, func(context.Context, struct{ N int }) (string, error) { return "", nil })
	})
	refused(t, "no struct", func(s *mcpserver.Server) error {
		return mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "x"}, func(context.Context, string) (string, error) { return "", nil })
	})
}
