package modelservers

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
)

// The templates tell the model that there is a tool, for each, and no more: a byte is a
// token, and the model reads nothing but markers anyway. With less than that the count of a
// prompt's tokens would be lower than llm.Usage.Plausible believes.
var (
	//go:embed spec.json
	behaviour []byte
	//go:embed chat.tmpl
	ollamaTemplate string // Ollama's, in Go's language for templates
	//go:embed chat.jinja
	jinjaTemplate string // the same for all others
)

// Behaviour returns the spec that most tests need; see spec.json for its markers. It may
// be changed.
func Behaviour() *tinygguf.Spec {
	spec, err := tinygguf.ParseSpec(behaviour)
	if err != nil {
		panic(fmt.Sprintf("modelservers: spec.json: %v", err))
	}
	return spec
}

// Call is how the model writes a call of a tool; arguments are a JSON object. Several are
// joined with blank lines or text between them.
func Call(tool, arguments string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", tool, arguments)
}

// Calls is how the model writes several calls.
func Calls(calls ...string) string { return strings.Join(calls, "\n") }
