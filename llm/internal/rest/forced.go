package rest

import (
	"encoding/json"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// MaxForced bounds the text of a forced call, in bytes.
const MaxForced = 1 << 20

// ForcedCall is a call that a model was made to write as the text of an answer, with a
// grammar that leaves it no other way: for servers that do not know or do not heed a
// required tool choice.
type ForcedCall struct {
	Name      string      `json:"name"`
	Arguments jsonx.Value `json:"arguments"`
}

// Forced returns the request that has one for its answer, after a turn that has said so
// many tokens: both together hold to the limit of the one request. It is nil if nothing is
// left of that.
func Forced(req *llm.Request, said int) (*llm.Request, error) {
	if req.MaxTokens > 0 && said >= req.MaxTokens {
		return nil, nil
	}
	schema, err := callSchema(req.Tools)
	if err != nil {
		return nil, err
	}
	forced := *req
	if req.MaxTokens > 0 {
		forced.MaxTokens = req.MaxTokens - said
	}
	forced.Tools, forced.ToolChoice, forced.Schema, forced.Effort, forced.Stop = nil, llm.ToolChoiceAuto, schema, llm.EffortNone, nil
	return &forced, nil
}

// callSchema is the schema of {"name": …, "arguments": …} for any of the tools.
func callSchema(tools []llm.Tool) (json.RawMessage, error) {
	type property map[string]any
	var anyOf []property
	for _, t := range tools {
		arguments := t.InputSchema
		if len(arguments) == 0 {
			arguments = json.RawMessage(`{"type":"object"}`)
		}
		anyOf = append(anyOf, property{
			"type":       "object",
			"properties": property{"name": property{"const": t.Name}, "arguments": arguments},
			"required":   []string{"name", "arguments"},
		})
	}
	return jsonx.Marshal(property{"anyOf": anyOf})
}
