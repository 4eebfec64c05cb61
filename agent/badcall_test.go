package agent_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

// A call whose arguments are no JSON object is answered, with place and reason, beside the calls of the turn that are made: the turn
// is not asked again, and the model does better.
func TestBadCallsAreAnswered(t *testing.T) {
	for bad, want := range map[string]string{
		`{"n":1,}`:      "invalid character '}'",
		`{"n":`:         "unexpected EOF",
		`[1]`:           "it is not a JSON object",
		`{"n":1,"n":2}`: "duplicate",
		`{"n":"\q"}`:    "invalid escape sequence",
	} {
		for _, api := range []string{"openai", "ollama"} {
			t.Run(api+" "+bad, func(t *testing.T) {
				want := want
				t.Parallel()
				var results []string
				script := llmtest.NewServer(llmtest.Calls(call("double", bad), call("double", `{"n":2}`)),
					llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
						results = llmtest.Results(req)
						return llmtest.Say("ok")
					}))
				srv := httptest.NewServer(script)
				t.Cleanup(srv.Close)
				var model llm.Model = openai.New("m", &openai.Options{BaseURL: srv.URL})
				if api == "ollama" {
					model = ollama.New("m", &ollama.Options{Host: srv.URL})
				}
				rt := open(t, &agent.Options{Model: model, Tools: []agent.Tool{double}})
				res, err := start(t, rt, "r1").Wait(t.Context())
				if err != nil || res.Text != "ok" || res.ToolCalls != 1 || len(script.Chats()) != 2 {
					t.Fatalf("got %+v, %v after %d requests", res, err, len(script.Chats()))
				}
				slices.Sort(results)
				if api == "ollama" { // what is no JSON comes as a string there
					want = "it is not a JSON object"
				}
				if len(results) != 2 || results[0] != "4" || !strings.Contains(results[1], "not called: the arguments are not one valid JSON object: ") || !strings.Contains(results[1], want) {
					t.Errorf("got %q, want %q", results, want)
				}
			})
		}
	}
}
