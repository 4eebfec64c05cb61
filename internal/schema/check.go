package schema

import (
	"errors"
	"fmt"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
)

// Bounds of a schema (security: hostile schemas). They are far beyond what
// tools use and small enough that checking and compiling take milliseconds.
const (
	maxSchemaBytes  = 256 << 10
	maxSchemaDepth  = 64      // of the JSON text
	maxSubschemas   = 5_000   // places where a schema stands
	maxSchemaValues = 100_000 // JSON values, enums included
	maxPaths        = 100_000 // ways through subschemas and references for one value
	maxChain        = 128     // the longest of them
	maxPatternSize  = 5_000   // instructions of one compiled pattern
	maxPatternsSize = 50_000  // of all patterns of a schema
)

// Bounds of a value.
const (
	maxInstanceDepth  = 256
	maxInstanceValues = 100_000
	maxPatternSteps   = 16 << 20 // bytes of text times size of pattern, for one pass
)

// Dialects by their $schema, without a trailing "#" and the scheme.
const (
	draft2020 = "json-schema.org/draft/2020-12/schema"
	draft2019 = "json-schema.org/draft/2019-09/schema"
	draft7    = "json-schema.org/draft-07/schema"
)

// document is a schema that has passed the checks. Its nodes are the places
// where a subschema stands: by keyword, or because a reference leads there.
type document struct {
	root    *node
	nodes   []*node
	dialect string
	id      string // $id of the root, "" if none
}

// node is one subschema.
type node struct {
	ptr    string         // JSON pointer
	object map[string]any // nil for true and false
	bool   bool
	refs   []*node          // what $ref and the like lead to
	same   []*node          // apply to the same value: allOf, if, $ref …
	child  map[string]*node // of keywords with one subschema, properties included: by pointer below this node

	state int // of the walk: 0 not seen, 1 under way, 2 done
	paths int // ways from here for one value
	chain int // length of the longest
}

// checker builds a document. steps counts the work, for tests.
type checker struct {
	document
	value    any
	byPtr    map[string]*node
	anchors  map[string]*node
	patterns int
	steps    int

	lenient bool            // leave out what cannot be checked
	sent    bool            // likewise, and what another program may take another way
	weakens bool            // a constraint was left out
	weak    bool            // leave out too what would refuse more without it
	skipped []*Error        // the first of what was left out
	dropped map[string]bool // all of it, by pointer
}

// check decodes a schema and holds it against every bound.
func check(raw []byte) (*document, error) {
	c := &checker{}
	if err := c.run(raw); err != nil {
		return nil, err
	}
	return &c.document, nil
}

// checkLenient is check for a schema that may lose what cannot be checked.
func checkLenient(raw []byte, sent bool) (*checker, error) {
	c := &checker{lenient: true, sent: sent, dropped: map[string]bool{}}
	if err := c.run(raw); err != nil {
		return nil, err
	}
	if c.weakens {
		c.weak = true
		if err := c.walk(); err != nil { // of what the first walk has left
			return nil, err
		}
	}
	return c, nil
}

func (c *checker) run(raw []byte) error {
	if len(raw) > maxSchemaBytes {
		return fault(ErrTooLarge, "", "it has %d bytes, more than %d", len(raw), maxSchemaBytes)
	}
	v, err := decode(raw, maxSchemaDepth, maxSchemaValues)
	switch {
	case errors.Is(err, errDepth) || errors.Is(err, errValues) || errors.Is(err, errNumber):
		return fault(ErrTooLarge, "", "it %v", err)
	case err != nil:
		return fault(ErrMalformed, "", "it %v", err)
	}
	c.value = v
	return c.walk()
}

// walk makes the nodes of the decoded schema.
func (c *checker) walk() error {
	c.document, c.patterns = document{}, 0
	c.byPtr, c.anchors = map[string]*node{}, map[string]*node{}
	err := c.readDialect()
	if err != nil {
		return err
	}
	if c.root, err = c.visit("", c.value); err != nil {
		return err
	}
	if c.root == nil {
		return fault(ErrMalformed, "", "it must be an object, true or false")
	}
	for i := 0; i < len(c.nodes); i++ { // grows: a reference may lead to a new place
		if err := c.resolve(c.nodes[i]); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := c.count(n); err != nil {
			return err
		}
	}
	return nil
}

func fault(kind error, ptr, format string, args ...any) *Error {
	return &Error{Pointer: clip.Text(ptr, 200), Reason: fmt.Sprintf(format, args...), Err: kind}
}

// readDialect looks at $schema and $id of the root (JSCH-01).
func (c *checker) readDialect() error {
	c.dialect = draft2020
	root, ok := c.value.(map[string]any)
	if !ok {
		return nil
	}
	c.id, _ = root["$id"].(string)
	c.id = strings.TrimSuffix(c.id, "#")
	v, ok := root["$schema"]
	if !ok {
		return nil
	}
	s, _ := v.(string)
	d, ok := dialectOf(s)
	if !ok {
		return fault(ErrDialect, "/$schema", "%q; known are 2020-12, 2019-09 and draft-07", clip.Text(s, 200))
	}
	c.dialect = d
	return nil
}

func dialectOf(uri string) (string, bool) {
	name, ok := strings.CutPrefix(uri, "https://")
	if !ok {
		name, ok = strings.CutPrefix(uri, "http://")
	}
	name = strings.TrimSuffix(name, "#")
	return name, ok && (name == draft2020 || name == draft2019 || name == draft7)
}

// Keywords that hold subschemas, and whether these apply to the same value.
var (
	oneSchema  = map[string]bool{"not": true, "if": true, "then": true, "else": true, "items": false, "additionalProperties": false, "additionalItems": false, "contains": false, "propertyNames": false, "unevaluatedItems": false, "unevaluatedProperties": false, "contentSchema": false}
	schemaList = map[string]bool{"allOf": true, "anyOf": true, "oneOf": true, "prefixItems": false, "items": false}
	schemaMap  = map[string]bool{"properties": false, "patternProperties": false, "$defs": false, "definitions": false, "dependentSchemas": true, "dependencies": true}
	notSchemas = []string{"enum", "const", "default", "examples"} // data that may look like schemas
)

// sortedNames are the names of an object, so that of several faults always the same is found.
func sortedNames(object map[string]any) []string {
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// visit makes a node of the schema at ptr, and of all within. It returns nil
// for what cannot be a schema; the dialect's own check complains about that.
func (c *checker) visit(ptr string, v any) (*node, error) {
	c.steps++
	n := &node{ptr: ptr, child: map[string]*node{}}
	switch v := v.(type) {
	case bool:
		n.bool = v
	case map[string]any:
		n.object = v
	default:
		return nil, nil
	}
	if c.byPtr[ptr] != nil {
		return c.byPtr[ptr], nil
	}
	c.byPtr[ptr] = n
	c.nodes = append(c.nodes, n)
	if len(c.nodes) > maxSubschemas {
		return nil, fault(ErrTooLarge, ptr, "more than %d subschemas", maxSubschemas)
	}
	if c.lenient {
		if err := c.mend(n); err != nil {
			return nil, err
		}
	}
	keys := sortedNames(n.object)
	if !c.lenient {
		if err := c.wellFormed(n, keys); err != nil {
			return nil, err
		}
	}
	if err := c.visitNames(n); err != nil {
		return nil, err
	}
	for _, key := range keys {
		if err := c.visitKeyword(n, key, n.object[key]); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (c *checker) visitKeyword(n *node, key string, v any) error {
	if !c.lenient && !c.knows(key) {
		return nil // what refers to it visits it
	}
	add := func(name string, v any, same bool) error {
		sub, err := c.visit(n.ptr+name, v)
		if err != nil || sub == nil {
			return err
		}
		n.child[name] = sub
		if same {
			n.same = append(n.same, sub)
		}
		return nil
	}
	if list, ok := v.([]any); ok {
		same, known := schemaList[key]
		for i, v := range list {
			if !known {
				break
			}
			if err := add("/"+key+"/"+strconv.Itoa(i), v, same); err != nil {
				return err
			}
		}
		return nil
	}
	if same, known := oneSchema[key]; known {
		return add("/"+key, v, same)
	}
	same, known := schemaMap[key]
	members, _ := v.(map[string]any)
	for _, name := range sortedNames(members) {
		if !known {
			break
		}
		if key == "patternProperties" {
			if err := c.pattern(n.ptr+"/"+key, name); err != nil {
				return err
			}
		}
		if err := add(appendToken("/"+key, name), members[name], same); err != nil {
			return err
		}
	}
	return nil
}

// visitNames looks at what a subschema says of itself: anchors, ids, patterns.
func (c *checker) visitNames(n *node) error {
	if s, ok := n.object["pattern"].(string); ok {
		if err := c.pattern(n.ptr+"/pattern", s); err != nil {
			return err
		}
	}
	anchors := []string{"$anchor", "$dynamicAnchor"}
	if c.dialect == draft7 {
		anchors = nil
		if n.object["$ref"] != nil {
			return nil // what stands beside a $ref does not count
		}
	}
	if id, ok := n.object["$id"].(string); ok {
		switch name, anchor := strings.CutPrefix(id, "#"); {
		case anchor && c.dialect == draft7:
			c.anchors[name] = n
		case n.ptr != "":
			return fault(ErrReference, n.ptr+"/$id", "a schema embedded under its own $id is not supported")
		}
	}
	for _, key := range anchors {
		if name, ok := n.object[key].(string); ok {
			c.anchors[name] = n
		}
	}
	if s, ok := n.object["$schema"].(string); ok && n.ptr != "" {
		if d, _ := dialectOf(s); d != c.dialect {
			return fault(ErrDialect, n.ptr+"/$schema", "a part of a schema cannot have another dialect")
		}
	}
	return nil
}

// pattern holds a pattern against RE2 and against its size: one of a few bytes
// may compile to thousands of instructions.
func (c *checker) pattern(ptr, pattern string) error {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fault(ErrPattern, ptr, "%q: %v (patterns are RE2: no look-around, no back-references)", clip.Text(pattern, 200), err)
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return fault(ErrPattern, ptr, "%q: %v", clip.Text(pattern, 200), err)
	}
	c.patterns += len(prog.Inst)
	if len(prog.Inst) > maxPatternSize || c.patterns > maxPatternsSize {
		return fault(ErrTooLarge, ptr, "%q is too large a pattern, or there are too many", clip.Text(pattern, 200))
	}
	return nil
}

// references are the keywords that lead to a schema. The dynamic ones lead to one place
// here, for no schema within has an $id of its own.
var references = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// resolve follows the references of a node.
func (c *checker) resolve(n *node) error {
	for _, key := range references {
		v, ok := n.object[key]
		if !ok || !c.knows(key) {
			continue
		}
		ref, ok := v.(string)
		if !ok {
			return fault(ErrMalformed, n.ptr+"/"+key, "a reference must be a string")
		}
		target, err := c.follow(n.ptr+"/"+key, ref)
		if err != nil {
			return err
		}
		n.same = append(n.same, target)
		n.refs = append(n.refs, target)
	}
	return nil
}

// follow returns the node a reference leads to; it never leaves the document (JSCH-02).
func (c *checker) follow(at, ref string) (*node, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local && c.id != "" {
		fragment, local = strings.CutPrefix(ref, c.id)
		local = local && (fragment == "" || fragment[0] == '#')
		fragment = strings.TrimPrefix(fragment, "#")
	}
	if !local {
		return nil, fault(ErrReference, at, "%q leads out of the schema, and nothing is ever fetched", clip.Text(ref, 200))
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, fault(ErrReference, at, "%q: %v", clip.Text(ref, 200), err)
	}
	if fragment != "" && fragment[0] != '/' {
		if n := c.anchors[fragment]; n != nil {
			return n, nil
		}
		return nil, fault(ErrReference, at, "there is no anchor %q", clip.Text(fragment, 200))
	}
	if n := c.byPtr[fragment]; n != nil {
		return n, nil
	}
	v, err := c.lookup(fragment)
	if err != nil {
		return nil, fault(ErrReference, at, "%q: %v", clip.Text(ref, 200), err)
	}
	n, err := c.visit(fragment, v)
	if err == nil && n == nil {
		return nil, fault(ErrReference, at, "%q is not a schema", clip.Text(ref, 200))
	}
	return n, err
}

// lookup finds what a JSON pointer points at, unless it is data.
func (c *checker) lookup(ptr string) (any, error) {
	v, inSchema := c.value, true
	prefix := ""
	for token := range strings.SplitSeq(ptr[1:], "/") {
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if inSchema && slices.Contains(notSchemas, name) {
			return nil, fmt.Errorf("%s/%s is data, not a schema", prefix, name)
		}
		c.steps++
		switch parent := v.(type) {
		case map[string]any:
			v = parent[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(parent) {
				return nil, errors.New("there is nothing")
			}
			v = parent[i]
		default:
			return nil, errors.New("there is nothing")
		}
		if v == nil {
			return nil, errors.New("there is nothing")
		}
		prefix = appendToken(prefix, name)
		inSchema = c.byPtr[prefix] != nil
	}
	return v, nil
}

// count finds how many ways lead through the subschemas that apply to one and
// the same value, each node once: 20 lines of allOf can make a million ways. A
// cycle among them would never end (a cycle through properties or items ends
// with the value).
func (c *checker) count(n *node) error {
	c.steps++
	switch n.state {
	case 1:
		return fault(ErrReference, n.ptr, "the schema refers to itself without going into a property or an item")
	case 2:
		return nil
	}
	n.state, n.paths, n.chain = 1, 1, 1
	for _, sub := range n.same {
		if err := c.count(sub); err != nil {
			return err
		}
		n.paths += sub.paths
		n.chain = max(n.chain, 1+sub.chain)
		if n.paths > maxPaths {
			return fault(ErrTooLarge, n.ptr, "more than %d ways to evaluate one value", maxPaths)
		}
		if n.chain > maxChain {
			return fault(ErrTooLarge, n.ptr, "more than %d subschemas in a row for one value", maxChain)
		}
	}
	n.state = 2
	return nil
}
