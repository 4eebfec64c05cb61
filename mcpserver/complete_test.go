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

func addCompletions(s *mcpserver.Server) error {
	many := make([]string, 250)
	for i := range many {
		many[i] = fmt.Sprint("value ", i)
	}
	total := int64(1000)
	return errors.Join(
		mcpserver.CompletePrompt(s, "greet", "name", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return mcpserver.Rank(req.Value(), "Ada", "Adam", "Eve", "Brad"), nil
		}),
		mcpserver.CompletePrompt(s, "greet", "tone", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return []string{req.Argument() + " for " + req.Chosen()["name"]}, nil
		}),
		mcpserver.CompletePrompt(s, "review", "code", func(context.Context, *mcpserver.CompleteRequest) ([]string, error) { return many, nil }),
		mcpserver.CompletePrompt(s, "review", "style", func(context.Context, *mcpserver.CompleteRequest) (*mcp.Completion, error) {
			return &mcp.Completion{Values: []string{"a"}, Total: &total, HasMore: true}, nil
		}),
		mcpserver.CompleteTemplate(s, "test://users/{id}", "id", func(_ context.Context, req *mcpserver.CompleteRequest) (*mcp.Completion, error) {
			if req.Value() == "x" {
				return nil, errors.New("hunter2")
			}
			return nil, nil
		}),
	)
}

func complete(v mcp.Version, id any, ref, argument, value, more string) string {
	return request(v, id, mcp.MethodComplete, fmt.Sprintf(`{"ref":%s,"argument":{"name":%q,"value":%q}%s}`, ref, argument, value, more))
}

// CMP-01, CMP-02, CMP-03, CMP-04, CAP-03: completions per argument and variable.
func TestComplete(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, nil)
				if err := errors.Join(addPrompts(s), addResources(s), addCompletions(s)); err != nil {
					t.Fatal(err)
				}
				p := serve(t, s)
				p.open(v)
				testComplete(t, v, p)
			})
		})
	}
}

func testComplete(t *testing.T, v mcp.Version, p *peer) {
	const greet, review, users = `{"type":"ref/prompt","name":"greet"}`, `{"type":"ref/prompt","name":"review","title":"x"}`, `{"type":"ref/resource","uri":"test://users/{id}"}`
	values := func(ref, argument, value, more string) mcp.Completion {
		t.Helper()
		var got struct {
			Result mcp.CompleteResult
			Error  *mcp.Error
		}
		answer := p.ask(complete(v, 1, ref, argument, value, more))
		if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error != nil {
			t.Fatalf("%s %s: got %s", ref, argument, answer)
		}
		return got.Result.Completion
	}
	if got := values(greet, "name", "ad", ""); !slices.Equal(got.Values, []string{"Ada", "Adam", "Brad"}) || *got.Total != 3 || got.HasMore {
		t.Errorf("names: got %+v", got)
	}
	want := "tone for Ada"
	if !v.Has(mcp.FeatureCompletionContext) {
		want = "tone for "
	}
	if got := values(greet, "tone", "", `,"context":{"arguments":{"name":"Ada"}}`); got.Values[0] != want {
		t.Errorf("with what was chosen: got %+v", got)
	}
	if got := values(review, "code", "", ""); len(got.Values) != 100 || !got.HasMore || *got.Total != 250 {
		t.Errorf("many: got %d of %d, more %v", len(got.Values), *got.Total, got.HasMore)
	}
	if got := values(review, "style", "", ""); *got.Total != 1000 || !got.HasMore {
		t.Errorf("a completion: got %+v", got)
	}
	for _, ref := range []string{users, `{"type":"ref/resource","uri":"test://users/7"}`} {
		if got := values(ref, "id", "", ""); got.Values == nil || len(got.Values) != 0 {
			t.Errorf("%s: got %+v", ref, got)
		}
	}
	for _, ref := range []string{`{"type":"ref/resource","uri":"test://text"}`, `{"type":"ref/resource","uri":"file:///etc/{+path}"}`} {
		if got := values(ref, "path", "", ""); len(got.Values) != 0 {
			t.Errorf("%s: got %+v", ref, got)
		}
	}
	for _, line := range []string{
		complete(v, 2, `{"type":"ref/prompt","name":"unknown"}`, "name", "", ""),
		complete(v, 2, greet, "unknown", "", ""), complete(v, 2, users, "unknown", "", ""), complete(v, 2, greet, "", "", ""),
		complete(v, 2, `{"type":"ref/resource","uri":"nowhere:{x}"}`, "x", "", ""), complete(v, 2, `{"type":"ref/tool","name":"echo"}`, "text", "", ""),
		complete(v, 2, `{"type":"ref/prompt"}`, "name", "", ""), complete(v, 2, `7`, "name", "", ""),
		request(v, 2, mcp.MethodComplete, `{}`), request(v, 2, mcp.MethodComplete, `{"ref":`+greet+`}`),
		request(v, 2, mcp.MethodComplete, `{"ref":`+greet+`,"argument":{"name":"name","value":7}}`),
		complete(v, 2, greet, "name", "", `,"context":{"arguments":{"name":7}}`),
	} {
		p.expectError(line, mcp.CodeInvalidParams, "2")
	}
	if e := p.expectError(complete(v, 3, users, "id", "x", ""), mcp.CodeInternal, "3"); e.Message != "internal error" {
		t.Errorf("a failure: got %q", e.Message)
	}
}

func TestCompletionErrors(t *testing.T) {
	suggest := func(context.Context, *mcpserver.CompleteRequest) ([]string, error) { return nil, nil }
	for name, add := range map[string]func(*mcpserver.Server) error{
		"prompt":   func(s *mcpserver.Server) error { return mcpserver.CompletePrompt(s, "unknown", "x", suggest) },
		"argument": func(s *mcpserver.Server) error { return mcpserver.CompletePrompt(s, "greet", "x", suggest) },
		"template": func(s *mcpserver.Server) error { return mcpserver.CompleteTemplate(s, "test://users", "id", suggest) },
		"variable": func(s *mcpserver.Server) error {
			return mcpserver.CompleteTemplate(s, "test://users/{id}", "x", suggest)
		},
	} {
		refused(t, name, func(s *mcpserver.Server) error {
			err := add(s)
			if !errors.Is(err, mcpserver.ErrUnknown) {
				t.Errorf("%s: got %v, want ErrUnknown", name, err)
			}
			return err
		})
	}
}

// CMP-02: what fits best comes first.
func TestRank(t *testing.T) {
	choices := []string{"Paris", "Lisbon", "Spa", "Pisa", "Las Palmas", "München"}
	for typed, want := range map[string]string{
		"":    "Paris,Lisbon,Spa,Pisa,Las Palmas,München",
		"pa":  "Paris,Spa,Las Palmas,Pisa",
		"PIS": "Pisa,Paris",
		"mün": "München",
		"mch": "München",
		"zz":  "",
	} {
		if got := strings.Join(mcpserver.Rank(typed, choices...), ","); got != want {
			t.Errorf("Rank(%q): got %s, want %s", typed, got, want)
		}
	}
}
