package offered

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Answer is a response to a tool call, apart from its result.
type Answer struct {
	ID       mcp.ID
	Version  mcp.Version
	Identity *Identity
}

// AppendResult appends the response with the result that a handler returned.
func (t *Tool) AppendResult(dst []byte, a Answer, result *mcp.CallToolResult) ([]byte, error) {
	if result == nil {
		return nil, fmt.Errorf("tool %q returned no result", t.Def.Name)
	}
	if err := t.Check(result); err != nil {
		return nil, err
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(a.ID.AppendJSON(dst), `,"result":`...)
	if result.Meta != nil && a.Version.Era() == mcp.EraModern {
		c := *result
		c.Meta = a.Identity.Meta(result.Meta, a.Version)
		result = &c
	}
	start := len(dst)
	dst, err := mcp.AppendCallToolResult(dst, result, a.Version)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of tool %q: %w", t.Def.Name, err)
	}
	if result.Meta == nil && len(result.Extra) == 0 && len(dst) > start {
		dst = a.Identity.Finish(dst, a.Version)
	}
	return append(dst, '}'), nil
}

// textResult is a result of one text block, in one allocation.
type textResult struct {
	result mcp.CallToolResult
	text   mcp.TextContent
	block  [1]mcp.Content
}

// textResults are used again: an encoded result is not kept.
var textResults = sync.Pool{New: func() any { return new(textResult) }}

// AppendText appends the response with a result of one text, and with the structured content that the
// text shows, which may be nil.
func (t *Tool) AppendText(dst []byte, a Answer, text string, structured []byte) ([]byte, error) {
	one := textResults.Get().(*textResult)
	one.text.Text = text
	one.block[0] = &one.text
	one.result.Content, one.result.StructuredContent = one.block[:], structured
	dst, err := t.AppendResult(dst, a, &one.result)
	*one = textResult{}
	textResults.Put(one)
	return dst, err
}

var contentType = reflect.TypeFor[mcp.Content]()

// AppendOut appends the response with what a handler returned instead of a result. Out is a
// pointer to the value.
func (t *Tool) AppendOut(dst []byte, a Answer, out any) ([]byte, error) {
	if v, ok := out.(*mcp.Contents); ok {
		return t.AppendResult(dst, a, &mcp.CallToolResult{Content: *v})
	}
	v := reflect.ValueOf(out).Elem()
	if v.Kind() == reflect.Interface && v.IsNil() {
		return t.AppendResult(dst, a, &mcp.CallToolResult{})
	}
	if v.Type().Implements(contentType) {
		return t.AppendResult(dst, a, &mcp.CallToolResult{Content: mcp.Contents{v.Interface().(mcp.Content)}})
	}
	if v.Kind() == reflect.String {
		return t.AppendText(dst, a, v.String(), nil)
	}
	raw, err := jsonx.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encoding the result of tool %q: %w", t.Def.Name, err)
	}
	return t.AppendText(dst, a, string(raw), raw)
}

// ResultIn returns the result within an encoded answer.
func ResultIn(frame []byte, id mcp.ID) json.RawMessage {
	empty := len(mcp.AppendResult(nil, id, []byte{})) // with the closing brace
	return frame[empty-1 : len(frame)-1 : len(frame)-1]
}

// Unchanged reports whether a middleware has returned the result of next.
func Unchanged(result, own json.RawMessage) bool {
	return len(own) > 0 && len(result) == len(own) && &result[0] == &own[0]
}
