package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// The functions here append one message to dst and return it. Raw JSON that is
// given to them must be valid: they do not check it, but they keep the message
// on one line, as stdio needs it.

// AppendRequest appends a request. Nil params are left out.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendJSON(dst)
	dst = append(dst, `,"method":`...)
	return appendMethod(dst, method, params)
}

// AppendNotification appends a notification. Nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendMethod(dst, method, params)
}

func appendMethod(dst []byte, method string, params []byte) []byte {
	dst = jsonx.AppendQuote(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = appendRaw(dst, params)
	}
	return append(dst, '}')
}

// AppendResult appends the answer to id. A nil result is written as {}.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = appendResultHead(dst, id)
	if result == nil {
		result = []byte("{}")
	}
	dst = appendRaw(dst, result)
	return append(dst, '}')
}

func appendResultHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = id.AppendJSON(dst)
	return append(dst, `,"result":`...)
}

// AppendResultOf appends the answer to id with a result of this package,
// written as revision v wants it; see [MarshalResult]. On an error dst is
// returned unchanged.
func AppendResultOf(dst []byte, id ID, result any, v Version) ([]byte, error) {
	if r, ok := result.(*CallToolResult); ok {
		out, err := AppendCallToolResult(appendResultHead(dst, id), r, v)
		if err != nil {
			return dst, err
		}
		return append(out, '}'), nil
	}
	raw, err := MarshalResult(result, v)
	if err != nil {
		return dst, err
	}
	return AppendResult(dst, id, raw), nil
}

// AppendError appends an error answer. The id is left out when it is zero,
// which is for requests whose id could not be read. Invalid data is
// left out.
func AppendError(dst []byte, id ID, e *Error) []byte {
	dst = append(dst, `{"jsonrpc":"2.0",`...)
	if !id.IsZero() {
		dst = append(dst, `"id":`...)
		dst = id.AppendJSON(dst)
		dst = append(dst, ',')
	}
	dst = append(dst, `"error":{"code":`...)
	dst = IntID(e.Code).AppendJSON(dst)
	dst = append(dst, `,"message":`...)
	dst = jsonx.AppendQuote(dst, e.Message)
	if e.Data != nil && Valid(e.Data) {
		dst = append(dst, `,"data":`...)
		dst = appendRaw(dst, e.Data)
	}
	return append(dst, "}}"...)
}

// MarshalResult encodes a result as revision v wants it: with resultType and
// cache members in 2026-07-28 and without before, and with what v cannot carry
// replaced or left out. A result that is the same everywhere, also one not of
// this package, is encoded as it is.
func MarshalResult(result any, v Version) ([]byte, error) {
	if r, ok := result.(versioned); ok {
		result = r.inVersion(v)
	}
	raw, err := jsonx.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("writing a result: %w", err)
	}
	return raw, nil
}

// AppendCallToolResult appends r as revision v wants it (see
// [CallToolResult.For]), quickly where its content is plain text. The raw parts
// of r come from handlers and are checked; on an error dst is returned
// unchanged.
func AppendCallToolResult(dst []byte, r *CallToolResult, v Version) ([]byte, error) {
	if len(r.Extra) > 0 { // the codec sees to names that are there twice
		raw, err := MarshalResult(r, v)
		return append(dst, raw...), err
	}
	a := jsonx.Appender{Buf: append(dst, `{"content":[`...)}
	for _, c := range r.Content {
		if err := appendContent(&a, contentFor(c, v)); err != nil {
			return dst, err
		}
	}
	out := append(a.Buf, ']')
	if r.StructuredContent != nil && structuredFits(r.StructuredContent, v) {
		if !Valid(r.StructuredContent) {
			return dst, fmt.Errorf("writing a tool result: the structured content is not valid JSON")
		}
		out = append(out, `,"structuredContent":`...)
		out = appendRaw(out, r.StructuredContent)
	}
	if r.IsError {
		out = append(out, `,"isError":true`...)
	}
	if v.Has(FeatureResultType) {
		out = append(out, `,"resultType":"complete"`...)
	}
	if r.Meta != nil {
		meta, err := jsonx.Marshal(r.Meta)
		if err != nil {
			return dst, fmt.Errorf("writing a tool result: %w", err)
		}
		out = append(out, `,"_meta":`...)
		out = append(out, meta...)
	}
	return append(out, '}'), nil
}

// AppendJSON appends what MarshalJSON returns. On an error it returns dst unchanged. How deep raw
// parts nest it does not bound.
func (v *CallToolResult) AppendJSON(dst []byte) ([]byte, error) {
	if len(v.Extra) == 0 && len(v.Meta) <= 1 { // the codec sees to the order of names, and to those that are there twice
		out, err := v.Content.AppendJSON(append(dst, `{"content":`...))
		if err != nil {
			return dst, err
		}
		a := jsonx.Appender{Buf: out}
		a.SomeValue("structuredContent", v.StructuredContent)
		a.SomeBool("isError", v.IsError)
		if v.Meta != nil {
			a.Name("_meta")
			a.Open('{')
			for key, raw := range v.Meta {
				a.Quote(key)
				a.Buf = append(a.Buf, ':')
				a.Raw(raw)
			}
			a.Close('}')
		}
		a.SomeText("resultType", v.ResultType)
		a.Close('}')
		if !a.Bad {
			return a.Buf, nil
		}
	}
	raw, err := jsonx.Marshal((*callToolResultJSON)(v))
	return append(dst, raw...), err
}

// EmptyResult is a result without members of its own, such as that of ping.
type EmptyResult struct {
	Meta       Meta   `json:"_meta,omitzero"`
	ResultType string `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Valid reports whether raw is one JSON value by the rules of [Scan].
func Valid(raw []byte) bool { return strict(raw) == nil }

// appendRaw appends valid JSON on one line: a line break in it can only be
// space between tokens, and becomes a blank.
func appendRaw(dst, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, raw...)
	for _, brk := range []byte("\n\r") {
		for i := start; ; i++ {
			n := bytes.IndexByte(dst[i:], brk)
			if n < 0 {
				break
			}
			i += n
			dst[i] = ' '
		}
	}
	return dst
}
