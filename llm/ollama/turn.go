package ollama

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// maxCalls bounds the calls of one turn.
const maxCalls = 256

// errLeft says that the reader has left the loop: nothing more is to be done or told.
var errLeft = errors.New("the reader has left")

// line is one line of an answer. It stands for api.ChatResponse, which decodes numbers
// in arguments to float64 and so damages integers beyond 2^53.
type line struct {
	Model   string `json:"model"`
	Message struct {
		Content   string `json:"content"`
		Thinking  string `json:"thinking"`
		ToolCalls rest.Few[struct {
			ID       string `json:"id"`
			Function struct {
				Name      string      `json:"name"`
				Arguments jsonx.Value `json:"arguments"`
			} `json:"function"`
		}] `json:"tool_calls"`
	} `json:"message"`
	Done            bool        `json:"done"`
	DoneReason      string      `json:"done_reason"`
	PromptEvalCount rest.Count  `json:"prompt_eval_count"`
	EvalCount       rest.Count  `json:"eval_count"`
	Error           jsonx.Value `json:"error"`
}

// turn reads answers, mostly one, and passes their events on.
type turn struct {
	origin rest.Origin
	req    *llm.Request
	emit   func(llm.Event) bool

	ids    rest.IDs
	calls  int
	bad    []llm.ToolCall // that must not be made
	size   int            // bytes of all calls
	model  string
	reason string // of the last line with done
	input  int    // tokens
	output int
	bytes  int // of everything the model wrote, for an estimate
	// thinking is what the model wants back as long as the turn of the conversation is under way.
	thinking []byte
	thought  int // bytes of it; above [llm.MaxState] nothing is kept
}

func newTurn(origin rest.Origin, req *llm.Request, emit func(llm.Event) bool) *turn {
	return &turn{origin: origin, req: req, emit: emit, ids: rest.NewIDs(req), model: origin.Model}
}

// read takes one answer, up to the line that says done. Whatever else ends it is an
// error.
func (t *turn) read(call *rest.Call) error {
	lines := rest.NewLines(call)
	for {
		data, end := lines.Next()
		if end != nil && end != io.EOF {
			return call.Err(end)
		}
		if len(data) > 0 {
			said := t.bytes
			done, err := t.add(data)
			if t.bytes > said {
				call.Heard()
			}
			if end == io.EOF && data[0] == '{' && errors.Is(err, llm.ErrBadResponse) {
				return call.Err(end) // the line was cut, which says more than its text
			}
			if done || err != nil {
				return err
			}
		}
		if end != nil {
			return call.Err(end)
		}
	}
}

// add takes one line and reports whether it was the last.
func (t *turn) add(data []byte) (done bool, err error) {
	var l line
	if err := jsonx.Unmarshal(data, &l); err != nil {
		if errors.Is(err, llm.ErrTooLarge) {
			return false, t.origin.New(llm.ErrTooLarge, "a list of too many entries")
		}
		if e := t.origin.Decode(data); e != nil {
			return false, e
		}
		return false, t.origin.Retryable(llm.ErrBadResponse, "%v", err)
	}
	if len(l.Error) > 0 {
		if e := t.origin.Decode(data); e != nil {
			return false, e
		}
	}
	if l.Model != "" {
		t.model = rest.Word(l.Model)
	}
	if err := t.message(&l); err != nil || !l.Done {
		return false, err
	}
	if l.DoneReason == "load" || l.DoneReason == "unload" {
		return false, t.origin.Retryable(llm.ErrBadResponse, "the server only did this: %s", l.DoneReason)
	}
	t.reason = l.DoneReason
	t.input, t.output = rest.Sum(t.input, l.PromptEvalCount), rest.Sum(t.output, l.EvalCount)
	return true, nil
}

func (t *turn) message(l *line) error {
	if t.thought += len(l.Message.Thinking); t.thought <= llm.MaxState {
		t.thinking = append(t.thinking, l.Message.Thinking...)
	}
	if err := t.pass(l.Message.Thinking, llm.ThinkingDelta{Text: l.Message.Thinking}); err != nil {
		return err
	}
	if err := t.pass(l.Message.Content, llm.TextDelta{Text: l.Message.Content}); err != nil {
		return err
	}
	for _, c := range l.Message.ToolCalls {
		if err := t.call(c.ID, c.Function.Name, c.Function.Arguments); err != nil {
			return err
		}
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

// call passes a call on. Ollama sends each whole.
func (t *turn) call(id, name string, arguments []byte) error {
	if name == "" {
		return t.origin.Retryable(llm.ErrBadCall, "a call has no name")
	}
	args, err := rest.Arguments(arguments)
	if err != nil {
		args = bytes.Clone(arguments)
	}
	if len(name) > rest.MaxName {
		return t.origin.New(llm.ErrTooLarge, "a tool's name of more than %d bytes", rest.MaxName)
	}
	if t.size += len(id) + len(name) + len(args); t.size > rest.MaxDocument || t.calls+len(t.bad) == maxCalls {
		return t.origin.New(llm.ErrTooLarge, "more than %d calls, or than %d bytes of them", maxCalls, rest.MaxDocument)
	}
	t.bytes += len(name) + len(args)
	call := llm.ToolCall{Index: t.calls, ID: t.ids.Unique(id), Name: name, Arguments: args}
	if err != nil {
		t.bad = append(t.bad, call)
		return nil
	}
	t.calls++
	if !t.emit(call) {
		return errLeft
	}
	return nil
}

// finish passes usage and reason on.
func (t *turn) finish() error {
	usage := rest.Usage(t.req, t.input, t.output, t.bytes)
	if t.emit(usage) {
		t.emit(llm.Finish{Reason: t.finishReason(), Model: t.model, Cut: t.bad, State: t.state()})
	}
	return nil
}

// kindThinking is the state of a message: its thinking.
const kindThinking = "thinking"

// state is what the model wants back.
func (t *turn) state() []llm.ProviderState {
	if t.thought == 0 || t.thought > llm.MaxState {
		return nil
	}
	return []llm.ProviderState{{Provider: t.origin.Provider, Model: t.origin.Model, Kind: kindThinking, Data: jsonx.AppendQuote(nil, string(t.thinking))}}
}

// finishReason maps Ollama's word: it says "stop" for calls too, and older servers
// say nothing.
func (t *turn) finishReason() llm.FinishReason {
	switch reason := strings.ToLower(t.reason); {
	case reason == "length":
		return llm.FinishLength
	case t.calls+len(t.bad) > 0:
		return llm.FinishToolCalls
	case reason == "stop" || reason == "":
		return llm.FinishStop
	default:
		return llm.FinishReason(rest.Word(reason))
	}
}
