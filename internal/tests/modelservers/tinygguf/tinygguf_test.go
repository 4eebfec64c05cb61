package tinygguf

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func spec() *Spec {
	return &Spec{
		Default: "Hello from nobody.", Tool: "That was the tool.", Forced: " Now a call.",
		Routes:       map[string]string{"#a": "The answer is a.", "#b": "The answer is b.", "#word": "Grüße, 世界! 🚀"},
		Loops:        map[string]string{"#loop": "again and "},
		ChatTemplate: "{{ messages }}", Context: 2048,
	}
}

func encode(t *testing.T, s *Spec) []byte {
	t.Helper()
	data, err := s.Encode()
	if err != nil {
		t.Fatalf("Encode: %v", err)
	}
	return data
}

func TestFile(t *testing.T) {
	m := read(t, encode(t, spec()))
	for key, want := range map[string]any{
		"general.architecture": "llama", "llama.context_length": uint32(2048), "tokenizer.chat_template": "{{ messages }}",
		"llama.block_count": uint32(1), "llama.vocab_size": uint32(len(m.tokens)), "tokenizer.ggml.add_bos_token": false,
		"llama.rope.freq_base": float32(1e6), "tokenizer.ggml.model": "gpt2",
	} {
		if got := m.settings[key]; got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	width := int(m.settings["llama.embedding_length"].(uint32))
	if heads := int(m.settings["llama.attention.head_count"].(uint32)); heads*64 != width {
		t.Errorf("got %d heads for a width of %d", heads, width)
	}
	for name, want := range map[string][2]int{
		"token_embd.weight": {width, len(m.tokens)}, "output.weight": {width, len(m.tokens)}, "output_norm.weight": {width, 1},
		"blk.0.attn_q.weight": {width, width}, "blk.0.attn_output.weight": {width, width},
		"blk.0.ffn_up.weight": {width, feedForward}, "blk.0.ffn_down.weight": {feedForward, width},
	} {
		if got := m.tensors[name]; got.cols != want[0] || got.rows != want[1] {
			t.Errorf("%s: got %d × %d, want %v", name, got.cols, got.rows, want)
		}
	}
	if len(m.tensors) != 12 {
		t.Errorf("got %d tensors, want 12", len(m.tensors))
	}
}

func TestSameBytes(t *testing.T) {
	first := encode(t, spec())
	for range 5 {
		if !bytes.Equal(encode(t, spec()), first) {
			t.Fatal("Encode: got other bytes for the same spec")
		}
	}
}

// TestAnswers lets the network answer, in plain arithmetic.
func TestAnswers(t *testing.T) {
	m := read(t, encode(t, spec()))
	user := func(text string) string { return "<|user|>" + text + "<|end|><|assistant|>" }
	for _, tt := range []struct{ prompt, want string }{
		{user("Who are you?"), "Hello from nobody."},
		{user("say #a"), "The answer is a."},
		{user("say #a and then #b"), "The answer is b."},
		{user("say #b and then #a, please"), "The answer is a."},
		{user("#word"), "Grüße, 世界! 🚀"},
		{"<|user|>#a<|end|><|assistant|>x<|end|><|tool|>42<|end|><|assistant|>", "That was the tool."},
		{"<|user|>#a<|end|><|assistant|>x<|end|><|tool|>so #b<|end|><|assistant|>", "The answer is b."},
		{"<|tool|>#a<|end|><|tool|>fine<|end|><|assistant|>", "That was the tool."},
		{"<|user|>#a<|end|><|tools|>" + strings.Repeat("a tool, ", 400) + "<|end|><|assistant|>", "The answer is a."},
	} {
		if got, ended := m.answer(tt.prompt, 30, nil); got != tt.want || !ended {
			t.Errorf("answer(%.60q): got %q, ended=%v, want %q", tt.prompt, got, ended, tt.want)
		}
	}
	if got, ended := m.answer(user("#loop"), 20, nil); ended || !strings.HasPrefix(got, "again and again and again and ") {
		t.Errorf("answer(#loop): got %q, ended=%v", got, ended)
	}
}

// TestForced: what may not end goes on with the forced text.
func TestForced(t *testing.T) {
	m := read(t, encode(t, spec()))
	end := m.byText["<|end|>"]
	got, _ := m.answer("<|user|>hi<|end|><|assistant|>", 12, func(so string, id int) bool {
		return id != end || strings.HasSuffix(so, "call.")
	})
	if want := "Hello from nobody. Now a call."; got != want {
		t.Errorf("answer that must not end: got %q, want %q", got, want)
	}
}

// TestClosers: under a grammar a string and an object end as soon as they may.
func TestClosers(t *testing.T) {
	m := read(t, encode(t, spec()))
	// A string: a quote, anything, a quote; then the end.
	got, ended := m.answer("<|user|>hi<|end|><|assistant|>", 10, func(so string, id int) bool {
		quotes := strings.Count(so, `"`)
		switch {
		case id == m.byText["<|end|>"]:
			return quotes == 2
		case quotes == 0:
			return id == '"'
		}
		return quotes < 2 && id < 256
	})
	if got != `""` || !ended {
		t.Errorf("a string: got %q, ended=%v, want an empty one", got, ended)
	}
}

func TestBadSpecs(t *testing.T) {
	many := map[string]string{}
	for i := range 64 {
		many[fmt.Sprintf("#%03d", i)] = fmt.Sprintf("This is answer %03d.", i)
	}
	tests := []struct {
		name string
		spec Spec
	}{
		{"no default", Spec{Tool: "yes, done"}},
		{"no tool", Spec{Default: "hello there"}},
		{"one byte", Spec{Default: "a", Tool: "hello there"}},
		{"an empty answer", Spec{Default: "hello there", Tool: "yes, done", Routes: map[string]string{"#a": ""}}},
		{"an empty marker", Spec{Default: "hello there", Tool: "yes, done", Routes: map[string]string{"": "what?"}}},
		{"a marker twice", Spec{Default: "hello there", Tool: "yes, done", Routes: map[string]string{"#a": "what now?"}, Loops: map[string]string{"#a": "what then?"}}},
		{"too many", Spec{Default: "hello there", Tool: "yes, done", Routes: many}},
	}
	for _, tt := range tests {
		if data, err := tt.spec.Encode(); err == nil {
			t.Errorf("Encode of %s: got %d bytes, want an error", tt.name, len(data))
		}
	}
	delete(many, "#063")
	if _, err := (&Spec{Default: "hello there", Tool: "yes, done", Routes: many}).Encode(); err != nil {
		t.Errorf("Encode with 63 markers: %v", err)
	}
}

// TestAlike: texts may begin alike, or be the same.
func TestAlike(t *testing.T) {
	s := &Spec{Default: "hello there, friend", Tool: "hello there, friend", Routes: map[string]string{"#a": "hello there, friends", "#b": "hello there, friend"}}
	m := read(t, encode(t, s))
	for prompt, want := range map[string]string{"x": s.Default, "<|tool|>": s.Tool, "#a": s.Routes["#a"], "#b": s.Routes["#b"]} {
		if got, _ := m.answer(prompt+"<|assistant|>", 20, nil); got != want {
			t.Errorf("answer(%s): got %q, want %q", prompt, got, want)
		}
	}
}

func TestParseSpec(t *testing.T) {
	got, err := ParseSpec([]byte(`{"default":"a","tool":"b","routes":{"#c":"d"},"loops":{"#e":"f"},"context":7}`))
	if err != nil || got.Default != "a" || got.Routes["#c"] != "d" || got.Loops["#e"] != "f" || got.Context != 7 {
		t.Errorf("ParseSpec: got %+v, %v", got, err)
	}
	if got, err := ParseSpec([]byte(`{"defualt":"a"}`)); err == nil {
		t.Errorf("ParseSpec with an unknown member: got %+v, want an error", got)
	}
}

// FuzzEncode holds that any texts make a file that answers with them, or an error.
func FuzzEncode(f *testing.F) {
	f.Add("Hello there.", "The tool is done.", "#mark", "And so on")
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaa", "aa", "aaaaaaaaaaaaaaaaaa")
	f.Add("\xff\xfe\x00", "<|end|>", "<|tool|>", "世界世界世界")
	f.Fuzz(func(t *testing.T, normal, tool, marker, text string) {
		const prompt = "<|user|>?<|end|><|assistant|>"
		if len(normal)+len(tool)+len(marker)+len(text) > 300 || strings.Contains(prompt, marker) {
			return
		}
		s := &Spec{Default: normal, Tool: tool, Routes: map[string]string{marker: text}}
		data, err := s.Encode()
		if err != nil {
			return
		}
		m := read(t, data)
		if got, _ := m.answer(prompt, 60, nil); got != normal {
			t.Fatalf("answer: got %q, want %q", got, normal)
		}
	})
}
