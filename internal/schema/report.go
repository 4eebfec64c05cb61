package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/troupe-dev/troupe/internal/clip"
)

// report turns the library's tree of errors into problems with our wording.
type report struct {
	max      int
	problems []Problem
	more     bool
}

func (r *report) err() *ValidationError { return &ValidationError{r.problems, r.more} }

func (r *report) add(at []string, format string, args ...any) {
	if len(r.problems) >= r.max {
		r.more = true
		return
	}
	p := Problem{Path: pointer(at), Message: fmt.Sprintf(format, args...)}
	if !slices.Contains(r.problems, p) {
		r.problems = append(r.problems, p)
	}
}

// collect goes down to what is really wrong. Alternatives are one problem.
func (r *report) collect(e *jsonschema.ValidationError) {
	if r.more {
		return
	}
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		r.add(at, "matches none of the allowed forms: %s", alternatives(e))
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			r.add(at, "matches more than one of the forms of which exactly one is allowed")
			return
		}
		r.add(at, "matches none of the allowed forms: %s", alternatives(e))
	case *kind.Required:
		for _, name := range k.Missing {
			r.add(at, "%s", msgMissing(name))
		}
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		for _, name := range k.Properties {
			r.add(at, "unknown property %q", clip.Text(name, maxShown))
		}
	case *kind.PropertyNames:
		r.add(at, "property name %q is not allowed", clip.Text(k.Property, maxShown))
	case *kind.Contains, *kind.MinContains:
		r.add(at, "%s", libraryMessage(e.ErrorKind))
	default:
		if len(e.Causes) == 0 {
			r.add(at, "%s", text(e.ErrorKind))
			return
		}
		causes := slices.Clone(e.Causes)
		slices.SortStableFunc(causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(pointer(a.InstanceLocation), pointer(b.InstanceLocation))
		})
		for _, c := range causes {
			r.collect(c)
		}
	}
}

// alternatives says in short why each alternative does not fit.
func alternatives(e *jsonschema.ValidationError) string {
	var reasons []string
	for _, c := range e.Causes {
		r := report{max: 2}
		r.collect(c)
		for i, p := range r.problems {
			r.problems[i].Path = strings.TrimPrefix(p.Path, pointer(e.InstanceLocation))
		}
		if s := r.err().Error(); !slices.Contains(reasons, s) {
			reasons = append(reasons, s)
		}
		if len(reasons) == 5 {
			break
		}
	}
	return clip.Text(strings.Join(reasons, " | "), 500)
}

func text(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return msgType(k.Want, k.Got)
	case *kind.Enum:
		return msgEnum(literals(k.Want))
	case *kind.Const:
		return msgEnum(literals([]any{k.Want}))
	case *kind.Format:
		return "must be a valid " + k.Want
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Pattern:
		return msgPattern(k.Want)
	case *kind.MinLength:
		return msgCount("characters", "at least", k.Want, k.Got)
	case *kind.MaxLength:
		return msgCount("characters", "at most", k.Want, k.Got)
	case *kind.MinItems:
		return msgCount("items", "at least", k.Want, k.Got)
	case *kind.MaxItems:
		return msgCount("items", "at most", k.Want, k.Got)
	case *kind.MinProperties:
		return msgCount("properties", "at least", k.Want, k.Got)
	case *kind.MaxProperties:
		return msgCount("properties", "at most", k.Want, k.Got)
	case *kind.Minimum:
		return "must be at least " + rational(k.Want)
	case *kind.Maximum:
		return "must be at most " + rational(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + rational(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + rational(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + rational(k.Want)
	case *kind.Not:
		return "has a form that is not allowed"
	case *kind.UniqueItems:
		return fmt.Sprintf("must have no equal items, but %d and %d are", k.Duplicates[0], k.Duplicates[1])
	}
	return libraryMessage(k)
}

func libraryMessage(k jsonschema.ErrorKind) string {
	return clip.Text(k.LocalizedString(message.NewPrinter(language.English)), 300)
}

// literals are values as JSON, for a message.
func literals(values []any) []string {
	all := make([]string, 0, len(values))
	for _, v := range values {
		var b strings.Builder
		e := json.NewEncoder(&b) // jsonx would write a json.Number as a string
		e.SetEscapeHTML(false)
		if e.Encode(v) != nil {
			fmt.Fprint(&b, v)
		}
		all = append(all, strings.TrimSuffix(b.String(), "\n"))
	}
	return all
}

// rational writes a bound as a plain number.
func rational(n *big.Rat) string {
	if n.IsInt() {
		return clip.Text(n.Num().String(), maxShown)
	}
	f, _ := n.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// pointer makes a JSON pointer of the steps the library reports.
func pointer(tokens []string) string {
	p := ""
	for _, t := range tokens {
		p = appendToken(p, t)
	}
	return p
}
