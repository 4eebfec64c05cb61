package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// ErrSkipped is the Err of what [Schema.Skipped] returns.
var ErrSkipped = errors.New("keyword is not checked")

// Options changes how a schema validates; nil is the same as the zero value.
// The limits on schemas themselves are fixed.
type Options struct {
	// MaxProblems bounds the problems one validation reports. Zero means 10.
	MaxProblems int
	// MaxWork bounds one validation by a schema that has more than the common
	// keywords: about one unit for each value and subschema that meet. Zero
	// means 250,000. What would take more does not validate.
	MaxWork int
	// Lenient takes a schema that is not quite valid: a keyword that cannot be
	// checked is left out, and the rest is checked. That is a pattern that RE2
	// does not know, an enum without values, and a value of the wrong form. Where
	// a constraint is left out, so are not, if, unevaluatedProperties,
	// unevaluatedItems and maxContains, and oneOf counts as anyOf: no value is
	// refused because a keyword is missing. References, dialects and sizes are
	// held to the same bounds as without it.
	Lenient bool
	// Sent is for values that go to another program, such as the arguments of a server's
	// tool, of which that program has the last word. It is Lenient, and leaves out as well
	// what that program may take another way: format, which asserts nothing in the dialects
	// unless both sides agree, and required of a property with a default.
	Sent bool
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.MaxProblems = cmp.Or(d.MaxProblems, 10)
	d.MaxWork = cmp.Or(d.MaxWork, 250_000)
	d.Lenient = d.Lenient || d.Sent
	return d
}

// Schema is a compiled schema.
type Schema struct {
	raw      json.RawMessage
	opts     Options
	defaults map[string]json.RawMessage
	skipped  []*Error
	plan     *plan
	counted  bool // the plan has more than the common keywords somewhere
}

// Compile checks a schema against the bounds of this package and prepares it.
// Every error is a [*Error].
func Compile(raw json.RawMessage, o *Options) (*Schema, error) {
	s := &Schema{raw: append(json.RawMessage(nil), raw...), opts: o.withDefaults()}
	doc, err := s.check()
	if err != nil {
		return nil, err
	}
	s.defaults = defaults(s.raw)
	p := planner{doc: doc, made: map[*node]*plan{}}
	s.plan, s.counted = p.plan(doc.root), p.counted
	return s, nil
}

func (s *Schema) check() (*document, error) {
	if !s.opts.Lenient {
		return check(s.raw)
	}
	c, err := checkLenient(s.raw, s.opts.Sent)
	if err != nil {
		return nil, err
	}
	s.skipped = c.skipped
	return &c.document, nil
}

// Skipped returns what a lenient Compile has left out, at most 20 keywords, each
// with its place and reason. It must not be changed.
func (s *Schema) Skipped() []*Error { return s.skipped }

// Raw returns the schema as it was given to Compile. It must not be changed.
func (s *Schema) Raw() json.RawMessage { return s.raw }

// Defaults returns the default of each top-level property that has one, as raw
// JSON. They are not validated. The map must not be changed.
func (s *Schema) Defaults() map[string]json.RawMessage { return s.defaults }

// Validate checks one JSON value. The text should have been decoded strictly
// before (it is refused, not trusted, where it turns out malformed). The error
// is a [*ValidationError] whose text tells a model what to mend.
func (s *Schema) Validate(instance []byte) error {
	if s.counted {
		if reason := measure(instance); reason != "" {
			return unchecked(reason)
		}
	}
	quick := s.walk(instance, true)
	if quick.run(s.plan) {
		return nil
	}
	return s.explain(instance)
}

func (s *Schema) walk(instance []byte, quick bool) walker {
	w := walker{data: instance, quick: quick, allowance: allowance{steps: maxPatternSteps, left: math.MaxInt}, refused: stop}
	if s.counted {
		w.left = s.opts.MaxWork
	}
	return w
}

// explain lists the problems of a value that the quick pass refused.
func (s *Schema) explain(instance []byte) error {
	w := s.walk(instance, false)
	w.max = s.opts.MaxProblems
	w.run(s.plan)
	switch {
	case w.left < 0 && len(w.problems) > 0:
		w.more = true
	case w.broken != "":
		return unchecked(w.broken)
	}
	if s.counted { // what is wrong with a value comes before what is with its parts
		slices.SortStableFunc(w.problems, func(a, b Problem) int { return strings.Compare(a.Path, b.Path) })
	}
	return &ValidationError{Problems: w.problems, More: w.more}
}

// defaults reads properties.*.default of a schema that is known to be valid JSON.
func defaults(raw json.RawMessage) map[string]json.RawMessage {
	var root struct {
		Properties map[string]jsonx.Value `json:"properties"`
	}
	if jsonx.Unmarshal(raw, &root) != nil {
		return nil // true, false, or properties that Compile refuses
	}
	var found map[string]json.RawMessage
	for name, property := range root.Properties {
		var p struct {
			Default jsonx.Value `json:"default"`
		}
		if jsonx.Unmarshal(property, &p) != nil || len(p.Default) == 0 {
			continue
		}
		if found == nil {
			found = make(map[string]json.RawMessage)
		}
		found[name] = json.RawMessage(p.Default)
	}
	return found
}
