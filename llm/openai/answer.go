package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// event is one document of the Responses API: an event of a stream, or, without a type, a whole response.
type event struct {
	Type        string      `json:"type"`
	Delta       jsonx.Value `json:"delta"`
	OutputIndex jsonx.Value `json:"output_index"`
	Item        jsonx.Value `json:"item"`
	Response    jsonx.Value `json:"response"`
	Output      jsonx.Value `json:"output"` // of a whole response
}

// response is what is needed of a response. Members of a foreign type are none.
type response struct {
	Model      jsonx.Value           `json:"model"`
	Status     jsonx.Value           `json:"status"`
	Error      jsonx.Value           `json:"error"`
	Output     rest.Few[jsonx.Value] `json:"output"`
	Usage      jsonx.Value           `json:"usage"`
	Incomplete jsonx.Value           `json:"incomplete_details"`
}

// item is one entry of an answer.
type item struct {
	Type      string                `json:"type"`
	CallID    string                `json:"call_id"`
	Name      string                `json:"name"`
	Arguments string                `json:"arguments"`
	Phase     string                `json:"phase"`
	Content   rest.Few[itemContent] `json:"content"`
	Summary   rest.Few[itemContent] `json:"summary"`
	Encrypted string                `json:"encrypted_content"`
}

type itemContent struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// answer puts the items of a response together.
type answer struct {
	done    map[int]bool      // the items that came whole, by index
	said    map[int]bool      // the messages of which text came
	thought map[int]bool      // the reasoning of which text came
	waiting []json.RawMessage // reasoning, before it is known to what it led
	before  []json.RawMessage // that led to the text
	size    int               // of both, and of that in calls; above [llm.MaxState] nothing is kept
	phase   string            // of the last message
}

// event takes one document of the Responses API.
func (t *turn) event(data []byte) error {
	var ev event
	if err := jsonx.Unmarshal(data, &ev); err != nil {
		if e := t.origin.Decode(data); e != nil {
			return e
		}
		return t.unreadable(err)
	}
	index := numberOf(ev.OutputIndex)
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return t.say(index, textOf(ev.Delta), ev.Type == "response.refusal.delta")
	case "response.reasoning_summary_part.added":
		if len(t.answer.thought) > 0 {
			return t.pass("\n\n", llm.ThinkingDelta{Text: "\n\n"})
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return t.think(index, textOf(ev.Delta))
	case "response.output_item.added", "response.output_item.done":
		return t.item(index, ev.Item, ev.Type == "response.output_item.done")
	case "response.function_call_arguments.delta":
		return t.fragment(callDelta{Index: &index, Function: functionCall{Arguments: textOf(ev.Delta)}})
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return t.response(ev.Response)
	case "", "error":
		if e := t.origin.Decode(data); e != nil {
			return e
		}
		if ev.Output.Kind() == '[' {
			return t.response(data)
		}
	}
	return nil
}

// unreadable is the error for what is not what the API promises.
func (t *turn) unreadable(err error) error {
	if errors.Is(err, llm.ErrTooLarge) {
		return t.origin.New(llm.ErrTooLarge, "a list of too many entries")
	}
	return t.origin.Retryable(llm.ErrBadResponse, "%v", err)
}

// fragment takes a fragment of a call.
func (t *turn) fragment(d callDelta) error {
	if err := t.calls.add(d); err != nil {
		return t.origin.New(err, "")
	}
	return nil
}

// say takes a piece of the text of a message.
func (t *turn) say(index int, text string, refusal bool) error {
	a := &t.answer
	if text == "" {
		return nil
	}
	if !a.said[index] {
		if len(a.said) > 0 { // another message
			text = "\n\n" + text
		}
		note(&a.said, index)
	}
	if refusal {
		t.refused = true
		return t.pass(text, llm.TextDelta{Text: text})
	}
	return t.text(text)
}

// think takes a piece of the model's reasoning.
func (t *turn) think(index int, text string) error {
	note(&t.answer.thought, index)
	return t.pass(text, llm.ThinkingDelta{Text: text})
}

func note(set *map[int]bool, index int) {
	if *set == nil {
		*set = make(map[int]bool)
	}
	if len(*set) < rest.MaxFew {
		(*set)[index] = true
	}
}

// item takes an item as it begins, or as it is whole.
func (t *turn) item(index int, raw jsonx.Value, whole bool) error {
	a := &t.answer
	var it item
	if raw.Kind() != '{' || a.done[index] {
		return nil
	}
	if err := jsonx.Unmarshal(raw, &it); err != nil {
		return t.unreadable(fmt.Errorf("an item of the answer: %w", err))
	}
	if whole {
		if len(a.done) == rest.MaxFew {
			return t.origin.New(llm.ErrTooLarge, "an answer of more than %d items", rest.MaxFew)
		}
		note(&a.done, index)
	}
	switch it.Type {
	case "function_call":
		return t.called(index, &it, whole)
	case "message":
		if whole {
			return t.messaged(index, &it)
		}
	case "reasoning":
		if whole {
			return t.reasoned(index, raw, &it)
		}
	}
	return nil
}

// reasoned takes whole reasoning, the text of which has come already, as a rule. It is kept if it has something that the server
// can take: of the rest the server itself keeps nothing.
func (t *turn) reasoned(index int, raw jsonx.Value, it *item) error {
	a := &t.answer
	if (it.Encrypted != "" || len(it.Content) > 0) && a.room(len(raw)) {
		a.waiting = append(a.waiting, json.RawMessage(raw))
	}
	if a.thought[index] {
		return nil
	}
	for _, part := range slices.Concat(it.Summary, it.Content) {
		if err := t.think(index, part.Text); err != nil {
			return err
		}
	}
	return nil
}

// called takes a call. Its arguments are those that have come in pieces, unless none did.
func (t *turn) called(index int, it *item, whole bool) error {
	d := callDelta{Index: &index}
	p := t.calls.find(d)
	if p == nil {
		d.ID, d.Function.Name = it.CallID, it.Name
		if err := t.fragment(d); err != nil {
			return err
		}
		p = t.calls.find(d)
		for _, raw := range t.answer.waiting {
			p.state = append(p.state, llm.ProviderState{Kind: kindItem, Data: raw})
		}
		t.answer.waiting = nil
	}
	if whole && len(p.args) == 0 {
		return t.fragment(callDelta{Index: &index, Function: functionCall{Arguments: it.Arguments}})
	}
	return nil
}

// messaged takes a whole message, the text of which has come already, as a rule.
func (t *turn) messaged(index int, it *item) error {
	a := &t.answer
	a.before, a.waiting = append(a.before, a.waiting...), nil
	a.phase = it.Phase
	if a.said[index] {
		return nil
	}
	for _, c := range it.Content {
		if err := t.say(index, c.Text+c.Refusal, c.Refusal != ""); err != nil {
			return err
		}
	}
	return nil
}

// response takes the end of a response, or a whole one.
func (t *turn) response(raw jsonx.Value) error {
	var r response
	if err := jsonx.Unmarshal(raw, &r); err != nil {
		return t.unreadable(fmt.Errorf("the response: %w", err))
	}
	if model := textOf(r.Model); model != "" {
		t.model = rest.Word(model)
	}
	var usage struct {
		Input  rest.Count `json:"input_tokens"`
		Output rest.Count `json:"output_tokens"`
	}
	if r.Usage.Kind() == '{' && jsonx.Unmarshal(r.Usage, &usage) == nil {
		t.usage.PromptTokens, t.usage.CompletionTokens = int(usage.Input), int(usage.Output)
	}
	for i, raw := range r.Output {
		if err := t.item(i, raw, true); err != nil {
			return err
		}
	}
	status := textOf(r.Status)
	if status == "" && r.Error.Kind() != '{' {
		status = "completed" // some servers leave it out
	}
	switch status {
	case "completed":
		t.reason = string(llm.FinishStop)
	case "incomplete":
		var why struct {
			Reason string `json:"reason"`
		}
		_ = jsonx.Unmarshal(r.Incomplete, &why) // what is no such object says no reason
		t.reason = cmp.Or(why.Reason, status)
	default: // failed, or cancelled
		if e := t.origin.Decode(fmt.Appendf(nil, `{"error":%s}`, r.Error)); e != nil {
			return e
		}
		return t.origin.Retryable(llm.ErrBadResponse, "the response has ended as %q, and the server did not say why", rest.Word(status))
	}
	return nil
}

func (a *answer) room(n int) bool {
	a.size += n
	return a.size <= llm.MaxState
}

// state is what belongs to the message itself. Reasoning that has led to nothing is not given back: a server refuses it.
func (a *answer) state(own llm.ProviderState) (list []llm.ProviderState) {
	if a.size > llm.MaxState {
		return nil
	}
	for _, raw := range a.before {
		own.Kind, own.Data = kindItem, raw
		list = append(list, own)
	}
	if a.phase != "" {
		own.Kind, own.Data = kindPhase, jsonx.AppendQuote(nil, a.phase)
		list = append(list, own)
	}
	return list
}

// textOf is the text of a string; empty for anything else.
func textOf(v jsonx.Value) (text string) {
	if v.Kind() != '"' || jsonx.Unmarshal(v, &text) != nil {
		return ""
	}
	return text
}

// numberOf is a small number, which may come as its text; 0 for anything else.
func numberOf(v jsonx.Value) (n int) {
	if _, err := fmt.Sscan(strings.Trim(string(v), `"`), &n); err != nil || n < 0 {
		return 0
	}
	return n
}
