package runlog

import (
	"slices"
	"strings"
	"testing"
)

// TestCallAsText: a call that a model wrote as text is known as one, and what people ask about calls is not.
func TestCallAsText(t *testing.T) {
	tools := []string{"files__read", "weather"}
	for _, tt := range []struct {
		text string
		want bool
	}{
		{"<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Oslo\"}}</tool_call>", true},
		{"\n<tool_call>\nweather\n<arg_key>city</arg_key>", true},
		{"I look that up.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {}}\n</tool_call>", true},
		{"<function=weather>{\"city\":\"Oslo\"}</function>", true},
		{"[TOOL_CALLS][{\"name\":\"weather\",\"arguments\":{}}]", true},
		{"[TOOL_CALLS]weather[ARGS]{}", true},
		{"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>", true},
		{"<|python_tag|>weather.call(city=\"Oslo\")", true},
		{`{"name":"weather","arguments":{"city":"Oslo"}}`, true},
		{` {"name":"other","parameters":{}} `, true},
		{`{"name":"weather","arguments":"{}","id":"1"}`, true},
		{`{"type":"function","function":{"name":"weather","arguments":{}}}`, true},
		{`[{"name":"weather","arguments":{}},{"name":"weather","arguments":{}}]`, true},
		{`{"tool_calls":[{"name":"weather","arguments":{}}]}`, true},
		{"```json\n{\"name\":\"weather\",\"arguments\":{}}\n```", true},

		{"", false},
		{"It rains in Oslo.", false},
		{"Qwen writes <tool_call>{\"name\":\"weather\"}</tool_call> for a call.", false},
		{"So it looks:\n```\n<tool_call>weather</tool_call>\n```\nThat is all.", false},
		{"It may begin with\n<tool_call>\nand that is all.", false},
		{`{"name":"Ada","age":36}`, false},
		{`{"name":"other","arguments":{},"why":"x"}`, false},
		{`{"name":"weather","arguments":7}`, false},
		{`{"name":"weather","arguments":{}} is what I would call.`, false},
		{`[]`, false}, {`[[{"name":"weather","arguments":{}}]]`, false}, {`{"name":"weather"`, false}, {"```", false}, {"``````", false},
		{strings.Repeat("[", 20_000), false},
	} {
		if got := CallAsText(tt.text, slices.Values(tools)); got != tt.want {
			t.Errorf("CallAsText(%.100q): got %v, want %v", tt.text, got, tt.want)
		}
		if CallAsText(tt.text, slices.Values[[]string](nil)) {
			t.Errorf("CallAsText(%.100q) without tools: got true", tt.text)
		}
	}
}
