package openai

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// event is one document of the Responses API: an event of a stream, or, without a type, a whole response.
type event struct {
	Type        string      `json:"type"`
	Delta       jsonx.Value `json:"delta"`
	ItemID      jsonx.Value `json:"item_id"`
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

// item is what is needed of an item of a response.
type item struct {
	Type      string                `json:"type"`
	ID        string                `json:"id"`
	CallID    string                `json:"call_id"`
	Name      string                `json:"name"`
	Arguments string                `json:"arguments"`
	Phase     string                `json:"phase"`
	Content   rest.Few[itemContent] `json:"content"`
	Summary   rest.Few[itemContent] `json:"summary"`
	Encrypted string                `json:"encrypted_content"`
}

type itemContent struct {
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

// The types of items that count.
const (
	itemReasoning = "reasoning"
	itemMessage   = "message"
	itemCall      = "function_call"
)

// entry is an item of the answer that has begun.
type entry struct {
	id    string
	index int // -1 where the server does not count
	kind  string
	whole bool
	said  bool     // text of it was passed on
	call  *pending // of a call
	raw   json.RawMessage
	phase string
}

// answer is a response: its items in the order in which they have begun.
type answer struct {
	items []*entry
	size  int // of what may be given back; above [llm.MaxState] nothing is
}

// find returns the item that an event is of. Servers name it by its ID or count it, or do both and one of them wrongly: some give
// several items the same number, others call an item otherwise in each event. Without a kind it may be of any.
func (a *answer) find(id string, index int, kind string) *entry {
	for _, e := range a.items {
		if id != "" && e.id == id {
			return e
		}
	}
	for _, e := range slices.Backward(a.items) {
		if !e.whole && e.index == index && (index >= 0 || id == "") && (kind == "" || e.kind == kind) {
			return e
		}
	}
	return nil
}

// begin adds an item.
func (t *turn) begin(id string, index int, kind string) (*entry, error) {
	if len(t.answer.items) == rest.MaxFew {
		return nil, t.origin.New(llm.ErrTooLarge, "an answer of more than %d items", rest.MaxFew)
	}
	e := &entry{id: id, index: index, kind: kind}
	if kind == itemCall {
		p, err := t.calls.begin()
		if err != nil {
			return nil, t.origin.New(err, "")
		}
		e.call = p
	}
	t.answer.items = append(t.answer.items, e)
	return e, nil
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
	kind := ""
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		kind = itemMessage
	case "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		kind = itemReasoning
	case "response.function_call_arguments.delta":
		kind = itemCall
	case "response.output_item.added", "response.output_item.done":
		return t.item(numberOf(ev.OutputIndex), ev.Item, ev.Type == "response.output_item.done")
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
	if kind == "" {
		return nil
	}
	id, index := textOf(ev.ItemID), numberOf(ev.OutputIndex)
	e := t.answer.find(id, index, kind)
	if e == nil {
		var err error
		if e, err = t.begin(id, index, kind); err != nil {
			return err
		}
	}
	return t.piece(e, ev.Type, textOf(ev.Delta))
}

// piece takes a piece of an item.
func (t *turn) piece(e *entry, event, text string) error {
	switch event {
	case "response.refusal.delta":
		return t.say(e, text, true)
	case "response.output_text.delta":
		return t.say(e, text, false)
	case "response.reasoning_summary_part.added":
		if e.said {
			return t.think(e, "\n\n")
		}
		return nil
	case "response.function_call_arguments.delta":
		if e.call == nil { // an item of another kind by that ID
			return nil
		}
		return t.fragment(e.call, callDelta{Function: functionCall{Arguments: text}})
	}
	return t.think(e, text)
}

// unreadable is the error for what is not what the API promises.
func (t *turn) unreadable(err error) error {
	if errors.Is(err, llm.ErrTooLarge) {
		return t.origin.New(llm.ErrTooLarge, "a list of too many entries")
	}
	return t.origin.Retryable(llm.ErrBadResponse, "%v", err)
}

func (t *turn) fragment(p *pending, d callDelta) error {
	if err := t.calls.extend(p, d); err != nil {
		return t.origin.New(err, "")
	}
	return nil
}

// say takes a piece of the text of a message.
func (t *turn) say(e *entry, text string, refusal bool) error {
	if text == "" {
		return nil
	}
	if !e.said && slices.ContainsFunc(t.answer.items, func(other *entry) bool { return other.kind == itemMessage && other.said }) {
		text = "\n\n" + text // another message
	}
	e.said = true
	if refusal {
		t.refused = true
		return t.pass(text, llm.TextDelta{Text: text})
	}
	return t.text(text)
}

// think takes a piece of the model's reasoning.
func (t *turn) think(e *entry, text string) error {
	e.said = true
	return t.pass(text, llm.ThinkingDelta{Text: text})
}

// item takes an item as it begins, or as it is whole.
func (t *turn) item(index int, raw jsonx.Value, whole bool) error {
	var it item
	if raw.Kind() != '{' {
		return nil
	}
	if err := jsonx.Unmarshal(raw, &it); err != nil {
		return t.unreadable(fmt.Errorf("an item of the answer: %w", err))
	}
	switch it.Type {
	case itemReasoning, itemMessage, itemCall:
	default:
		return nil
	}
	var e *entry
	if whole || it.ID != "" {
		e = t.answer.find(it.ID, index, it.Type)
	}
	if e == nil || !whole && e.id != it.ID {
		var err error
		if e, err = t.begin(it.ID, index, it.Type); err != nil {
			return err
		}
	}
	if e.whole || e.kind != it.Type {
		return nil
	}
	e.whole = whole
	return t.fill(e, raw, &it)
}

// fill takes what an item has said of itself. What has come in pieces already is not taken again.
func (t *turn) fill(e *entry, raw jsonx.Value, it *item) error {
	switch e.kind {
	case itemCall:
		d := callDelta{ID: it.CallID, Function: functionCall{Name: it.Name}}
		if len(e.call.args) == 0 {
			d.Function.Arguments = it.Arguments
		}
		return t.fragment(e.call, d)
	case itemMessage:
		e.phase = it.Phase
	case itemReasoning: // of what has nothing but an ID the server itself keeps nothing
		if e.whole && (it.Encrypted != "" || len(it.Content) > 0) {
			e.raw = json.RawMessage(raw)
			t.answer.size += len(raw)
		}
	}
	if e.said || !e.whole {
		return nil
	}
	for _, part := range slices.Concat(it.Summary, it.Content) {
		var err error
		if e.kind == itemReasoning {
			err = t.think(e, part.Text)
		} else {
			err = t.say(e, part.Text+part.Refusal, part.Refusal != "")
		}
		if err != nil {
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
	if len(t.answer.items) == 0 { // else they have come
		for i, raw := range r.Output {
			if err := t.item(i, raw, true); err != nil {
				return err
			}
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

// attach gives each call the reasoning before it, and returns what belongs to the text. Reasoning that has led to nothing is not
// given back: a server refuses it.
func (a *answer) attach(own llm.ProviderState) (before []llm.ProviderState) {
	if a.size > llm.MaxState {
		return nil
	}
	var waiting []llm.ProviderState
	phase := ""
	for _, e := range a.items {
		switch {
		case e.raw != nil:
			own.Kind, own.Data = kindItem, e.raw
			waiting = append(waiting, own)
		case e.call != nil:
			e.call.state, waiting = waiting, nil
		case e.kind == itemMessage:
			before, waiting, phase = append(before, waiting...), nil, e.phase
		}
	}
	if phase != "" {
		own.Kind, own.Data = kindPhase, jsonx.AppendQuote(nil, phase)
		before = append(before, own)
	}
	return before
}

// textOf is the text of a string; empty for anything else.
func textOf(v jsonx.Value) (text string) {
	if v.Kind() != '"' || jsonx.Unmarshal(v, &text) != nil {
		return ""
	}
	return text
}

// numberOf is a number from 0 on, which may come as its text; -1 for anything else.
func numberOf(v jsonx.Value) int {
	n, err := strconv.Atoi(strings.Trim(string(v), `"`))
	if err != nil || n < 0 {
		return -1
	}
	return n
}
