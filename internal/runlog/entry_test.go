package runlog

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// samples are one body of each kind.
func samples() map[string]any {
	return map[string]any{
		store.RunStarted:     &RunStarted{Agent: "a", Path: []string{"a"}, Model: "m", Input: []llm.Message{llm.User("hi")}, Nonce: "n", Steps: 1, Repeats: -1, With: []byte(`{"a":1}`)},
		ToolsListedType:      &ToolsListed{Tools: []ToolRef{{"t", "s", "h"}}, Absent: []Absent{{"x", "down"}}},
		ModelIntentType:      &ModelIntent{Turn: 1, Reserved: 9, Held: budget.Amount{Tokens: 20, Cost: 7, ModelCalls: 1, Steps: 1}, Last: true},
		store.ModelResult:    &ModelResult{Turn: 1, Message: llm.Assistant("hello"), Finish: llm.FinishStop, Usage: Usage{Input: 1, Output: 2}},
		ModelFailedType:      &ModelFailed{Turn: 1, Usage: Usage{Input: 1, Estimated: true}, Attempts: 2, Error: "down", Lost: true, Class: "server", Unbilled: true},
		SpentType:            &Spent{What: SpentSampling, Server: "s", Model: "m", Usage: Usage{Input: 1, Output: 2, Cost: 3}},
		store.ToolIntent:     &ToolIntent{Turn: 1, CallID: "c", Tool: "t", Arguments: []byte(`{"a":1}`)},
		store.ToolDispatched: &ToolDispatched{Turn: 1, CallID: "c"},
		store.ToolResult:     &ToolResult{Turn: 1, CallID: "c", Tool: "t", Made: true, Result: mcp.ErrorResult("no")},
		store.ToolUnknown:    &ToolUnknown{Turn: 1, CallID: "c", Tool: "t", Reason: "lost"},
		store.AskOpened:      &AskOpened{Ask: store.Ask{ID: "i", Kind: AskKind, Payload: []byte(`{"a":1}`), Decision: store.Decision{Status: store.AskPending}}},
		store.AskSettled:     &AskSettled{Status: store.AskAccepted, By: "ada", Scope: "once"},
		RunEndingType: &RunEnding{State: store.Failed, Stop: StopFailed, Text: "t", Structured: []byte(`{}`), Error: "e", Unknown: true,
			Limit: &LimitReached{Limit: "cost", Max: "1", Then: LimitStop}, Guard: &GuardActed{Guard: "g", Point: "p", Action: GuardStopped}},
		RunParkedType:    &RunParked{Why: "it was suspended", Class: "server", Since: time.Unix(1, 0).UTC(), Wake: time.Unix(2, 0).UTC()},
		RunResumedType:   &RunResumed{Owner: "o", Program: "p", Drift: true, Open: []string{"k"}, With: []byte(`{"a":1}`)},
		RunDriftedType:   &RunDrifted{Policy: DriftContinue, What: []string{"w"}, Tools: []string{"t"}},
		RunForkedType:    &RunForked{From: "r", At: 7, Program: "p", Results: []string{"k"}, Prompt: true, Said: true},
		InputAddedType:   &InputAdded{Message: llm.User("again"), Why: AddedRedo},
		LimitReachedType: &LimitReached{Account: "run r", Limit: "cost", Max: "0.25", Spent: "0.20", Then: LimitAsk},
		GuardActedType:   &GuardActed{Guard: "g", Point: "final", Action: GuardChanged, Text: "why"},
		HistoryCutType:   &HistoryCut{Turn: 3, Before: 9, After: 5, Limit: 6, Results: []CutResult{{"c", "t", 7, 50}}, Messages: 2, Dropped: 4, Summary: "s"},
		AgentChangedType: &AgentChanged{Turn: 1, From: "a", To: "b", Path: []string{"a", "b"}, Hash: "h", Model: "m", System: "s"},
		StopMetType:      &StopMet{Turn: 1, Condition: "enough"},
		ToolWaitingType:  &ToolWaiting{Turn: 1, CallID: "c", Tool: "t", Server: "s", For: "an instance"},
		ToolTaskType:     &ToolTask{Turn: 1, CallID: "c", Task: "task-1"},
		ToolRoundType: &ToolRound{Turn: 1, CallID: "c", State: new(string),
			Requests: mcp.InputRequests{"q": {Method: mcp.MethodElicit, Params: []byte(`{"message":"m"}`)}}},
		TaintedType:          &Tainted{Seen: Taint{Untrusted: true, Private: true}, Tool: "t", Server: "s"},
		QuestionDeclinedType: &QuestionDeclined{Kind: AskForm, Server: "s", Tool: "t", Reason: "why"},
		LimitRaisedType:      &LimitRaised{Account: "run r", Limit: "cost", By: "0.25"},
		store.RunFinished:    &RunFinished{State: store.Finished, Stop: "stop", Text: "hello", Structured: []byte(`{}`)},
	}
}

func TestDecodeWhatWasEncoded(t *testing.T) {
	all := samples()
	for typ := range bodies {
		body, ok := all[typ]
		if !ok {
			t.Errorf("no sample of %s", typ)
			continue
		}
		e := Entry{Type: typ, Key: "k", Body: body}
		ev, err := e.Encode()
		if err != nil {
			t.Errorf("encode(%s): %v", typ, err)
			continue
		}
		got, err := Decode(ev)
		if err != nil || got.Key != "k" || !reflect.DeepEqual(got.Body, body) {
			t.Errorf("Decode(%s): got %+v, %v, want %+v", typ, got.Body, err, body)
		}
	}
	later, err := Decode(store.Event{Type: "later.version", Body: []byte(`{"x":1}`)})
	if raw, ok := later.Body.([]byte); err != nil || ok && string(raw) != `{"x":1}` {
		t.Errorf("Decode of an unknown type: got %+v, %v", later, err)
	}
}

// TestDecodeOlder: what earlier versions have written still reads.
func TestDecodeOlder(t *testing.T) {
	for typ, tt := range map[string]struct {
		body string
		want any
	}{
		store.ModelResult: {`{"turn":1,"message":{"role":"assistant","content":[]},"finish":"stop","usage":{"input":1,"output":2}}`,
			&ModelResult{Turn: 1, Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{}}, Finish: llm.FinishStop, Usage: Usage{Input: 1, Output: 2}}},
		store.AskSettled: {`{"status":"accepted","by":"ada"}`, &AskSettled{Status: store.AskAccepted, By: "ada"}},
	} {
		got, err := Decode(store.Event{Type: typ, Body: []byte(tt.body)})
		if err != nil || !reflect.DeepEqual(got.Body, tt.want) {
			t.Errorf("Decode(%s): got %+v, %v, want %+v", typ, got.Body, err, tt.want)
		}
	}
}

// TestEncodeBounds: bodies that no store takes are cut where that loses nothing that
// matters.
func TestEncodeBounds(t *testing.T) {
	huge := strings.Repeat("x", store.MaxBody)
	escaped := strings.Repeat("\x01", store.MaxBody/5) // six bytes each in JSON
	tests := []struct {
		name string
		body any
		ok   bool
	}{
		{"result", &ToolResult{Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(escaped)}}}, true},
		{"thinking", &ModelResult{Thinking: huge, Message: llm.Assistant("x")}, true},
		{"answer", &RunFinished{Text: huge, Structured: []byte(`"` + huge + `"`)}, true},
		{"text", &ModelResult{Message: llm.Assistant(huge)}, false},
	}
	for _, tt := range tests {
		e := Entry{Type: "x", Body: tt.body}
		ev, err := e.Encode()
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := ev.Check() == nil; got != tt.ok {
			t.Errorf("%s: the store takes its %d bytes: %v, want %v", tt.name, len(ev.Body), got, tt.ok)
		}
	}
}

// FuzzDecode: a damaged journal is an error, never a panic.
func FuzzDecode(f *testing.F) {
	for typ, body := range samples() {
		e := Entry{Type: typ, Body: body}
		ev, err := e.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(typ, []byte(ev.Body))
	}
	f.Add(store.ToolResult, []byte(`{"result":null}`))
	f.Fuzz(func(t *testing.T, typ string, body []byte) {
		e, err := Decode(store.Event{Type: typ, Body: body})
		if err == nil && e.Body == nil {
			t.Error("no body and no error")
		}
	})
}
