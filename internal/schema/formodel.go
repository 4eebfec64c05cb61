package schema

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// ForModel returns the schema of a tool's arguments in a form that the interfaces
// of models take: an object by its type, without the keywords that a lenient
// Compile leaves out, and with items wherever there is an array. A schema that needs none
// of it is returned as it is; one that cannot be read at all becomes any object.
// The order of its members stays. Skipped says what was left out, as [Schema.Skipped]
// does; err says why a schema is beyond the bounds of this package and was not looked
// through.
func ForModel(raw json.RawMessage) (_ json.RawMessage, skipped []*Error, err error) {
	c, err := checkLenient(raw, false)
	if err != nil {
		return AsObject(raw), nil, err
	}
	if c.root.object == nil {
		return json.RawMessage(`{"type":"object"}`), nil, nil
	}
	e := editor{drop: c.dropped, add: map[string]string{}}
	for _, n := range c.nodes {
		switch kind := n.object["type"]; {
		case n == c.root && kind != "object":
			e.drop["/type"], e.add[""] = true, `"type":"object"`
		case isArrayType(kind) && n.object["items"] == nil && n.object["prefixItems"] == nil:
			e.add[n.ptr] = `"items":{}`
		}
	}
	if len(e.drop)+len(e.add) == 0 {
		return raw, nil, nil
	}
	e.value(raw, skipSpace(raw, 0), "")
	return e.out, c.skipped, nil
}

// AsObject returns a schema with "type":"object" at its root, which the protocol
// asks of a tool's arguments (TOOL-03). What is no JSON object becomes any object.
func AsObject(raw json.RawMessage) json.RawMessage {
	var root struct {
		Type jsonx.Value `json:"type"`
	}
	start := skipSpace(raw, 0)
	if at(raw, start) != '{' || jsonx.Unmarshal(raw, &root) != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	if string(root.Type) == `"object"` {
		return raw
	}
	e := editor{drop: map[string]bool{"/type": true}, add: map[string]string{"": `"type":"object"`}, flat: true}
	e.value(raw, start, "")
	return e.out
}

func isArrayType(v any) bool {
	list, _ := v.([]any)
	return v == "array" || slices.Contains(list, any("array"))
}

// editor copies valid JSON text without some members and with others.
type editor struct {
	drop map[string]bool   // members, by pointer
	add  map[string]string // a member for the front of objects, by the pointer of the object
	flat bool              // only the root is edited
	out  []byte
}

// value copies the value at i and returns the index behind it.
func (e *editor) value(data []byte, i int, ptr string) int {
	c := at(data, i)
	if c != '{' && c != '[' || e.flat && ptr != "" {
		end := max(skipValue(data, i), i)
		e.out = append(e.out, data[i:end]...)
		return end
	}
	e.out = append(e.out, c)
	empty := true
	comma := func() {
		if !empty {
			e.out = append(e.out, ',')
		}
		empty = false
	}
	if more := e.add[ptr]; more != "" && c == '{' {
		comma()
		e.out = append(e.out, more...)
	}
	d := decoder{data: data, i: i}
	for n := 0; d.next(c + 2); n++ { // the closing bracket stands two behind the opening one
		child := ptr + "/" + strconv.Itoa(n)
		start := d.i
		if c == '{' {
			name, _ := d.text()
			d.next(0)
			child = appendToken(ptr, name)
		}
		if e.drop[child] {
			d.i = max(skipValue(data, d.i), d.i)
			continue
		}
		comma()
		e.out = append(e.out, data[start:d.i]...)
		d.i = e.value(data, d.i, child)
	}
	e.out = append(e.out, c+2)
	return d.i
}
