package runlog

import (
	"iter"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// callMarks are how models begin a call that is to be taken out of their text by the server: where that does not know
// the form, it stays there.
var callMarks = []string{
	"<tool_call>",            // Qwen, Hermes, GLM
	"<tool_calls>",           // Jamba
	"<function=",             // Llama, Qwen Coder
	"<function_call>",        // and others
	"<function_calls>",       //
	"<invoke name=",          // Claude's form, and MiniMax's
	"<minimax:tool_call>",    //
	"[TOOL_CALLS]",           // Mistral
	"<|tool_call|>",          // Granite
	"<|tool_calls_section_b", // Kimi
	"<|tool_call_begin|>",    //
	"<|python_tag|>",         // Llama
	"<｜tool▁calls▁begin｜>",   // DeepSeek
	"<｜tool▁call▁begin｜>",    //
	"<｜DSML｜",                //
	"<|channel|>commentary",  // gpt-oss
	"functools[",             // Phi
}

// maxCallText bounds the text that is looked at as the JSON of a call.
const maxCallText = 256 << 10

// CallAsText reports whether an answer is a call that the model wrote as text: one that begins with a mark of such a call, or has one
// at the beginning of a line with the name of a tool behind it, or that is nothing but the JSON of a call. Without tools none is.
func CallAsText(text string, tools iter.Seq[string]) bool {
	if !anyOf(tools, func(string) bool { return true }) {
		return false
	}
	text = strings.TrimSpace(text)
	at, inCode := 0, false // what stands in a block of code is shown to the reader
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
		}
		if !inCode && marksCall(line) {
			rest := text[at:]
			if at == 0 || anyOf(tools, func(name string) bool { return strings.Contains(rest, name) }) {
				return true
			}
		}
		at += len(line)
	}
	text = unfenced(text)
	return len(text) <= maxCallText && callInJSON(jsonx.Value(text), tools)
}

func anyOf(tools iter.Seq[string], fits func(name string) bool) bool {
	for name := range tools {
		if fits(name) {
			return true
		}
	}
	return false
}

// marksCall reports whether a line begins with a mark.
func marksCall(line string) bool {
	return strings.ContainsAny(line[:1], "<[f") && slices.ContainsFunc(callMarks, func(mark string) bool { return strings.HasPrefix(line, mark) })
}

// unfenced is the text of a block of code, if the text is one and nothing more.
func unfenced(text string) string {
	inner, ok := strings.CutPrefix(text, "```")
	if !ok {
		return text
	}
	inner, ok = strings.CutSuffix(inner, "```")
	_, inner, line := strings.Cut(inner, "\n")
	if !ok || !line {
		return text
	}
	return strings.TrimSpace(inner)
}

// callInJSON reports whether a text is the JSON of a call, or of several.
func callInJSON(text jsonx.Value, tools iter.Seq[string]) bool {
	if text = firstOf(text); text.Kind() != '{' {
		return false
	}
	var c struct {
		Function jsonx.Value `json:"function"`
		Calls    jsonx.Value `json:"tool_calls"`
	}
	if jsonx.Unmarshal(text, &c) != nil {
		return false
	}
	return isCall(text, tools) || isCall(c.Function, tools) || isCall(firstOf(c.Calls), tools)
}

// firstOf is the first entry of a list, and anything else as it is.
func firstOf(v jsonx.Value) jsonx.Value {
	var list []jsonx.Value
	if v.Kind() == '[' && jsonx.Unmarshal(v, &list) == nil && len(list) > 0 {
		return list[0]
	}
	return v
}

// isCall reports whether an object is a call of one of the tools, or has nothing but a name and arguments.
func isCall(object jsonx.Value, tools iter.Seq[string]) bool {
	var members map[string]jsonx.Value
	if object.Kind() != '{' || jsonx.Unmarshal(object, &members) != nil {
		return false
	}
	args, ok := members["arguments"]
	if !ok {
		args, ok = members["parameters"]
	}
	if !ok || args.Kind() != '{' && args.Kind() != '"' {
		return false
	}
	var name string
	if jsonx.Unmarshal(members["name"], &name) != nil || name == "" {
		return false
	}
	return len(members) == 2 && args.Kind() == '{' || anyOf(tools, func(tool string) bool { return tool == name })
}
