package gateway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// inputSchema returns a tool's input schema in the form of the protocol (TOOL-03): an object
// with "type":"object", whose properties are an object and whose required is a list of names.
// Strict clients refuse a whole list for one tool with another form. Changed describes the
// changes, "" for none. A schema that cannot be one of arguments is an error.
func inputSchema(raw json.RawMessage) (fixed json.RawMessage, changed string, err error) {
	var root map[string]json.RawMessage
	if err := jsonx.Unmarshal(raw, &root); err != nil || root == nil {
		return nil, "", errors.New("it is not an object")
	}
	var changes []string
	switch kind := root["type"]; {
	case kind == nil:
		changes = append(changes, `"type":"object" was missing`)
	case string(kind) == `"object"`:
	case allows(kind, "object"):
		changes = append(changes, `its type was a list`)
	default:
		return nil, "", errors.New("its type is not object")
	}
	root["type"] = json.RawMessage(`"object"`)
	if p, has := root["properties"]; has && jsonx.Unmarshal(p, new(map[string]json.RawMessage)) != nil {
		delete(root, "properties")
		changes = append(changes, "its properties were not an object")
	}
	if r, has := root["required"]; has && jsonx.Unmarshal(r, new([]string)) != nil {
		delete(root, "required")
		changes = append(changes, "its required was not a list of names")
	}
	if len(changes) == 0 {
		return raw, "", nil
	}
	fixed, err = jsonx.Marshal(root)
	return fixed, strings.Join(changes, "; "), err
}

// allows reports whether the value of a type keyword is a list that has the name.
func allows(kind json.RawMessage, name string) bool {
	var all []string
	return jsonx.Unmarshal(kind, &all) == nil && slices.Contains(all, name)
}
