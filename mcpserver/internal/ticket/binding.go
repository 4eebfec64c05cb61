package ticket

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// NewBinding binds to a principal's request for what the name says, with these arguments.
func NewBinding(principal, method, name string, arguments json.RawMessage) Binding {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s", len(name), name)
	h.Write(sameJSON(arguments))
	b := Binding{Principal: principal, Method: method}
	h.Sum(b.Params[:0])
	return b
}

// sameJSON writes JSON so that what means the same is the same: members in order,
// strings in one way. Numbers stay as they are, or large ones would become equal.
func sameJSON(raw json.RawMessage) []byte {
	out, err := jsonx.Marshal(unordered(raw))
	if err != nil {
		return raw
	}
	return out
}

// unordered is a value that marshals as sameJSON wants it.
func unordered(raw []byte) any {
	switch raw = bytes.TrimSpace(raw); {
	case len(raw) == 0:
		return nil
	case raw[0] == '{':
		var members map[string]jsonx.Value
		if jsonx.Unmarshal(raw, &members) == nil {
			out := make(map[string]any, len(members))
			for name, value := range members {
				out[name] = unordered(value)
			}
			return out
		}
	case raw[0] == '[':
		var elements []jsonx.Value
		if jsonx.Unmarshal(raw, &elements) == nil {
			out := make([]any, len(elements))
			for i, value := range elements {
				out[i] = unordered(value)
			}
			return out
		}
	case raw[0] == '"':
		var text string
		if jsonx.Unmarshal(raw, &text) == nil {
			return text
		}
	}
	return jsonx.Value(raw)
}
