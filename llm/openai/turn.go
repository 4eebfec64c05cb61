package openai

import (
	"errors"
	"io"
	"mime"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// afterFinish is how long the rest of a stream is waited for once the turn has
// completed: token counts follow, but some servers leave the connection open.
const afterFinish = 5 * time.Second

// errLeft says that the reader has left the loop: nothing more is to be done or told.
var errLeft = errors.New("the reader has left")

// errCut says that the text has reached one of the stop sequences that are looked for
// here: the turn has completed.
var errCut = errors.New("a stop sequence has come")

// turn reads one answer and passes its events on.
type turn struct {
	origin rest.Origin
	req    *llm.Request
	emit   func(llm.Event) bool
	stops  *rest.Stops // those the server was not given; nil for none

	chunks   chunks
	calls    calls
	state    attached
	answer   answer
	sent     *llm.Request // req, as it was sent
	how      attempt      // of the last request
	attempts int          // requests for the turn so far
	usage    usage        // the last that was told
	model    string       // as the server calls it, fit to be shown
	named    string       // as the server calls it
	reason   string       // the finish reason, "" until one was seen
	refused  bool
	cut      bool // at one of stops
	assumed  bool // reason is
	bytes    int  // of text and thinking, for an estimate

	estimated bool // usage is, in parts
}

func newTurn(origin rest.Origin, req *llm.Request, emit func(llm.Event) bool) *turn {
	return &turn{origin: origin, req: req, emit: emit, model: origin.Model}
}

// read takes the whole answer, but for what finish passes on. A nil error means that the
// turn has completed.
func (t *turn) read(call *rest.Call, contentType string) error {
	kind, _, _ := mime.ParseMediaType(contentType) // "" if it is none
	switch kind {
	case "application/json":
		if err := t.document(call); err != nil && !t.cut {
			return err
		}
	default:
		if err := t.events(call); err != nil && !t.cut {
			return err
		}
	}
	return nil
}

// document reads an answer that is no stream although one was asked for.
func (t *turn) document(call *rest.Call) error {
	data, err := call.ReadAll()
	if err != nil {
		return err
	}
	if err := t.add(data); err != nil {
		return err
	}
	if t.reason == "" {
		return call.Err(nil)
	}
	return nil
}

// events reads a stream until its end, or until nothing comes after the turn's end.
func (t *turn) events(call *rest.Call) error {
	events, finished := rest.NewEvents(call), false
	for {
		data, end := events.Next()
		if string(data) == "[DONE]" {
			if data, end = nil, io.EOF; t.reason == "" && t.bytes+t.calls.size > 0 {
				t.reason, t.assumed = string(llm.FinishStop), true // some servers say no more than this
			}
		}
		if len(data) > 0 {
			said := t.bytes + t.calls.size
			err := t.add(data)
			if t.bytes+t.calls.size > said {
				call.Heard()
			}
			call.Thinks(t.how.api == APIResponses && t.bytes+t.calls.size == said)
			if end == io.EOF && errors.Is(err, llm.ErrBadResponse) {
				return t.ended(call, end) // the line was cut, which says more than its text
			}
			if err != nil {
				return err
			}
		}
		if end != nil {
			return t.ended(call, end)
		}
		if t.reason != "" && !finished {
			finished = true
			call.Within(afterFinish)
		}
	}
}

// ended decides what the end of a stream means: nothing, if the finish reason was seen.
func (t *turn) ended(call *rest.Call, end error) error {
	err := call.Err(end)
	var known *llm.Error
	if t.reason != "" && errors.As(err, &known) {
		return nil
	}
	return err
}

// add takes one document.
func (t *turn) add(data []byte) error {
	if t.how.api == APIResponses {
		return t.event(data)
	}
	c, err := t.chunks.decode(data)
	if err != nil {
		if e := t.origin.Decode(data); e != nil && !errors.Is(err, llm.ErrTooLarge) {
			return e
		}
		return t.unreadable(err)
	}
	if len(c.Choices) == 0 || c.Error {
		if e := t.origin.Decode(data); e != nil {
			return e
		}
	}
	if c.Model != "" && c.Model != t.named {
		t.named, t.model = c.Model, rest.Word(c.Model)
	}
	if c.Usage != nil {
		t.usage = *c.Usage
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 { // we ask for one
			continue
		}
		if err := t.choice(&ch); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) choice(ch *choice) error {
	d := ch.Delta
	if d == nil {
		d = ch.Message
	}
	if d != nil {
		if err := t.delta(d); err != nil {
			return err
		}
	}
	if ch.FinishReason == "error" || ch.FinishReason == "insufficient_system_resource" { // the latter is DeepSeek's
		return t.origin.Retryable(llm.ErrBadResponse, "the server ended the turn with an error and did not say which")
	}
	if ch.FinishReason != "" {
		t.reason = ch.FinishReason
	}
	return nil
}

func (t *turn) delta(d *delta) error {
	t.state.add(d)
	thinking := d.ReasoningContent
	if thinking == "" {
		thinking = d.Reasoning // some servers send both, with the same text
	}
	if err := t.pass(thinking, llm.ThinkingDelta{Text: thinking}); err != nil {
		return err
	}
	if err := t.text(d.Content); err != nil {
		return err
	}
	if d.Refusal != "" {
		t.refused = true
		if err := t.pass(d.Refusal, llm.TextDelta{Text: d.Refusal}); err != nil {
			return err
		}
	}
	if d.FunctionCall != nil {
		d.ToolCalls = append(d.ToolCalls, callDelta{Index: new(int), Function: *d.FunctionCall})
	}
	for _, cd := range d.ToolCalls {
		if err := t.calls.add(cd); err != nil {
			return t.origin.New(err, "")
		}
	}
	return nil
}

// text passes text on, up to a stop sequence.
func (t *turn) text(piece string) error {
	piece, t.cut = t.stops.Add(piece)
	if err := t.pass(piece, llm.TextDelta{Text: piece}); err != nil {
		t.cut = false
		return err
	}
	if t.cut {
		return errCut
	}
	return nil
}

// pass passes an event on unless its text is empty.
func (t *turn) pass(text string, ev llm.Event) error {
	if text == "" {
		return nil
	}
	t.bytes += len(text)
	if !t.emit(ev) {
		return errLeft
	}
	return nil
}

// finish passes on what is only known at the end: calls, usage, reason.
func (t *turn) finish() error {
	left := t.stops.Rest()
	if err := t.pass(left, llm.TextDelta{Text: left}); err != nil {
		return err
	}
	before := t.answer.attach(t.how.own)
	calls, cut, err := t.completeCalls()
	if err != nil {
		return err
	}
	for _, call := range calls {
		t.bytes += len(call.Name) + len(call.Arguments)
		for i := range call.State {
			own := t.how.own
			own.Kind, own.Data = call.State[i].Kind, call.State[i].Data
			call.State[i] = own
		}
		if !t.emit(call) {
			return errLeft
		}
	}
	for _, call := range cut {
		t.bytes += len(call.Name) + len(call.Arguments)
	}
	if t.emit(t.cost()) {
		t.emit(llm.Finish{Reason: t.finishReason(len(calls) + len(cut)), Model: t.model, Cut: cut, State: append(t.state.state(t.how.own), before...)})
	}
	return nil
}

// completeCalls returns the calls of the turn, and those that must not be made. A turn that ends with a stop sequence has none.
func (t *turn) completeCalls() (calls, cut []llm.ToolCall, err error) {
	if t.cut {
		return nil, nil, nil
	}
	reason := finishReason(t.reason)
	calls, cut, err = t.calls.complete(reason == llm.FinishLength || reason == llm.FinishContentFilter, rest.NewIDs(t.req))
	bad := err != nil || len(cut) > 0 && reason != llm.FinishLength && reason != llm.FinishContentFilter
	switch {
	case bad && t.spent(): // a server that calls it something else
		t.reason = "length"
		return t.completeCalls()
	case err != nil:
		return nil, nil, t.origin.Retryable(llm.ErrBadCall, "%v", err)
	case bad && t.assumed: // it may be the server that has lost the rest
		return nil, nil, t.origin.Retryable(llm.ErrBadCall, "the call %q is cut, and the stream says no reason for its end", cut[0].Name)
	}
	return calls, cut, nil
}

// spent reports whether the server says that the turn has all the tokens that it may have.
func (t *turn) spent() bool {
	return t.req.MaxTokens > 0 && t.usage.CompletionTokens >= t.req.MaxTokens && finishReason(t.reason) != llm.FinishLength
}

// finishReason is why the turn has ended, whatever the server calls it.
func (t *turn) finishReason(calls int) llm.FinishReason {
	reason := finishReason(t.reason)
	switch {
	case t.cut:
		return llm.FinishStopSequence
	case reason == llm.FinishLength || reason == llm.FinishContentFilter:
		return reason
	case calls > 0:
		return llm.FinishToolCalls
	case t.refused:
		return llm.FinishRefusal
	case reason == llm.FinishToolCalls:
		return llm.FinishStop
	}
	return reason
}

// cost is what the server says that the turn has cost. A number that is impossible, a
// prompt of no tokens or text of none, is estimated.
func (t *turn) cost() llm.Usage {
	u := rest.Usage(t.req, t.usage.PromptTokens, t.usage.CompletionTokens, t.bytes)
	u.Estimated = u.Estimated || t.estimated
	return u
}

// finishReason maps the server's word to ours; a word that is unknown stays.
func finishReason(word string) llm.FinishReason {
	switch strings.ToLower(word) {
	case "stop", "eos", "end_turn":
		return llm.FinishStop
	case "length", "max_tokens", "model_length", "max_output_tokens", "max_completion_tokens", "model_context_window_exceeded":
		return llm.FinishLength
	case "tool_calls", "function_call", "tool_use":
		return llm.FinishToolCalls
	case "content_filter", "safety", "recitation", "blocklist", "prohibited_content", "spii":
		return llm.FinishContentFilter
	}
	return llm.FinishReason(rest.Word(word))
}
