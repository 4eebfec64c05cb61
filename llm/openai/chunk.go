package openai

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// chunk is one document of a stream, or the whole of an answer that is no stream. It
// has what servers agree on, and no field more: a foreign type in one that is not needed
// would cost the turn.
type chunk struct {
	Model   string
	Choices []choice
	Usage   *usage // nil for none, or for numbers of another form, which are no reason to fail
	Error   bool   // it has one, maybe null
}

type choice struct {
	Index        int
	Delta        *delta
	Message      *delta // in place of delta, where the answer is no stream
	FinishReason string
}

type delta struct {
	Content          string
	Refusal          string
	Reasoning        string            // Ollama, OpenRouter, vLLM
	ReasoningContent string            // DeepSeek, llama.cpp
	Details          []json.RawMessage // see state.go
	Extra            json.RawMessage
	ToolCalls        []callDelta
	FunctionCall     *functionCall // before tools there were functions
}

// callDelta is a fragment of a call.
type callDelta struct {
	Index    *int   // missing at some servers
	ID       string // in the first fragment, or in each, or never
	Function functionCall
	Extra    json.RawMessage // see state.go
}

type functionCall struct {
	Name      string
	Arguments string // a piece of JSON text
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
}

// chunks decodes one chunk after the other, and reads each byte of it once. What it
// returns is valid until the next.
type chunks struct {
	jsonx.Decoder
	chunk chunk
	model string   // the last
	delta [2]delta // of the first choice, and its message
}

func (d *chunks) decode(data []byte) (*chunk, error) {
	d.chunk = chunk{Choices: d.chunk.Choices[:0]}
	d.delta = [2]delta{}
	d.Reset(data)
	if err := d.Object(d.member); err != nil {
		return nil, err
	}
	return &d.chunk, d.End()
}

func (d *chunks) member(name []byte) (err error) {
	switch string(name) {
	case "model":
		d.model, err = d.String(d.model)
		d.chunk.Model = d.model
	case "choices":
		return d.few(d.choice)
	case "usage":
		var raw jsonx.Value
		if raw, err = d.Raw(); err == nil && raw.Kind() == '{' {
			if u := new(usage); jsonx.Unmarshal(raw, u) == nil && *u != (usage{}) {
				d.chunk.Usage = u
			}
		}
	case "error":
		d.chunk.Error = true
		return d.Skip()
	default:
		return d.Skip()
	}
	return err
}

// few reads a list of not too many entries.
func (d *chunks) few(entry func() error) error {
	n := 0
	return d.Array(func() error {
		if n++; n > rest.MaxFew {
			return llm.ErrTooLarge
		}
		return entry()
	})
}

func (d *chunks) choice() error {
	d.chunk.Choices = append(d.chunk.Choices, choice{})
	first, ch := len(d.chunk.Choices) == 1, &d.chunk.Choices[len(d.chunk.Choices)-1]
	own := func(i int) (*delta, error) {
		at := &d.delta[i]
		if !first {
			at = new(delta)
		}
		if d.Kind() == 'n' {
			return nil, d.Skip()
		}
		return at, d.Object(func(name []byte) error { return d.deltaMember(at, name) })
	}
	return d.Object(func(name []byte) (err error) {
		switch string(name) {
		case "index":
			ch.Index, err = d.index()
		case "delta":
			ch.Delta, err = own(0)
		case "message":
			ch.Message, err = own(1)
		case "finish_reason":
			ch.FinishReason, err = d.String("")
		default:
			err = d.Skip()
		}
		return err
	})
}

func (d *chunks) deltaMember(to *delta, name []byte) (err error) {
	switch string(name) {
	case "content":
		to.Content, err = d.text()
	case "refusal":
		to.Refusal, err = d.String("")
	case "reasoning":
		to.Reasoning, err = d.text()
	case "reasoning_content":
		to.ReasoningContent, err = d.text()
	case "reasoning_details":
		if d.Kind() != '[' {
			return d.Skip()
		}
		return d.few(func() error {
			raw, err := d.Raw()
			to.Details = append(to.Details, bytes.Clone(raw))
			return err
		})
	case "extra_content":
		to.Extra, err = d.object()
	case "tool_calls":
		return d.few(func() error {
			to.ToolCalls = append(to.ToolCalls, callDelta{})
			return d.call(&to.ToolCalls[len(to.ToolCalls)-1])
		})
	case "function_call":
		if d.Kind() != 'n' {
			to.FunctionCall = new(functionCall)
		}
		return d.function(to.FunctionCall)
	default:
		return d.Skip()
	}
	return err
}

func (d *chunks) call(to *callDelta) error {
	return d.Object(func(name []byte) (err error) {
		switch string(name) {
		case "index":
			if d.Kind() != 'n' {
				to.Index = new(int)
				*to.Index, err = d.index()
				return err
			}
			return d.Skip()
		case "id":
			to.ID, err = d.String("")
		case "function":
			return d.function(&to.Function)
		case "extra_content":
			to.Extra, err = d.object()
		default:
			return d.Skip()
		}
		return err
	})
}

// index reads a number, or its text, as some servers send it.
func (d *chunks) index() (int, error) {
	if d.Kind() != '"' {
		return d.Int()
	}
	text, err := d.String("")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (d *chunks) function(to *functionCall) error {
	return d.Object(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			to.Name, err = d.String("")
		case "arguments":
			if d.Kind() == '{' { // the object itself, at some servers
				var raw jsonx.Value
				raw, err = d.Raw()
				to.Arguments = string(raw)
				return err
			}
			to.Arguments, err = d.String("")
		default:
			return d.Skip()
		}
		return err
	})
}

// object reads an object as it is; nil is anything else.
func (d *chunks) object() (json.RawMessage, error) {
	if d.Kind() != '{' {
		return nil, d.Skip()
	}
	raw, err := d.Raw()
	return bytes.Clone(raw), err
}

// text reads a string, or the texts of a list of parts, as some servers send it.
func (d *chunks) text() (string, error) {
	if d.Kind() != '[' {
		return d.String("")
	}
	var all strings.Builder
	err := d.few(func() error {
		return d.Object(func(name []byte) error {
			if string(name) != "text" {
				return d.Skip()
			}
			part, err := d.String("")
			all.WriteString(part)
			return err
		})
	})
	return all.String(), err
}
