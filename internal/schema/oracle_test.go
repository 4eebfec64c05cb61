package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/troupe-dev/troupe/internal/clip"
)

// oracle returns what santhosh-tekuri/jsonschema, an independent implementation, says of
// values. Only tests link it: it compiles the metaschemas when it is imported.
func oracle(t testing.TB, raw string) func(value string) error {
	t.Helper()
	s, err := oracleCompiles(raw)
	if err != nil {
		t.Fatalf("the library does not compile %s: %v", clip.Text(raw, 2000), err)
	}
	return func(value string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
		if err != nil {
			t.Fatalf("the library does not read %s: %v", value, err)
		}
		return s.Validate(v)
	}
}

func oracleCompiles(raw string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
	if err != nil {
		return nil, err
	}
	lib := jsonschema.NewCompiler()
	lib.UseLoader(noLoader{})
	lib.AssertFormat()
	const location = "urn:schema"
	if err := lib.AddResource(location, doc); err != nil {
		return nil, err
	}
	return lib.Compile(location)
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is outside of the schema", url)
}

// countedOf compiles so that every plan is one with more than the common keywords.
func countedOf(t testing.TB, raw string) *Schema {
	t.Helper()
	doc, err := check([]byte(raw))
	if err != nil {
		t.Fatalf("check(%s): %v", clip.Text(raw, 200), err)
	}
	p := planner{doc: doc, made: map[*node]*plan{}}
	s := &Schema{opts: (*Options)(nil).withDefaults(), plan: p.plan(doc.root), counted: true}
	for _, made := range p.made {
		if made.more == nil {
			p.more(made).all = refOf(made)
			made.ref = nil
		}
	}
	return s
}

func refOf(p *plan) []*plan {
	if p.ref == nil {
		return nil
	}
	return []*plan{p.ref}
}
