package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/tests/modelservers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// wires is how the double sends what each backend does.
var wires = map[backend]llmtest.Wire{
	native: {},
	compat: {Calls: llmtest.CallsWhole, Reasoning: "reasoning"},
	llama:  {Calls: llmtest.CallsInPieces, Reasoning: "reasoning_content"},
}

// scene is a request, and the turns of the double that are to look like what the
// constructed model does with it.
type scene struct {
	name  string
	ask   func(req *llm.Request) // changes a request of tools and no message
	turns []llmtest.Turn
	wire  func(w *llmtest.Wire)
	on    []backend // nil: all of them
	// anyCall says that it does not matter what is called: a grammar leaves the choice
	// between things that are equally likely.
	anyCall bool
}

func prompt(text string) func(*llm.Request) {
	return func(req *llm.Request) { req.Messages = []llm.Message{llm.User(text)} }
}

// scenes are what both must do alike.
func scenes() []scene {
	b := modelservers.Behaviour()
	paris := llmtest.Call("get_weather", `{"city": "Paris"}`)
	both := llmtest.Calls(llmtest.Call("get_weather", `{"city": "Oslo"}`), llmtest.Call("get_time", `{"zone": "UTC"}`))
	return []scene{
		{name: "text", ask: prompt("Hello"), turns: []llmtest.Turn{llmtest.Say(b.Default[:6], b.Default[6:])}},
		{name: "characters of many bytes", ask: prompt("#unicode"), turns: []llmtest.Turn{llmtest.Say(b.Routes["#unicode"])}},
		{name: "thinking", ask: prompt("#think"), turns: []llmtest.Turn{llmtest.Join(llmtest.Think("Let me ponder ", "this.\n"), llmtest.Say("It is 42."))}},
		{name: "a call", ask: prompt("#weather"), turns: []llmtest.Turn{paris}},
		{name: "two calls", ask: prompt("#both"), turns: []llmtest.Turn{both}},
		{name: "text and a call", ask: prompt("#say"), turns: []llmtest.Turn{
			llmtest.Join(llmtest.Say("Now I look outside.\n"), llmtest.Call("get_weather", `{"city": "Turin"}`))}},
		{name: "a limit", turns: []llmtest.Turn{llmtest.Say("Alpha, beta,").Finish(llm.FinishLength)}, ask: func(req *llm.Request) {
			prompt("#long")(req)
			req.MaxTokens = 2
		}},
		{name: "a stop word", turns: []llmtest.Turn{llmtest.Say("before the word ")}, ask: func(req *llm.Request) {
			prompt("#stop")(req)
			req.Stop = []string{"ENOUGH"}
		}},
		{name: "no calls wanted", turns: []llmtest.Turn{llmtest.Say(b.Routes["#weather"])}, ask: func(req *llm.Request) {
			prompt("#weather")(req)
			req.ToolChoice = llm.ToolChoiceNone
		}},
		{name: "a call that is required", anyCall: true, on: []backend{native, compat}, ask: func(req *llm.Request) {
			prompt("Hello")(req)
			req.ToolChoice = llm.ToolChoiceRequired
		}, turns: []llmtest.Turn{llmtest.Say(b.Default), llmtest.Say(`{"name": "get_weather", "arguments": {"city": ""}}`)}},
		{name: "a call that is required", on: []backend{llama}, ask: func(req *llm.Request) {
			prompt("Hello")(req)
			req.ToolChoice = llm.ToolChoiceRequired
		}, turns: []llmtest.Turn{llmtest.Join(llmtest.Say(b.Default+"\n"), llmtest.Call("get_time", `{"zone":"CET"}`))}},
		{name: "a turn that gives up", on: []backend{native}, ask: prompt("#stuck"), wire: func(w *llmtest.Wire) { w.Fault, w.After = llmtest.NotDone, 1 },
			turns: []llmtest.Turn{llmtest.Say(strings.Repeat("knock ", 31), "more")}},
		{name: "a turn that gives up", on: []backend{compat}, ask: prompt("#stuck"), wire: func(w *llmtest.Wire) { w.Fault, w.After, w.Usage = llmtest.Stop, 2, llmtest.UsageNone },
			turns: []llmtest.Turn{llmtest.Say(strings.Repeat("knock ", 31), "more")}},
		{name: "no such model", on: []backend{native, compat}, ask: func(req *llm.Request) {
			prompt("Hello")(req)
			req.Model = "nope"
		}},
		{name: "too long", on: []backend{llama}, ask: prompt(strings.Repeat("blah ", 1000)), turns: []llmtest.Turn{llmtest.Reply(400,
			`{"error":{"code":400,"message":"request (5007 tokens) exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":5007,"n_ctx":4096}}`)}},
	}
}

// TestContract: our clients see the same of the double as of the real servers.
func TestContract(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		for _, sc := range scenes() {
			if sc.on != nil && !slices.Contains(sc.on, b) {
				continue
			}
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				s := b.tiny(t)
				req := &llm.Request{Tools: tools(), Temperature: new(float64)}
				sc.ask(req)
				script := llmtest.NewServer(overWire(sc, b)...)
				script.Models = []string{s.model}
				double := httptest.NewServer(script)
				defer double.Close()

				want := normal(t, s, req, sc.anyCall)
				got := normal(t, service{b, double.URL, s.model}, req, sc.anyCall)
				if !slices.Equal(got, want) {
					t.Errorf("the double and %s differ:\ngot  %q\nwant %q", b.name, got, want)
				}
				if failures := script.Failures(); len(failures) > 0 || script.Remaining() > 0 {
					t.Errorf("the double was asked wrongly, or not for %d turns: %q", script.Remaining(), failures)
				}
			})
		}
	})
}

// overWire are the turns of a scene as a backend sends them.
func overWire(sc scene, b backend) []llmtest.Turn {
	wire := wires[b]
	if sc.wire != nil {
		sc.wire(&wire)
	}
	var turns []llmtest.Turn
	for _, turn := range sc.turns {
		turns = append(turns, turn.Usage(5, 7).Over(wire))
	}
	return turns
}

// normal is what a client passes on, without what depends on how fast it came, and
// without the numbers.
func normal(t *testing.T, s service, req *llm.Request, anyCall bool) []string {
	t.Helper()
	var out []string
	last := ""
	add := func(kind, text string) {
		if kind == last && (kind == "text" || kind == "thinking") {
			out[len(out)-1] += text
		} else {
			out = append(out, kind+" "+text)
		}
		last = kind
	}
	for ev, err := range s.client().Stream(soon(t), req) {
		if err != nil {
			add("error", kindOf(err))
			continue
		}
		switch ev := ev.(type) {
		case llm.TextDelta:
			add("text", ev.Text)
		case llm.ThinkingDelta:
			add("thinking", ev.Text)
		case llm.ToolCall:
			if ev.ID == "" {
				t.Errorf("call %d has no id", ev.Index)
			}
			call := ev.Name + " " + compact(t, ev.Arguments)
			if anyCall {
				call = ""
			}
			add("call", fmt.Sprint(ev.Index, " ", call))
		case llm.Usage:
			add("usage", fmt.Sprintf("counted=%v estimated=%v", ev.Input > 0 && ev.Output > 0, ev.Estimated))
		case llm.Finish:
			add("finish", string(ev.Reason)+" of "+ev.Model)
		}
	}
	return out
}

// kindOf is what callers of a client can tell of an error.
func kindOf(err error) string {
	var e *llm.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	kind := "other"
	for _, known := range []error{llm.ErrStreamCut, llm.ErrNotFound, llm.ErrContextLength, llm.ErrUnsupported, llm.ErrInvalidRequest, llm.ErrBadResponse, llm.ErrUnreachable} {
		if errors.Is(err, known) {
			kind = known.Error()
		}
	}
	return fmt.Sprintf("%s, status %d, retryable=%v", kind, e.Status, e.Retryable)
}

// TestDocuments: the double's lines and events have no member that the real ones lack.
func TestDocuments(t *testing.T) {
	everywhere(t, func(t *testing.T, b backend) {
		s := b.tiny(t)
		tools, err := jsonx.Marshal(toolsOf(t))
		if err != nil {
			t.Fatal(err)
		}
		path, more := chatPath, ""
		if b.api == "openai" {
			path, more = v1Path, `,"stream_options":{"include_usage":true}`
		}
		had, has := map[string]bool{}, map[string]bool{}
		for _, sc := range scenes() {
			req := &llm.Request{}
			sc.ask(req)
			if sc.wire != nil || len(sc.turns) != 1 || sc.on != nil || req.MaxTokens > 0 || req.Stop != nil || req.ToolChoice != "" {
				continue
			}
			text, err := jsonx.Marshal(req.Messages[0].Content.Text())
			if err != nil {
				t.Fatal(err)
			}
			body := fmt.Sprintf(`{"model":%q,"stream":true%s,"messages":[{"role":"user","content":%s}],"tools":%s}`, s.model, more, text, tools)
			double := httptest.NewServer(llmtest.NewServer(overWire(sc, b)...))
			for url, into := range map[string]map[string]bool{s.url: has, double.URL: had} {
				status, got := post(t, url+path, body)
				if status != 200 {
					t.Errorf("%s, %s: got status %d: %s", sc.name, url, status, got)
				}
				members(t, got, into)
			}
			double.Close()
		}
		if len(had) < 8 {
			t.Errorf("the double has only %q", slices.Sorted(maps.Keys(had)))
		}
		delete(had, ".choices[].logprobs") // which OpenAI itself sends, as null
		for _, member := range slices.Sorted(maps.Keys(had)) {
			if !has[member] {
				t.Errorf("the double sends %s, which %s does not; it has %q", member, b.name, slices.Sorted(maps.Keys(has)))
			}
		}
	})
}

// toolsOf are tools as both APIs take them.
func toolsOf(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for _, tool := range tools() {
		out = append(out, map[string]any{"type": "function", "function": map[string]any{"name": tool.Name, "parameters": json.RawMessage(tool.InputSchema)}})
	}
	return out
}

// members collects the paths of all members of a stream's documents. Those of a call's
// arguments are the tool's.
func members(t *testing.T, stream string, into map[string]bool) {
	t.Helper()
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				into[path+"."+name] = true
				if name != "arguments" {
					walk(path+"."+name, value)
				}
			}
		case []any:
			for _, value := range v {
				walk(path+"[]", value)
			}
		}
	}
	for line := range strings.Lines(stream) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		if line == "" || line == "[DONE]" {
			continue
		}
		var doc any
		if err := json.Unmarshal([]byte(line), &doc); err != nil {
			t.Errorf("a line of a stream: %v: %s", err, line)
			continue
		}
		walk("", doc)
	}
}
