package models

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// TestText: an answer comes in pieces, with its cost as the server counts it.
func TestText(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		s := b.tiny(t)
		for prompt, want := range map[string]string{"Hello": modelservers.Behaviour().Default, "#unicode": modelservers.Behaviour().Routes["#unicode"]} {
			var text strings.Builder
			pieces := 0
			var usage llm.Usage
			var finish llm.Finish
			for ev, err := range s.client().Stream(soon(t), saying(prompt)) {
				if err != nil {
					t.Fatalf("Stream(%q): %v", prompt, err)
				}
				switch ev := ev.(type) {
				case llm.TextDelta:
					pieces++
					text.WriteString(ev.Text)
				case llm.Usage:
					usage = ev
				case llm.Finish:
					finish = ev
				}
			}
			if text.String() != want || pieces < 3 {
				t.Errorf("Stream(%q): got %q in %d pieces, want %q in some", prompt, text.String(), pieces, want)
			}
			if usage.Input < 3 /* the roles are two, and the marker */ || usage.Output < pieces || usage.Estimated {
				t.Errorf("Stream(%q): got usage %+v for %d pieces", prompt, usage, pieces)
			}
			if want := (llm.Finish{Reason: llm.FinishStop, Model: s.model}); !reflect.DeepEqual(finish, want) {
				t.Errorf("Stream(%q): got %+v, want %+v", prompt, finish, want)
			}
		}
	})
}

// TestCalls: two calls at once, in pieces from llama-server, whole from Ollama, and
// text before a call; results lead to the next turn.
func TestCalls(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		m := b.tiny(t).client()
		req := saying("#both, please")
		req.Tools = tools()
		resp := ask(t, m, req)
		calls := resp.Calls()
		if resp.Finish != llm.FinishToolCalls || len(calls) != 2 || resp.Text() != "" {
			t.Fatalf("Generate(#both): got %q, %d calls, finish %q", resp.Text(), len(calls), resp.Finish)
		}
		results := llm.Message{Role: llm.RoleUser}
		ids := map[string]bool{}
		for i, want := range []struct{ name, arguments string }{{"get_weather", `{"city":"Oslo"}`}, {"get_time", `{"zone":"UTC"}`}} {
			ids[calls[i].ID] = true
			if calls[i].Name != want.name || compact(t, calls[i].Input) != want.arguments || calls[i].ID == "" {
				t.Errorf("call %d: got %+v with %s, want %+v", i, calls[i], calls[i].Input, want)
			}
			results.Content = append(results.Content, &mcp.ToolResultContent{ToolUseID: calls[i].ID, Content: mcp.Contents{mcp.Text("fine")}})
		}
		if len(ids) != 2 {
			t.Errorf("the calls have the same id %q", calls[0].ID)
		}
		req.Messages = append(req.Messages, resp.Message(), results)
		if resp := ask(t, m, req); resp.Text() != modelservers.Behaviour().Tool || resp.Finish != llm.FinishStop {
			t.Errorf("after the results: got %q, finish %q", resp.Text(), resp.Finish)
		}

		req = saying("#say")
		req.Tools = tools()
		resp = ask(t, m, req)
		if calls := resp.Calls(); strings.TrimSpace(resp.Text()) != "Now I look outside." || len(calls) != 1 || compact(t, calls[0].Input) != `{"city":"Turin"}` {
			t.Errorf("Generate(#say): got %q and calls %+v", resp.Text(), calls)
		}
	})
}

// compact is JSON without blanks, in its own order.
func compact(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestThinking: what the model thinks is told apart from what it says.
func TestThinking(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		resp := ask(t, b.tiny(t).client(), saying("#think"))
		if strings.TrimSpace(resp.Thinking) != "Let me ponder this." || resp.Text() != "It is 42." {
			t.Errorf("Generate(#think): got %q, thinking %q", resp.Text(), resp.Thinking)
		}
	})
}

// TestTemperature: zero reaches a server as something that it can divide by.
func TestTemperature(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		for _, temperature := range []float64{0, 1e-45, 1e-10, 1} {
			req := saying("Hello")
			req.Temperature = &temperature
			if resp := ask(t, b.tiny(t).client(), req); resp.Text() != modelservers.Behaviour().Default {
				t.Errorf("Generate at %v: got %q", temperature, resp.Text())
			}
		}
	})
}

// TestStopWord: the answer ends before it.
func TestStopWord(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		req := saying("#stop")
		req.Stop = []string{"NEVER", "ENOUGH"}
		if resp := ask(t, b.tiny(t).client(), req); resp.Text() != "before the word " || resp.Finish != llm.FinishStop {
			t.Errorf("Generate(#stop): got %q, finish %q", resp.Text(), resp.Finish)
		}
	})
}

// TestTokenLimit: the limit reaches each server in the field that it reads.
func TestTokenLimit(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		for _, limit := range []int{1, 7} {
			req := saying("#long")
			req.MaxTokens = limit
			resp := ask(t, b.tiny(t).client(), req)
			if resp.Finish != llm.FinishLength || resp.Usage.Output != limit || !strings.HasPrefix(modelservers.Behaviour().Routes["#long"], resp.Text()) {
				t.Errorf("Generate(#long) with %d tokens: got %q, finish %q, %+v", limit, resp.Text(), resp.Finish, resp.Usage)
			}
		}
		// A call that is cut is none.
		req := saying("#weather")
		req.Tools, req.MaxTokens = tools(), 6
		if resp := ask(t, b.tiny(t).client(), req); resp.Finish != llm.FinishLength || len(resp.Calls()) > 0 {
			t.Errorf("Generate(#weather) with 6 tokens: got %+v, finish %q", resp.Calls(), resp.Finish)
		}
	})
}

// TestSchema: the answer is JSON of the schema, also of a model that can think and is
// not told whether to. The grammar also allows white space between any two parts, which the
// tiny model may say up to its bound where two tokens are as likely as each other: an
// answer that is cut there proves nothing, and the model is asked again, less greedily.
func TestSchema(t *testing.T) {
	oneByOne(t, func(t *testing.T, b backend) {
		req := saying("Describe yourself.")
		req.Schema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},"tags":{"type":"array","items":{"type":"string"}}},"required":["name","age","tags"],"additionalProperties":false}`)
		req.MaxTokens, req.Temperature = 200, new(float64)
		if b == compat { // it drops the grammar of a model that may think and does not
			req.Effort = llm.EffortNone
		}
		m := b.tiny(t).client()
		resp := ask(t, m, req)
		for range 20 {
			if resp.Finish != llm.FinishLength {
				break
			}
			t.Logf("an answer was cut: %q", resp.Text())
			*req.Temperature = min(*req.Temperature+0.2, 1)
			resp = ask(t, m, req)
		}
		var answer struct {
			Name *string   `json:"name"`
			Age  *int      `json:"age"`
			Tags *[]string `json:"tags"`
		}
		if err := json.Unmarshal([]byte(resp.Text()), &answer); err != nil || answer.Name == nil || answer.Age == nil || answer.Tags == nil {
			t.Errorf("Generate with a schema: got %q, finish %q, %v", resp.Text(), resp.Finish, err)
		}
	})
}

// TestToolChoice: a model that would not call has to, and one that would must not.
func TestToolChoice(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		m := b.tiny(t).client()
		req := saying("#weather")
		req.Tools, req.ToolChoice = tools(), llm.ToolChoiceNone
		if resp := ask(t, m, req); len(resp.Calls()) > 0 || resp.Finish != llm.FinishStop {
			t.Errorf("Generate with choice none: got %+v, finish %q", resp.Calls(), resp.Finish)
		}
		req = saying("Hello") // Ollama is asked twice: it knows no tool choice
		req.Tools, req.ToolChoice, req.MaxTokens, req.Temperature = tools(), llm.ToolChoiceRequired, 200, new(float64)
		resp := ask(t, m, req)
		if b == llama {
			if calls := resp.Calls(); len(calls) != 1 || compact(t, calls[0].Input) != `{"zone":"CET"}` {
				t.Errorf("Generate with choice required: got %q, calls %+v, finish %q", resp.Text(), calls, resp.Finish)
			}
			req.MaxTokens = 5 // which end in the text before the call
			if resp := ask(t, m, req); resp.Finish != llm.FinishLength || len(resp.Calls()) > 0 {
				t.Errorf("Generate with choice required and 5 tokens: got %+v, finish %q", resp.Calls(), resp.Finish)
			}
			return
		}
		if calls := resp.Calls(); len(calls) == 0 || calls[0].Name != "get_weather" && calls[0].Name != "get_time" {
			t.Errorf("Generate with choice required: got %q, calls %+v, finish %q", resp.Text(), calls, resp.Finish)
		}
	})
}

// TestCancel: a stream without end is cancelled, or its reader leaves; the server's only
// slot is free again.
func TestCancel(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		for _, leaves := range []bool{false, true} {
			b.leaving(t, func() error {
				s, _ := b.alone(t, 8)
				m := s.client()
				leave(t, m, leaves)
				ctx, cancel := context.WithTimeout(t.Context(), answered)
				defer cancel()
				resp, err := llm.Generate(ctx, m, saying("Hello"))
				if err == nil && resp.Text() != modelservers.Behaviour().Default {
					t.Errorf("the next turn, leaves=%v: got %q", leaves, resp.Text())
				}
				return err
			})
		}
	})
}

// leave reads a part of a stream without end, and then goes, or cancels it.
func leave(t *testing.T, m llm.Model, goes bool) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(soon(t))
	defer cancel(nil)
	why := errors.New("the user has gone home")
	pieces := 0
	var got error
	for _, err := range m.Stream(ctx, saying("#forever")) {
		if got = err; err != nil {
			break
		}
		if pieces++; pieces == 20 && goes {
			break
		} else if pieces == 20 {
			cancel(why)
		}
	}
	if goes != (got == nil) || !goes && !errors.Is(got, why) {
		t.Errorf("Stream(#forever), goes=%v: got error %v after %d pieces", goes, got, pieces)
	}
}
