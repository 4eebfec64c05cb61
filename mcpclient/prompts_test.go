package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// PRM-02: arguments are strings, messages have a role and one block each; PRM-03: an
// unknown prompt is the server's error; HDR-03.
func TestGetPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodGetPrompt: `{"description":"d","messages":[
			{"role":"user","content":{"type":"text","text":"a"}},
			{"role":"assistant","content":{"type":"resource","resource":{"uri":"x:a","mimeType":"text/plain","text":"t"}}},
			{"role":"user","content":{"type":"odd","x":1}}]}`})
		c := w.dial(t, nil)
		res, err := c.GetPrompt(t.Context(), "p", map[string]string{"a": "1", "b": ""}, nil)
		if err != nil || len(res.Messages) != 3 || res.Messages[1].Content.ContentType() != mcp.TypeResource || res.Messages[2].Content.ContentType() != "odd" {
			t.Errorf("GetPrompt: got %+v, %v", res, err)
		}
		out, params := w.last(t)
		if out.Name != "p" || string(params["arguments"]) != `{"a":"1","b":""}` {
			t.Errorf("sent %s with the name %q", out.Frame, out.Name)
		}
		if _, err := c.GetPrompt(t.Context(), "", nil, nil); err == nil {
			t.Error("GetPrompt without a name: got no error")
		}
		w.methods[mcp.MethodGetPrompt] = func(*mcp.Message) string { return `!{"code":-32602,"message":"unknown prompt"}` }
		if _, err := c.GetPrompt(t.Context(), "p", nil, nil); !errors.Is(err, mcp.ErrInvalidParams) {
			t.Errorf("GetPrompt of an unknown prompt: got %v", err)
		}
		for _, result := range []string{`{}`, `{"messages":[{"role":"system","content":{"type":"text","text":"a"}}]}`, `{"messages":[{"role":"user"}]}`,
			`{"messages":[{"role":"user","content":{"type":"image","data":"no base64!","mimeType":"image/png"}}]}`} { // PRM-04
			w.methods[mcp.MethodGetPrompt] = func(*mcp.Message) string { return result }
			if _, err := c.GetPrompt(t.Context(), "p", nil, nil); !errors.Is(err, call.ErrInvalidResponse) {
				t.Errorf("GetPrompt with %s: got %v, want %v", result, err, call.ErrInvalidResponse)
			}
		}
	})
}

// CMP-01, CMP-02: what was chosen already goes along from 2025-06-18 on; of too many
// values the best hundred are kept.
func TestComplete(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				values, _ := json.Marshal(slices.Repeat([]string{"a"}, 101))
				w := newWire(v, map[string]string{mcp.MethodComplete: `{"completion":{"values":` + string(values) + `,"total":1000}}`})
				c := w.dial(t, nil)
				got, err := c.Complete(t.Context(), &mcp.CompleteParams{
					Ref:      mcp.CompletionRef{Type: mcp.RefPrompt, Name: "p", Title: "P"},
					Argument: mcp.CompletionArgument{Name: "a", Value: "x"},
					Context:  &mcp.CompletionContext{Arguments: map[string]string{"b": "1"}},
				})
				if err != nil || len(got.Values) != 100 || !got.HasMore || *got.Total != 1000 {
					t.Errorf("Complete: got %+v, %v", got, err)
				}
				_, params := w.last(t)
				want := v.Has(mcp.FeatureCompletionContext)
				if has := params["context"] != nil; has != want || strings.Contains(string(params["ref"]), "title") != want {
					t.Errorf("sent %s, want the context %v", params, want)
				}
			})
		})
	}
}

// CAP-03, CMP-03: a server that does not complete is not asked; before 2025-03-26
// that is found out by asking, where there is something to complete.
func TestCompleteUnsupported(t *testing.T) {
	tests := []struct {
		version mcp.Version
		caps    string
		answer  string
		asked   bool
		is      error
	}{
		{mcp.V2025_11_25, `{"prompts":{}}`, "", false, ErrUnsupported},
		{mcp.V2026_07_28, `{"prompts":{}}`, "", false, ErrUnsupported},
		{mcp.V2024_11_05, `{"tools":{}}`, "", false, ErrUnsupported},
		{mcp.V2024_11_05, `{"prompts":{}}`, `!{"code":-32601,"message":"no"}`, true, ErrUnsupported},
		{mcp.V2024_11_05, `{"resources":{}}`, `{"completion":{"values":["a"]}}`, true, nil},
		{mcp.V2025_11_25, `{"completions":{}}`, `!{"code":-32602,"message":"no"}`, true, mcp.ErrInvalidParams},
		{mcp.V2025_11_25, `{"completions":{}}`, `{"completion":{}}`, true, nil}, // CMP-04: partial
		{mcp.V2025_11_25, `{"completions":{}}`, `{"completion":[]}`, true, call.ErrInvalidResponse},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.version, tt.caps, tt.answer), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire(tt.version, map[string]string{mcp.MethodComplete: tt.answer})
				w.caps = tt.caps
				_, err := w.dial(t, nil).Complete(t.Context(), completionOf("x"))
				if asked := len(w.heard()) > 0; asked != tt.asked || !errors.Is(err, tt.is) {
					t.Errorf("Complete: got %v, asked %v; want %v, asked %v", err, asked, tt.is, tt.asked)
				}
			})
		})
	}
}

func completionOf(value string) *mcp.CompleteParams {
	return &mcp.CompleteParams{Ref: mcp.CompletionRef{Type: mcp.RefResource, URI: "x:{a}"}, Argument: mcp.CompletionArgument{Name: "a", Value: value}}
}

// CMP-04: the same is not asked twice within a short while, by the same principal.
func TestCompletionsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(mcp.V2025_11_25, map[string]string{mcp.MethodComplete: `{"completion":{"values":["a"]}}`})
		var who atomic.Value
		who.Store("ann")
		c := w.dial(t, &Options{Principal: func(string) string { return who.Load().(string) }})
		for i, step := range []struct {
			value string
			asks  bool
			then  func()
		}{
			{"a", true, nil}, {"ab", true, nil}, {"a", false, func() { who.Store("bob") }}, {"a", true, func() { time.Sleep(11 * time.Second) }},
			{"a", true, func() { w.notify(mcp.NotificationPromptsChanged, `{}`) }}, {"a", true, nil},
		} {
			if _, err := c.Complete(t.Context(), completionOf(step.value)); err != nil {
				t.Fatal(err)
			}
			if asked := len(w.heard()) > 0; asked != step.asks {
				t.Errorf("step %d: asked %v, want %v", i, asked, step.asks)
			}
			if step.then != nil {
				step.then()
			}
		}
		if _, err := c.Complete(t.Context(), nil); err == nil {
			t.Error("Complete without parameters: got no error")
		}
		if _, err := c.Complete(t.Context(), &mcp.CompleteParams{Ref: mcp.CompletionRef{Type: "ref/odd"}}); err == nil {
			t.Error("Complete with an odd reference: got no error")
		}
	})
}
