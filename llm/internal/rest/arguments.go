package rest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
)

// Arguments checks the arguments of a call, which must be one strict JSON object;
// nothing and null stand for the empty one. The result is a copy.
func Arguments(data []byte) (json.RawMessage, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "null" {
		return json.RawMessage("{}"), nil
	}
	if data[0] != '{' {
		return nil, errors.New("its arguments are not a JSON object")
	}
	if !jsonx.Valid(data) {
		var v jsonx.Value
		return nil, fmt.Errorf("its arguments are not valid JSON: %w", jsonx.Unmarshal(data, &v))
	}
	return bytes.Clone(data), nil
}

// MaxName bounds the name of a tool in a call, in bytes: providers take names of 64, and
// MCP has them of 128.
const MaxName = 256

// maxID is how long an id of a call may be, in bytes. There are servers that keep things
// in it: it must come back as it is.
const maxID = 64 << 10

// IDs makes the ids of a turn's calls unique in its conversation: there are servers that
// count from zero in each turn.
type IDs struct {
	messages []llm.Message
	own      map[string]bool // of the turn
}

// NewIDs knows the ids of a request's messages.
func NewIDs(req *llm.Request) IDs { return IDs{messages: req.Messages} }

// Unique returns id, or a new one if id is empty, was there before, or has more than 64 KiB.
func (ids *IDs) Unique(id string) string {
	if id == "" || len(id) > maxID || ids.known(id) {
		id = "call_" + strings.ToLower(rand.Text()[:16])
	}
	if ids.own == nil {
		ids.own = make(map[string]bool)
	}
	ids.own[id] = true
	return id
}

// known looks through the messages: a turn has few calls, and most have none.
func (ids *IDs) known(id string) bool {
	for _, m := range ids.messages {
		for _, c := range m.Content {
			if call, ok := c.(*mcp.ToolUseContent); ok && call.ID == id {
				return true
			}
		}
	}
	return ids.own[id]
}
