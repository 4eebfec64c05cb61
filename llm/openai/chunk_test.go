package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// The types of a chunk as they are declared for a decoder that goes by reflection: what
// [chunks] is held against.
type (
	plainChunk struct {
		Model   string                `json:"model"`
		Choices rest.Few[plainChoice] `json:"choices"`
		Usage   jsonx.Value           `json:"usage"`
		Error   jsonx.Value           `json:"error"`
	}
	plainChoice struct {
		Index        plainIndex  `json:"index"`
		Delta        *plainDelta `json:"delta"`
		Message      *plainDelta `json:"message"`
		FinishReason string      `json:"finish_reason"`
	}
	plainDelta struct {
		Content          plainText           `json:"content"`
		Refusal          string              `json:"refusal"`
		Reasoning        plainText           `json:"reasoning"`
		ReasoningContent plainText           `json:"reasoning_content"`
		Details          plainBlocks         `json:"reasoning_details"`
		Extra            plainObject         `json:"extra_content"`
		ToolCalls        rest.Few[plainCall] `json:"tool_calls"`
		FunctionCall     *plainFunction      `json:"function_call"`
	}
	plainCall struct {
		Index    *plainIndex   `json:"index"`
		ID       string        `json:"id"`
		Function plainFunction `json:"function"`
		Extra    plainObject   `json:"extra_content"`
	}
	plainFunction struct {
		Name      string         `json:"name"`
		Arguments plainArguments `json:"arguments"`
	}
	plainBlocks    []json.RawMessage
	plainObject    json.RawMessage
	plainIndex     int
	plainText      string
	plainArguments string
)

func (b *plainBlocks) UnmarshalJSON(data []byte) error {
	if *b = nil; data[0] != '[' {
		return nil
	}
	var list rest.Few[json.RawMessage]
	err := jsonx.Unmarshal(data, &list)
	if len(list) > 0 {
		*b = plainBlocks(list)
	}
	return err
}

func (o *plainObject) UnmarshalJSON(data []byte) error {
	if *o = nil; data[0] == '{' {
		*o = bytes.Clone(data)
	}
	return nil
}

func (i *plainIndex) UnmarshalJSON(data []byte) (err error) {
	if data[0] != '"' {
		return jsonx.Unmarshal(data, (*int)(i))
	}
	var text string
	if err = jsonx.Unmarshal(data, &text); err == nil {
		*(*int)(i), err = strconv.Atoi(text)
	}
	return err
}

func (t *plainText) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return jsonx.Unmarshal(data, (*string)(t))
	}
	var parts rest.Few[struct {
		Text string `json:"text"`
	}]
	err := jsonx.Unmarshal(data, &parts)
	*t = ""
	for _, p := range parts {
		*t += plainText(p.Text)
	}
	return err
}

func (a *plainArguments) UnmarshalJSON(data []byte) error {
	if data[0] == '{' {
		*a = plainArguments(data)
		return nil
	}
	return jsonx.Unmarshal(data, (*string)(a))
}

func (d *plainDelta) delta() *delta {
	if d == nil {
		return nil
	}
	to := &delta{Content: string(d.Content), Refusal: d.Refusal, Reasoning: string(d.Reasoning), ReasoningContent: string(d.ReasoningContent), Details: d.Details, Extra: json.RawMessage(d.Extra)}
	for _, c := range d.ToolCalls {
		to.ToolCalls = append(to.ToolCalls, callDelta{(*int)(c.Index), c.ID, functionCall{c.Function.Name, string(c.Function.Arguments)}, json.RawMessage(c.Extra)})
	}
	if f := d.FunctionCall; f != nil {
		to.FunctionCall = &functionCall{f.Name, string(f.Arguments)}
	}
	return to
}

// decodePlain decodes a chunk by reflection.
func decodePlain(data []byte) (*chunk, error) {
	var p plainChunk
	if err := jsonx.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	c := &chunk{Model: p.Model, Error: len(p.Error) > 0}
	if u := (usage{}); len(p.Usage) > 0 && jsonx.Unmarshal(p.Usage, &u) == nil && u != (usage{}) {
		c.Usage = &u
	}
	for _, ch := range p.Choices {
		c.Choices = append(c.Choices, choice{int(ch.Index), ch.Delta.delta(), ch.Message.delta(), ch.FinishReason})
	}
	return c, nil
}

var chunkSeeds = []string{
	`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":" wörd \n\u00e4\ud83c\udf0d"},"logprobs":null,"finish_reason":null}],"usage":null}`,
	`{"model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":"}},{"function":{"arguments":{"b": [1, 2]}}},null,{"index":null,"id":null,"function":null}]},"finish_reason":"tool_calls"}]}`,
	`{"choices":[null,{},{"index":1,"message":{"content":[{"type":"text","text":"a"},{"text":"b"},null],"reasoning":null,"reasoning_content":"c","refusal":"d"}},{"delta":{"content":"e","function_call":{"name":"g","arguments":null}}}]}`,
	` {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"details":{}}} `,
	`{"usage":{"prompt_tokens":"3"},"error":null}`, `{"error":{"message":"x"},"\u006dodel":"m\u0061"}`, `{"choices":null,"model":null,"usage":7}`,
	`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"a","index":0},null],"extra_content":{"google":{"thought_signature":"s"}},"tool_calls":[{"extra_content":{"a":1}},{"extra_content":7}]}}]}`,
	`{"choices":[{"delta":{"reasoning_details":{},"extra_content":null}}]}`, `{"choices":[{"delta":{"reasoning_details":[]}}]}`,
	`null`, `[]`, `"x"`, `7`, ``, ` `, `{`, `{"a"`, `{"a":1}{}`, `{"a":1,"a":2}`, `{"model":7}`, `{"choices":{}}`, `{"choices":[{"index":1.5}]}`,
	`{"choices":[{"index":-0}]}`, `{"choices":[{"index":99999999999999999999}]}`, `{"choices":[{"delta":{"content":7}}]}`, `{"choices":[{"delta":{"content":[7]}}]}`,
	`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":[]}}]}}]}`, `{"model":"\ud800"}`, "{\"model\":\"\xff\"}", `{"choices":[{},]}`, `{"model":"a" "b"}`, `[}`,
	`{"choices":[{"index":"0","delta":{"tool_calls":[{"index":"1"}]}}]}`, `{"choices":[{"index":""}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":"x"}]}}]}`,
	`{"choices":[` + strings.Repeat("{},", rest.MaxFew) + `{}]}`, `{"x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
}

// FuzzChunk holds that a chunk is decoded as one is by reflection, also by a decoder
// that has had another before, and that what is an error there is one here.
func FuzzChunk(f *testing.F) {
	for _, seed := range chunkSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d chunks
		for _, before := range []string{chunkSeeds[1], chunkSeeds[2], `{"choices":[{"delta":{"content":"a`} {
			_, _ = d.decode([]byte(before))
		}
		want, wantErr := decodePlain(data)
		got, err := d.decode(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("decode(%.300q): got error %v, by reflection %v", data, err, wantErr)
		}
		if err != nil {
			if errors.Is(wantErr, llm.ErrTooLarge) && !errors.Is(err, llm.ErrTooLarge) {
				t.Fatalf("decode(%.300q): got error %v, by reflection %v", data, err, wantErr)
			}
			return
		}
		if len(got.Choices) == 0 {
			got.Choices = nil
		}
		if !reflect.DeepEqual(got, want) {
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			t.Fatalf("decode(%.300q):\ngot  %s\nwant %s", data, g, w)
		}
	})
}
