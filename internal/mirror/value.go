package mirror

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// maxSafe is the largest integer that every JSON reader keeps exactly.
const maxSafe = 1<<53 - 1

// ArgumentError is an argument that has to be repeated in a header and cannot be. Its value is
// not told: it may be private.
type ArgumentError struct {
	Path []string
	Why  string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("the argument %.200q cannot be sent in a header: %s", strings.Join(e.Path, "."), e.Why)
}

// Headers returns the headers of a call, in the order of params, with values not
// yet encoded. Args is a JSON object or empty. The error is an [*ArgumentError].
func Headers(params []Param, args json.RawMessage) ([]mcp.Header, error) {
	var headers []mcp.Header
	for i := range params {
		v, ok, err := params[i].Value(args)
		if err != nil {
			return nil, err
		}
		if ok {
			headers = append(headers, mcp.Header{Name: params[i].Header, Value: v})
		}
	}
	return headers, nil
}

// Value returns the value of the parameter as a header says it, before [Encode];
// false if it is absent or null (HDR-23). The error is an [*ArgumentError].
func (p Param) Value(args json.RawMessage) (string, bool, error) {
	raw, err := p.find(args)
	if err != nil {
		return "", false, err
	}
	v, ok, why := text(raw)
	if why != "" {
		return "", false, &ArgumentError{p.Path, why}
	}
	return v, ok, nil
}

// find returns the argument itself, nil if it is absent.
func (p Param) find(args json.RawMessage) ([]byte, error) {
	raw := bytes.TrimSpace(args)
	for _, name := range p.Path {
		if len(raw) == 0 || raw[0] != '{' {
			return nil, nil
		}
		var members map[string]json.RawMessage
		if err := jsonx.Unmarshal(raw, &members); err != nil {
			return nil, &ArgumentError{p.Path, "the arguments are not a JSON object"}
		}
		raw = bytes.TrimSpace(members[name])
	}
	return raw, nil
}

// text writes a scalar (HDR-10). What the value is decides, not what the schema
// says it should be: that is for the server to refuse.
func text(raw []byte) (s string, ok bool, why string) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", false, ""
	case raw[0] == '"':
		if jsonx.Unmarshal(raw, &s) != nil {
			return "", false, "it is not a valid string"
		}
		return s, true, ""
	case string(raw) == "true" || string(raw) == "false":
		return string(raw), true, ""
	case raw[0] == '{' || raw[0] == '[':
		return "", false, "it is not a string, an integer or a boolean"
	}
	n, ok := integer(string(raw))
	if !ok {
		return "", false, "it is not an integer between -(2^53-1) and 2^53-1"
	}
	return strconv.FormatInt(n, 10), true, ""
}

// integer reads a JSON number whose value is an integer, however it is written.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafe {
			return 0, false
		}
		n = int64(f)
	}
	return n, n >= -maxSafe && n <= maxSafe
}
