package ollama

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

// A schema is data from a server of tools: how deep it is followed, references
// included, and how many nodes of it are looked at is bounded. What is beyond is
// described to the model as any value.
const (
	maxDepth = 24
	maxNodes = 4000
	maxBytes = 16 << 20 // that are decoded, again for each reference
	maxNote  = 256      // bytes of one constraint that is put in words
)

// schema is a node: its keywords in their own text.
type schema map[string]jsonx.Value

// narrower turns one tool's schema into Ollama's types.
type narrower struct {
	root  schema
	nodes int
	bytes int
}

// narrow maps a tool. Ollama knows type, enum, items, properties, anyOf, descriptions and,
// at the top, required. References are put in place, allOf is merged, and other
// constraints are appended to descriptions in words.
func narrow(t llm.Tool) (api.Tool, error) {
	tool := api.Tool{Type: "function", Function: api.ToolFunction{
		Name: t.Name, Description: t.Description,
		Parameters: api.ToolFunctionParameters{Type: "object", Properties: api.NewToolPropertiesMap()},
	}}
	if len(t.InputSchema) == 0 {
		return tool, nil
	}
	n := &narrower{}
	if err := jsonx.Unmarshal(t.InputSchema, &n.root); err != nil {
		return tool, err
	}
	top := n.flatten(n.root, 0)
	params := &tool.Function.Parameters
	params.Required = names(top["required"])
	if props := n.properties(top["properties"], 0); props != nil {
		params.Properties = props
	}
	notes := n.branches(top, params)
	delete(top, "required")
	notes = append(notes, constraints(top)...)
	tool.Function.Description = describe(t.Description, notes)
	return tool, nil
}

// branches takes the alternatives at the top, for which Ollama has no place: their
// properties are added as optional ones, and the rule is put in words.
func (n *narrower) branches(top schema, params *api.ToolFunctionParameters) []string {
	var notes []string
	for _, keyword := range []string{"anyOf", "oneOf"} {
		branches := nodes(top[keyword])
		if len(branches) == 0 {
			continue
		}
		var needs []string
		for _, b := range branches {
			flat := n.flatten(b, 1)
			if props := n.properties(flat["properties"], 1); props != nil {
				for name, p := range props.All() {
					if _, ok := params.Properties.Get(name); !ok {
						params.Properties.Set(name, p)
					}
				}
			}
			if req := names(flat["required"]); len(req) > 0 {
				needs = append(needs, strings.Join(req, " and "))
			}
		}
		if len(needs) > 0 {
			notes = append(notes, "needs one of: "+strings.Join(needs, "; or "))
		}
	}
	return notes
}

// property maps a node below the top.
func (n *narrower) property(raw jsonx.Value, depth int) api.ToolProperty {
	var node schema
	n.nodes, n.bytes = n.nodes+1, n.bytes+len(raw)
	if n.nodes > maxNodes || n.bytes > maxBytes || depth > maxDepth || jsonx.Unmarshal(raw, &node) != nil {
		return api.ToolProperty{} // any value; true and false are schemas too
	}
	node = n.flatten(node, depth)
	var p api.ToolProperty
	if t := node["type"]; len(t) > 0 {
		_ = p.Type.UnmarshalJSON(t) // one that is neither name nor list is no type
	}
	if n.bytes += len(node["enum"]); n.bytes <= maxBytes {
		p.Enum = values(node["enum"])
	}
	if c, ok := node["const"]; ok {
		p.Enum = []any{json.RawMessage(c)}
	}
	if items := node["items"]; items.Kind() == '{' {
		p.Items = n.property(items, depth+1)
	}
	p.Properties = n.properties(node["properties"], depth)
	for _, keyword := range []string{"anyOf", "oneOf"} {
		for _, b := range raws(node[keyword]) {
			p.AnyOf = append(p.AnyOf, n.property(b, depth+1))
		}
	}
	p.Description = describe(text(node["description"]), constraints(node))
	return p
}

// properties maps an object's properties in their own order, or returns nil if there are
// none.
func (n *narrower) properties(raw jsonx.Value, depth int) *api.ToolPropertiesMap {
	var members map[string]jsonx.Value
	if raw.Kind() != '{' || jsonx.Unmarshal(raw, &members) != nil || len(members) == 0 {
		return nil
	}
	out := api.NewToolPropertiesMap()
	for _, name := range memberOrder(raw, members) {
		out.Set(name, n.property(members[name], depth+1))
	}
	return out
}

// memberOrder returns the names of members in the order of their text.
func memberOrder(raw jsonx.Value, members map[string]jsonx.Value) []string {
	var order api.ToolCallFunctionArguments // the one ordered decoder that the package exports
	if order.UnmarshalJSON(raw) != nil {
		return slices.Sorted(maps.Keys(members))
	}
	var list []string
	for name := range order.All() {
		list = append(list, name)
	}
	return list
}

// flatten puts what a reference points to and what allOf holds into a copy of the node.
// The node's own keywords win.
func (n *narrower) flatten(node schema, depth int) schema {
	flat := maps.Clone(node)
	if n.nodes++; n.nodes > maxNodes || n.bytes > maxBytes || depth > maxDepth {
		delete(flat, "$ref")
		delete(flat, "allOf")
		return flat
	}
	if ref := text(node["$ref"]); ref != "" {
		delete(flat, "$ref")
		if target, err := n.resolve(ref); err == nil {
			merge(flat, n.flatten(target, depth+1))
		}
	}
	for _, part := range nodes(node["allOf"]) {
		if n.nodes > maxNodes {
			break
		}
		merge(flat, n.flatten(part, depth+1))
	}
	delete(flat, "allOf")
	return flat
}

// merge adds the keywords of from that into lacks; properties and required are united.
func merge(into, from schema) {
	for key, value := range from {
		old, ok := into[key]
		switch {
		case !ok:
			into[key] = value
		case key == "properties":
			into[key] = union(old, value)
		case key == "required":
			all := names(old)
			for _, name := range names(value) {
				if !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
			into[key] = encoded(all)
		}
	}
}

// union returns an object with the members of a and those of b that a lacks.
func union(a, b jsonx.Value) jsonx.Value {
	var am, bm map[string]jsonx.Value
	if jsonx.Unmarshal(a, &am) != nil || jsonx.Unmarshal(b, &bm) != nil {
		return a
	}
	for name, v := range bm {
		if _, ok := am[name]; !ok {
			am[name] = v
		}
	}
	return encoded(am)
}

// resolve follows a reference inside of the schema; others are never fetched.
func (n *narrower) resolve(ref string) (schema, error) {
	if ref == "#" {
		return n.root, nil
	}
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, errors.New("not a reference inside of the schema")
	}
	node := n.root
	for part := range strings.SplitSeq(path, "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if n.bytes += len(node[part]); n.bytes > maxBytes {
			return nil, errors.New("the schema is too large to follow its references")
		}
		var next schema
		if err := jsonx.Unmarshal(node[part], &next); err != nil {
			return nil, err
		}
		node = next
	}
	return node, nil
}

// lost are the keywords that Ollama drops, in the order in which they are told.
var lost = []string{
	"format", "pattern", "default", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum",
	"multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties",
	"maxProperties", "required", "not", "if", "then", "else", "dependentRequired", "examples",
}

// constraints puts what Ollama drops of a node in words.
func constraints(node schema) []string {
	var notes []string
	for _, key := range lost {
		if v, ok := node[key]; ok && len(v) <= maxNote {
			notes = append(notes, key+": "+strings.Trim(string(v), `"`))
		}
	}
	if string(node["additionalProperties"]) == "false" {
		notes = append(notes, "no other properties")
	}
	return notes
}

// describe appends notes to a description.
func describe(description string, notes []string) string {
	if len(notes) == 0 {
		return description
	}
	return strings.TrimSpace(fmt.Sprintf("%s (%s)", description, strings.Join(notes, "; ")))
}

// The readers of single keywords return the zero value for what has another type: a
// schema that is a little wrong is still of use to the model.

func text(v jsonx.Value) string {
	var s string
	_ = jsonx.Unmarshal(v, &s)
	return s
}

func names(v jsonx.Value) []string {
	var list []string
	_ = jsonx.Unmarshal(v, &list)
	return list
}

func raws(v jsonx.Value) []jsonx.Value {
	var list []jsonx.Value
	_ = jsonx.Unmarshal(v, &list)
	return list
}

func nodes(v jsonx.Value) []schema {
	var list []schema
	for _, raw := range raws(v) {
		var node schema
		if jsonx.Unmarshal(raw, &node) == nil && node != nil {
			list = append(list, node)
		}
	}
	return list
}

func values(v jsonx.Value) []any {
	var list []any
	for _, raw := range raws(v) {
		list = append(list, json.RawMessage(raw)) // numbers keep their digits
	}
	return list
}

// encoded encodes names or members, which always can be.
func encoded(v any) jsonx.Value {
	data, err := jsonx.Marshal(v)
	if err != nil {
		return jsonx.Value("null")
	}
	return data
}
