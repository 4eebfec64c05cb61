package call

import (
	"bytes"
	"fmt"
	"maps"
	"sync"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// buffers are used again by all tables: bytes have no owner.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxKeptBuffer = 256 << 10 // no longer than to the next garbage collections

func borrow() *[]byte { return buffers.Get().(*[]byte) }

func giveBack(b *[]byte) {
	if cap(*b) <= maxKeptBuffer {
		buffers.Put(b)
	}
}

// appendRequest appends the frame of one attempt. members are those that every
// request's _meta has on this connection; a token is added unless it is zero.
func appendRequest(dst []byte, id mcp.ID, req *Request, members []byte, token mcp.ProgressToken) ([]byte, error) {
	if len(members) == 0 && token.IsZero() && len(req.Meta) == 0 {
		return mcp.AppendRequest(dst, id, req.Method, req.Params), nil
	}
	b := borrow()
	defer giveBack(b)
	params, err := appendParams((*b)[:0], req, members, token)
	*b = params
	if err != nil {
		return dst, err
	}
	return mcp.AppendRequest(dst, id, req.Method, params), nil
}

// appendParams appends the parameters with _meta in front.
func appendParams(dst []byte, req *Request, members []byte, token mcp.ProgressToken) ([]byte, error) {
	dst = append(dst, `{"_meta":{`...)
	start := len(dst)
	dst = append(dst, members...)
	if !token.IsZero() {
		dst = comma(dst, start)
		dst = append(dst, `"`+mcp.MetaProgressToken+`":`...)
		dst = token.AppendJSON(dst)
	}
	if own := ownMeta(req.Meta); len(own) > 0 {
		raw, err := jsonx.Marshal(own)
		if err != nil {
			return dst, fmt.Errorf("writing _meta of %s: %w", req.Method, err)
		}
		dst = append(comma(dst, start), raw[1:len(raw)-1]...)
	}
	dst = append(dst, '}')
	rest := bytes.TrimSpace(req.Params)
	if len(rest) == 0 {
		return append(dst, '}'), nil
	}
	if rest[0] != '{' {
		return dst, fmt.Errorf("params of %s are not an object", req.Method)
	}
	rest = bytes.TrimLeft(rest[1:], " \t\r\n")
	if len(rest) == 0 {
		return dst, fmt.Errorf("params of %s are cut off", req.Method)
	}
	if rest[0] != '}' {
		dst = append(dst, ',')
	}
	return append(dst, rest...), nil
}

// ownMeta leaves out what the connection or the call itself sets.
func ownMeta(m mcp.Meta) mcp.Meta {
	if len(m) == 0 {
		return nil
	}
	own := maps.Clone(m)
	for _, key := range []string{mcp.MetaProgressToken, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities, mcp.MetaClientInfo} {
		delete(own, key)
	}
	return own
}

// comma separates a member from those before it.
func comma(dst []byte, start int) []byte {
	if len(dst) > start {
		return append(dst, ',')
	}
	return dst
}

// appendCancelled appends the notification that withdraws a request (CANC-01).
func appendCancelled(dst []byte, id mcp.ID, reason string) []byte {
	params := append([]byte(`{"requestId":`), id.String()...)
	params = append(params, `,"reason":`...)
	params = append(jsonx.AppendQuote(params, reason), '}')
	return mcp.AppendNotification(dst, mcp.NotificationCancelled, params)
}
