package tinygguf

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Spec says how a model behaves.
//
// Answers begin after the token <|assistant|>; messages are told apart by <|system|>,
// <|user|>, <|tool|> and <|tools|>, and end with <|end|>. The chat template of the server
// has to write them.
type Spec struct {
	// Default is the answer where no marker is in the conversation.
	Default string `json:"default"`
	// Tool is the answer after the result of a tool, unless a marker follows.
	Tool string `json:"tool"`
	// Forced follows the default answer where a grammar does not let it end there, as for a
	// call that is required. Empty means that nothing sensible does.
	Forced string `json:"forced,omitempty"`
	// Routes are the answers by marker. The marker that came last counts.
	Routes map[string]string `json:"routes,omitempty"`
	// Loops are texts that are repeated without end, by marker.
	Loops map[string]string `json:"loops,omitempty"`
	// ChatTemplate is stored in the file, for servers that read it there. It is Jinja.
	ChatTemplate string `json:"chatTemplate,omitempty"`
	// Context is the length that the model claims, in tokens. Zero means 4096; markers
	// are found up to about 5000 tokens back.
	Context int `json:"context,omitzero"`
}

// ParseSpec reads a spec from JSON, strictly.
func ParseSpec(data []byte) (*Spec, error) {
	var s Spec
	if err := jsonx.UnmarshalKnown(data, &s); err != nil {
		return nil, fmt.Errorf("reading a spec: %w", err)
	}
	return &s, nil
}

const (
	defaultContext = 4096
	// maxRoutes is how many values one attention head can tell apart. One is the
	// tool's.
	maxRoutes = headSize
)

// Encode returns the model as a GGUF file. A spec with no default or tool text, with
// more than 63 markers, or whose texts are too alike to be cut is an error.
func (s *Spec) Encode() ([]byte, error) {
	v, err := s.vocabulary()
	if err != nil {
		return nil, err
	}
	context := s.Context
	if context == 0 {
		context = defaultContext
	}
	d := newDims(v)
	f := file{tensors: tensors(v, d)}
	f.set("general.architecture", "llama")
	f.set("general.name", "tinygguf")
	f.set("general.file_type", uint32(0)) // all tensors are float32
	f.set("llama.block_count", uint32(1))
	f.set("llama.context_length", uint32(context))
	f.set("llama.embedding_length", uint32(d.width))
	f.set("llama.feed_forward_length", uint32(feedForward))
	f.set("llama.attention.head_count", uint32(d.width/headSize))
	f.set("llama.attention.head_count_kv", uint32(d.width/headSize))
	f.set("llama.attention.layer_norm_rms_epsilon", float32(normEpsilon))
	f.set("llama.rope.dimension_count", uint32(headSize))
	f.set("llama.rope.freq_base", float32(ropeBase))
	f.set("llama.vocab_size", uint32(len(v.tokens)))
	f.set("tokenizer.ggml.model", "gpt2")
	f.set("tokenizer.ggml.pre", "gpt-2")
	f.set("tokenizer.ggml.tokens", v.texts())
	f.set("tokenizer.ggml.token_type", v.types())
	f.set("tokenizer.ggml.merges", []string{blank + " " + blank}) // loaders want one
	f.set("tokenizer.ggml.bos_token_id", uint32(v.end))
	f.set("tokenizer.ggml.eos_token_id", uint32(v.end))
	f.set("tokenizer.ggml.padding_token_id", uint32(v.end))
	f.set("tokenizer.ggml.add_bos_token", false)
	if s.ChatTemplate != "" {
		f.set("tokenizer.chat_template", s.ChatTemplate)
	}
	var out bytes.Buffer
	if err := f.write(&out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// vocabulary adds everything that the spec names, in an order that does not change: the
// markers before the texts, since those are cut around what is there.
func (s *Spec) vocabulary() (*vocabulary, error) {
	if s.Default == "" || s.Tool == "" {
		return nil, errors.New("a spec needs a default text and one for after a tool")
	}
	v := newVocabulary()
	markers := slices.Sorted(maps.Keys(s.Routes))
	loops := slices.Sorted(maps.Keys(s.Loops))
	ids := map[string]int{}
	for _, m := range slices.Concat(markers, loops) {
		ids[m] = v.add(m, userDefined)
	}
	v.next[v.assistant] = v.script(s.Default, v.end)
	if s.Forced != "" {
		last := len(v.tokens) - 1
		v.forced[last] = v.script(s.Forced, v.end)
	}
	v.route(v.tool, s.Tool, v.end)
	for _, m := range markers {
		v.route(ids[m], s.Routes[m], v.end)
	}
	for _, m := range loops {
		v.route(ids[m], s.Loops[m], endless)
	}
	if len(v.routes) > maxRoutes {
		return nil, fmt.Errorf("a spec with %d markers: at most %d are possible", len(ids), maxRoutes-1)
	}
	return v, v.err
}
