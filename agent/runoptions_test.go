package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

const city = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`

// A run starts with its prompt and what fits the agent's schema; anything else is refused
// before anything begins.
func TestInput(t *testing.T) {
	tests := []struct{ name, schema, prompt, input, want, err string }{
		{"input alone", city, "", `{"city":"Ulm"}`, `{"city":"Ulm"}`, ""},
		{"prompt and input", city, "weather?", `{"city":"Ulm"}`, "weather?\n\n{\"city\":\"Ulm\"}", ""},
		{"prompt alone", city, "weather?", "", "weather?", ""},
		{"does not fit", city, "", `{"town":"Ulm"}`, "", "the input does not fit"},
		{"no JSON", city, "", `{`, "", "the input does not fit"},
		{"takes none", "", "weather?", `{"city":"Ulm"}`, "", "takes no input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				model := llmtest.Script(llmtest.Say("rain"))
				rt := open(t, &agent.Options{Model: model})
				a := define(t, rt, "weather", &agent.Config{Input: json.RawMessage(tt.schema), Description: "knows the weather", Instructions: "Be brief.", Servers: []string{}})
				_, err := a.Run(t.Context(), tt.prompt, &agent.RunOptions{ID: "r", Input: json.RawMessage(tt.input)})
				if tt.err != "" {
					if err == nil || !strings.Contains(err.Error(), tt.err) || len(model.Requests()) != 0 {
						t.Errorf("got %v after %d requests, want %s", err, len(model.Requests()), tt.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got := model.Requests()[0].Messages[0].Content.Text(); got != tt.want {
					t.Errorf("the model sees %q, want %q", got, tt.want)
				}
				if _, err := a.Start(t.Context(), tt.prompt+"?", &agent.RunOptions{ID: "r", Input: json.RawMessage(tt.input)}); !errors.Is(err, agent.ErrRunExists) {
					t.Errorf("another input of the same ID: got %v", err)
				}
				if a.Description() != "knows the weather" || a.Config().Instructions != "Be brief." || string(a.Config().Input) != tt.schema || a.Config().Servers == nil {
					t.Errorf("Config: got %+v", a.Config())
				}
			})
		})
	}
}

// The intent of a call says whether it may be made twice: what the program says of its
// functions, and a trusted server of its tools; to start an agent, or to hand over to one,
// is harmless by itself.
func TestSafe(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		t.Run(fmt.Sprint("trusted ", trusted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newNotes(t)
				srv := mcpclient.InProcess("notes", n)
				srv.Trusted = trusted
				s := memory()
				rt := open(t, &agent.Options{Store: s, Servers: []mcpclient.Server{srv}, Model: llmtest.Script(), Approve: agent.NeverAsk})
				twice := double
				twice.Name, twice.Safe = "twice", true
				sub := define(t, rt, "sub", &agent.Config{Model: llmtest.Script(llmtest.Say("below"))})
				next := define(t, rt, "next", &agent.Config{Model: llmtest.Script(llmtest.Say("done"))})
				model := llmtest.Script(call("double", in{1}), call("twice", in{1}), call("notes__read", in{1}), call("notes__write", in{1}),
					call("sub", task("x")), call("transfer_to_next", nil))
				boss := define(t, rt, "boss", &agent.Config{Model: model, Tools: append(agent.HandOff(next), double, twice, sub.AsTool("sub", ""))})
				if _, err := boss.Run(t.Context(), "go", &agent.RunOptions{ID: "r"}); err != nil {
					t.Fatal(err)
				}
				events, err := s.Events(t.Context(), "r", 0, 1000)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, ev := range events {
					if ev.Type != store.ToolIntent {
						continue
					}
					e, err := runlog.Decode(ev)
					if err != nil {
						t.Fatal(err)
					}
					if i := e.Body.(*runlog.ToolIntent); i.Safe {
						got = append(got, i.Tool)
					}
				}
				want := []string{"twice", "sub", "transfer_to_next"}
				if trusted {
					want = slices.Insert(want, 1, "notes__read")
				}
				if !slices.Equal(got, want) {
					t.Errorf("safe: got %q, want %q", got, want)
				}
			})
		})
	}
}
