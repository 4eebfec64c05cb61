package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/clip"
)

// Problem is one way in which a value breaks its schema.
type Problem struct {
	Path    string // JSON pointer to the value; empty is the whole
	Message string // such as: must be integer, is string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// ValidationError lists what is wrong with a value.
type ValidationError struct {
	Problems []Problem // at least one, at most Options.MaxProblems
	More     bool      // there are others
	// Unchecked says that nothing is wrong as far as the value was looked at, and that it
	// is malformed or beyond a bound of the check.
	Unchecked bool
}

// Error is written for the author of the value, a model or a person.
func (e *ValidationError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.String())
	}
	if e.More {
		b.WriteString("; and more")
	}
	return b.String()
}

// unchecked is the error of a value whose check had to end.
func unchecked(reason string) *ValidationError {
	return &ValidationError{Problems: []Problem{{Message: reason}}, Unchecked: true}
}

const (
	maxShown = 60 // bytes of a value that are quoted in a message
	maxNames = 20 // names that are listed in a message
)

// list joins what is allowed, up to maxNames.
func list(items []string) string {
	rest := ""
	if len(items) > maxNames {
		rest = fmt.Sprintf(", and %d more", len(items)-maxNames)
		items = items[:maxNames]
	}
	short := make([]string, len(items))
	for i, s := range items {
		short[i] = clip.Text(s, maxShown)
	}
	return strings.Join(short, ", ") + rest
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

// appendToken appends one step of a JSON pointer (RFC 6901).
func appendToken(ptr, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return ptr + "/" + token
}

// Texts of problems.
func msgType(want []string, got string) string {
	return "must be " + strings.Join(want, " or ") + ", is " + got
}

func msgMissing(name string) string {
	return fmt.Sprintf("missing property %q", clip.Text(name, maxShown))
}

func msgUnknown(name string, allowed []string) string {
	if len(allowed) == 0 {
		return fmt.Sprintf("unknown property %q; none is allowed", clip.Text(name, maxShown))
	}
	return fmt.Sprintf("unknown property %q; allowed: %s", clip.Text(name, maxShown), list(allowed))
}

func msgEnum(allowed []string) string {
	if len(allowed) == 1 {
		return "must be " + list(allowed)
	}
	return "must be one of " + list(allowed)
}

func msgCount(of, bound string, want, got int) string {
	return fmt.Sprintf("must have %s %d %s, has %d", bound, want, of, got)
}

func msgPattern(pattern string) string {
	return "must match the pattern " + clip.Text(pattern, 200)
}

// Why a schema was refused. Compile's errors are a [*Error] around one of these.
var (
	ErrMalformed = errors.New("not a valid schema")
	ErrTooLarge  = errors.New("schema exceeds a limit")
	ErrReference = errors.New("reference cannot be followed")
	ErrDialect   = errors.New("unsupported JSON Schema dialect")
	ErrPattern   = errors.New("pattern cannot be checked")
)

// Error says what is wrong with a schema, and where.
type Error struct {
	Pointer string // JSON pointer into the schema; empty is its root
	Reason  string
	Err     error // one of the Err values of this package
}

func (e *Error) Error() string {
	at := ""
	if e.Pointer != "" {
		at = " at " + e.Pointer
	}
	return e.Err.Error() + at + ": " + e.Reason
}

func (e *Error) Unwrap() error { return e.Err }
