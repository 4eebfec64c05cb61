package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-dev/troupe/internal/clip"
)

const (
	location = "urn:schema" // what the schema is called inside the library

	maxInstanceDepth  = 256
	maxInstanceValues = 100_000
	maxPatternSteps   = 16 << 20 // bytes of text times size of pattern, for one validation
)

// general validates with the library. It takes neither a context nor a bound,
// and a schema of a kilobyte can keep it busy for hours; so work is counted
// where the library lets us in, which is format: every subschema gets a format
// of our own that is checked before anything below it. Once the budget is
// spent that check fails at once, everywhere, and the library winds up.
type general struct {
	work int
	pool sync.Pool // of *counted: a budget belongs to one validation at a time
}

// counted is one compiled copy of a schema and the budget its formats share.
type counted struct {
	schema *jsonschema.Schema
	left   int // units of work
	steps  int // of patterns
}

var errBudget = errors.New("budget is spent")

// compileGeneral compiles a checked document, which it changes.
func compileGeneral(doc *document, work int) (*general, error) {
	weights := map[string]weight{}
	for _, n := range doc.nodes {
		prepare(doc, n, weights)
	}
	g := &general{work: work}
	root := any(doc.root.bool)
	if doc.root.object != nil {
		root = doc.root.object
	}
	first, err := compileCounted(root, doc.dialect, weights)
	if err != nil {
		return nil, fault(ErrMalformed, "", "%s", libraryText(err))
	}
	g.pool.New = func() any {
		again, err := compileCounted(root, doc.dialect, weights)
		if err != nil {
			return &counted{} // it compiled before; validate refuses a copy without schema
		}
		return again
	}
	g.pool.Put(first)
	return g, nil
}

// weight is what one evaluation of a subschema costs: a fixed part, and one for
// each member or item of the value.
type weight struct {
	fixed, each int
	unique      bool // items are compared with each other
}

// prepare gives a subschema its counting format and makes its references local.
func prepare(doc *document, n *node, weights map[string]weight) {
	o := n.object
	if len(o) == 0 {
		return
	}
	if doc.id != "" {
		for _, key := range []string{"$ref", "$dynamicRef"} {
			if ref, ok := o[key].(string); ok && ref[0] != '#' {
				o[key] = "#" + ref[min(len(ref), len(doc.id)+1):]
			}
		}
		if n == doc.root && o["$id"].(string)[0] != '#' {
			delete(o, "$id")
		}
	}
	if _, ok := o["$ref"]; ok && doc.dialect == draft7 {
		return // the rest does not count; its target does
	}
	w := weigh(o, n)
	name := fmt.Sprintf("x-count-%d-%d-%t", w.fixed, w.each, w.unique)
	weights[name] = w
	if f, ok := o["format"]; ok {
		all, _ := o["allOf"].([]any)
		o["allOf"] = append(slices.Clone(all), map[string]any{"format": f})
	}
	o["format"] = name
}

func weigh(o map[string]any, n *node) weight {
	w := weight{fixed: 1 + len(n.same), each: 1}
	for _, key := range []string{"enum", "required"} {
		list, _ := o[key].([]any)
		w.fixed += len(list) / 4
	}
	for _, key := range []string{"dependentRequired", "dependencies"} {
		m, _ := o[key].(map[string]any)
		w.fixed += len(m)
	}
	m, _ := o["patternProperties"].(map[string]any)
	w.each += len(m)
	for _, key := range []string{"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"} {
		if _, ok := o[key]; ok {
			w.each++
		}
	}
	w.unique, _ = o["uniqueItems"].(bool)
	return w
}

func compileCounted(root any, dialect string, weights map[string]weight) (*counted, error) {
	c := new(counted)
	lib := jsonschema.NewCompiler()
	lib.UseLoader(noLoader{})
	lib.AssertFormat()
	lib.DefaultDraft(map[string]*jsonschema.Draft{
		draft2020: jsonschema.Draft2020, draft2019: jsonschema.Draft2019, draft7: jsonschema.Draft7,
	}[dialect])
	lib.UseRegexpEngine(c.compilePattern)
	for name, w := range weights {
		lib.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error { return c.spend(w, v) }})
	}
	if err := lib.AddResource(location, root); err != nil {
		return nil, err
	}
	c.left, c.steps = 100*maxSubschemas, maxPatternSteps // the library validates the schema itself with our patterns
	var err error
	c.schema, err = lib.Compile(location)
	return c, err
}

// noLoader refuses everything: a schema never reads a file or a page (JSCH-02).
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// spend charges one evaluation of v.
func (c *counted) spend(w weight, v any) error {
	c.left -= w.fixed
	switch v := v.(type) {
	case map[string]any:
		c.left -= w.each * len(v)
	case []any:
		c.left -= w.each * len(v)
		if w.unique && !allScalar(v) {
			c.left -= len(v) * len(v) / 16 // values can be made so that their hashes collide
		}
	case string:
		c.left -= len(v) / 64
	case json.Number:
		c.left -= numberCost(string(v))
	}
	if c.left < 0 {
		return errBudget
	}
	return nil
}

func allScalar(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	})
}

// countedPattern is a pattern that stops matching when too much has been matched.
type countedPattern struct {
	*regexp.Regexp
	size   int
	budget *counted
}

func (c *counted) compilePattern(s string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, err
	}
	return &countedPattern{re, patternSize(s), c}, nil
}

func (p *countedPattern) MatchString(s string) bool {
	if p.budget.steps -= p.size * (1 + len(s)); p.budget.steps < 0 {
		p.budget.left = -1
		return false
	}
	return p.Regexp.MatchString(s)
}

func (g *general) validate(instance []byte, maxProblems int) error {
	v, err := decode(instance, maxInstanceDepth, maxInstanceValues)
	if err != nil {
		return oneProblem("the value %v", err)
	}
	c, _ := g.pool.Get().(*counted)
	defer g.pool.Put(c)
	if c.schema == nil {
		return oneProblem("the value cannot be checked")
	}
	c.left, c.steps = g.work, maxPatternSteps
	err = c.schema.Validate(v)
	if c.left < 0 {
		return oneProblem("the value is too large or the schema too complex to be checked")
	}
	if err == nil {
		return nil
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return oneProblem("the value cannot be checked: %v", err)
	}
	r := report{max: maxProblems}
	r.collect(failed)
	return r.err()
}

// libraryText is the reason in an error of the library's compiler, without names of our own.
func libraryText(err error) string {
	invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return clip.Text(err.Error(), 500)
	}
	failed, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err)
	if !ok {
		return clip.Text(invalid.Err.Error(), 500)
	}
	r := report{max: 3}
	r.collect(failed)
	return r.err().Error()
}
