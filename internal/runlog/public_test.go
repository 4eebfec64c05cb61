package runlog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// What a provider has attached is in the journal, and in nothing that leaves it; a run that another store has recorded has none.
func TestPublic(t *testing.T) {
	said := llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(`it says "state":[{"provider"`)},
		State: []llm.ProviderState{{Provider: "p", Model: "m", Kind: "k", Call: "c", Data: json.RawMessage(`{"signature":"hushhush"}`)}}}
	for typ, body := range map[string]any{store.ModelResult: &ModelResult{Turn: 1, Message: said}, store.RunStarted: &RunStarted{Model: "m", Input: []llm.Message{said}}} {
		ev, err := (&Entry{Type: typ, Body: body}).Encode()
		if err != nil || !strings.Contains(string(ev.Body), "hushhush") {
			t.Fatalf("%s: journalled %s, %v", typ, ev.Body, err)
		}
		public := Public(ev)
		if strings.Contains(string(public.Body), "hushhush") || !strings.Contains(string(public.Body), "it says") || !strings.Contains(string(ev.Body), "hushhush") {
			t.Errorf("%s: got %s", typ, public.Body)
		}
		e, err := Decode(ev)
		if err != nil {
			t.Fatal(err)
		}
		e.Imported = true
		var s State
		s.addImported(&e)
		if s.Started != nil && s.Started.Input[0].State != nil || s.Turn != nil && s.Turn.Result.Message.State != nil {
			t.Errorf("%s: an import has it", typ)
		}
	}
	plain := store.Event{Type: store.ModelResult, Body: json.RawMessage(`{"turn":1}`)}
	if got := Public(plain); &got.Body[0] != &plain.Body[0] {
		t.Error("an event without it was written anew")
	}
}
