package telemetry

import (
	"encoding/json"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Bounds of attributes, in bytes: of content, and of a name, which a client may choose.
const (
	maxContent = 64<<10 - len("…") // the mark of a cut comes on top
	maxName    = 128
)

// Attributes whose values come from a request.
const (
	toolName   = "gen_ai.tool.name"
	promptName = "gen_ai.prompt.name"
)

// about are the attributes that spans and metrics of a request share; each has few values.
func about(method, name string, version mcp.Version) []attribute.KeyValue {
	attrs := []attribute.KeyValue{attribute.String("mcp.method.name", method)}
	if version != "" {
		attrs = append(attrs, attribute.String("mcp.protocol.version", string(version)))
	}
	switch method {
	case mcp.MethodCallTool:
		attrs = append(attrs, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String(toolName, clip.Text(name, maxName)))
	case mcp.MethodGetPrompt:
		attrs = append(attrs, attribute.String(promptName, clip.Text(name, maxName)))
	}
	return attrs
}

// spanName has the names of tools and prompts, of which there are few.
func spanName(method, name string) string {
	if name != "" && (method == mcp.MethodCallTool || method == mcp.MethodGetPrompt) {
		return method + " " + clip.Text(name, maxName)
	}
	return method
}

// outcome marks a failed span, and returns its error.type, empty for none.
func outcome(span trace.Span, toolFailed bool, err error, words func(error) string) string {
	switch {
	case err != nil:
		kind := errorType(err)
		if wire, ok := errors.AsType[*mcp.Error](err); ok {
			span.SetAttributes(attribute.Int64("rpc.response.status_code", wire.Code))
		}
		fail(span, kind, words(err))
		return kind
	case toolFailed:
		fail(span, toolError, "the tool failed")
		return toolError
	}
	return ""
}

// failed reports whether a tool result has isError.
func failed(result json.RawMessage) bool {
	var res struct {
		IsError bool `json:"isError"`
	}
	return jsonx.Unmarshal(result, &res) == nil && res.IsError
}

// fail marks a span as failed. Kind is one of few classes of errors.
func fail(span trace.Span, kind, message string) {
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, message)
}

// provider is the first half of a model's name.
func provider(model string) string {
	before, _, found := strings.Cut(model, "/")
	if !found {
		return "unknown"
	}
	return before
}

// own is a model's name at its provider.
func own(model string) string {
	if _, after, found := strings.Cut(model, "/"); found {
		return after
	}
	return model
}

// withoutState are messages without what is between a provider and its model.
func withoutState(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		out[i] = llm.Message{Role: m.Role, Content: m.Content}
	}
	return out
}

// asJSON is an attribute with the JSON text of v, cut to the bound of exporters.
func asJSON(key string, v any) attribute.KeyValue {
	raw, err := jsonx.Marshal(v)
	if err != nil {
		return attribute.String(key, "")
	}
	return attribute.String(key, clip.Text(string(raw), maxContent))
}

// toolSpan is the context key of the span of a tool call before its request, which continues
// the span.
type toolSpan struct{}
