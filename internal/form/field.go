package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/schema"
)

// Kind is what a field takes.
type Kind uint8

// The kinds of fields.
const (
	String  Kind = iota + 1
	Number       // any JSON number
	Integer      // a number without fraction
	Boolean
	Choice  // one of the options
	Choices // any of the options
)

// String returns the kind in words, such as "whole number".
func (k Kind) String() string {
	switch k {
	case String:
		return "text"
	case Number:
		return "number"
	case Integer:
		return "whole number"
	case Boolean:
		return "yes or no"
	case Choice:
		return "one of the options"
	case Choices:
		return "any of the options"
	}
	return "unknown"
}

func (k Kind) jsonType() string {
	switch k {
	case Number:
		return "number"
	case Integer:
		return "integer"
	case Boolean:
		return "boolean"
	case Choices:
		return "array"
	}
	return "string"
}

// typed reports kinds whose value the person writes, so that it may be a secret.
func (k Kind) typed() bool { return k == String || k == Number || k == Integer }

// Option is one value of a choice.
type Option struct {
	Value string // what is sent
	Title string // what is shown; the value if the server gave none
}

// Field is one field of a form.
type Field struct {
	Name        string // what the server calls it
	Title       string // "" if there is none
	Description string // "" if there is none
	Kind        Kind
	Format      string // of a String: "", "email", "uri", "date" or "date-time"
	Pattern     string // of a String: a regular expression that matches somewhere in it, or ""
	MinLength   int    // of a String, in code points
	MaxLength   int    // -1 means no bound
	Min, Max    string // of a number, as the server wrote them; "" means no bound
	Options     []Option
	MinItems    int
	MaxItems    int             // of Choices; -1 means no bound
	Default     json.RawMessage // a valid value, or nil
	Required    bool
	Secret      bool // it seems to ask for a secret, which forms must not (ELIC-11): warn (SECA-31)

	schema *schema.Schema
}

// Label returns the title, or else the name.
func (f *Field) Label() string {
	if strings.TrimSpace(f.Title) != "" {
		return f.Title
	}
	return f.Name
}

func (f *Field) values() []string {
	values := make([]string, len(f.Options))
	for i, o := range f.Options {
		values[i] = o.Value
	}
	return values
}

// Check holds one value against the field. The error says what the value must be.
func (f *Field) Check(raw json.RawMessage) error {
	if len(raw) > maxAnswer {
		return fmt.Errorf("is longer than %d bytes", maxAnswer)
	}
	if !jsonx.Valid(raw) {
		return errors.New("is not valid JSON")
	}
	raw = trimSpace(raw)
	if err := f.schema.Validate(raw); err != nil {
		return err
	}
	if check := formats[f.Format]; check != nil {
		s, _ := jsonx.Text(raw)
		return check(s)
	}
	return nil
}

func trimSpace(raw json.RawMessage) json.RawMessage {
	return bytes.Trim(raw, " \t\r\n")
}

// formats are those that forms have (ELIC-07).
var formats = map[string]func(string) error{
	"email": func(s string) error {
		a, err := mail.ParseAddress(s)
		if err != nil || a.Address != s || a.Name != "" {
			return errors.New("must be an e-mail address, such as name@example.com")
		}
		return nil
	},
	"uri": func(s string) error {
		u, err := url.Parse(s)
		if err != nil || !u.IsAbs() || u.Host == "" && u.Opaque == "" && u.Path == "" || strings.ContainsFunc(s, notInURI) {
			return errors.New("must be a URI with its scheme, such as https://example.com/")
		}
		return nil
	},
	"date": func(s string) error {
		if _, err := time.Parse(time.DateOnly, s); err != nil {
			return errors.New("must be a date as YYYY-MM-DD, such as 2026-07-28")
		}
		return nil
	},
	"date-time": func(s string) error {
		if _, err := time.Parse(time.RFC3339, strings.ToUpper(s)); err != nil || strings.Contains(s, ",") {
			return errors.New("must be a date and time with its offset, such as 2026-07-28T09:30:00Z")
		}
		return nil
	},
}

// notInURI reports what RFC 3986 has no place for.
func notInURI(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) }

// Parse reads what a person wrote in one line. Blank is the default or, without
// one, no value: nil. Numbers are written as in JSON or with a plus sign; yes and
// no have their usual words; options are said by their number from 1, their value
// or their title, several with commas between. The error says what to write.
func (f *Field) Parse(line string) (json.RawMessage, error) {
	line = strings.TrimRight(line, "\r\n")
	if strings.TrimSpace(line) == "" {
		if f.Default == nil && f.Required {
			return nil, errors.New("is required")
		}
		return f.Default, nil
	}
	raw, err := f.read(line)
	if err != nil {
		return nil, err
	}
	if err := f.Check(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

func (f *Field) read(line string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(line)
	switch f.Kind {
	case Number, Integer:
		number := json.RawMessage(strings.TrimPrefix(trimmed, "+"))
		if c := number; len(c) == 0 || c[0] != '-' && (c[0] < '0' || c[0] > '9') || !jsonx.Valid(c) {
			return nil, fmt.Errorf("must be a %s, such as %s", f.Kind, f.exampleNumber())
		}
		return number, nil
	case Boolean:
		switch strings.ToLower(trimmed) {
		case "y", "yes", "true", "on", "1":
			return json.RawMessage("true"), nil
		case "n", "no", "false", "off", "0":
			return json.RawMessage("false"), nil
		}
		return nil, errors.New("must be yes or no")
	case Choice:
		value, err := f.option(trimmed)
		if err != nil {
			return nil, err
		}
		return jsonx.AppendQuote(nil, value), nil
	case Choices:
		return f.several(trimmed)
	}
	if f.Format != "" {
		line = trimmed
	}
	if !jsonx.Valid(jsonx.AppendQuote(nil, line)) || strings.ToValidUTF8(line, "") != line {
		return nil, errors.New("is not valid text")
	}
	return jsonx.AppendQuote(nil, line), nil
}

func (f *Field) exampleNumber() string {
	if f.Kind == Number {
		return "3.5"
	}
	return "3"
}

// several reads options with commas between. One whose value or title has a comma
// is meant by the whole line, or by its number.
func (f *Field) several(line string) (json.RawMessage, error) {
	chosen := []string{}
	if value, err := f.option(line); err == nil {
		chosen = append(chosen, value)
	} else {
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			value, err := f.option(part)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(chosen, value) {
				chosen = append(chosen, value)
			}
		}
	}
	return jsonx.Marshal(chosen)
}

// option finds the option that is meant: a value first, then a title, then a number.
func (f *Field) option(said string) (string, error) {
	found := ""
	for _, same := range []func(o Option) bool{
		func(o Option) bool { return o.Value == said },
		func(o Option) bool { return o.Title == said },
		func(o Option) bool { return strings.EqualFold(o.Title, said) || strings.EqualFold(o.Value, said) },
	} {
		n := 0
		for _, o := range f.Options {
			if same(o) {
				found, n = o.Value, n+1
			}
		}
		switch {
		case n == 1:
			return found, nil
		case n > 1:
			return "", fmt.Errorf("could be several options: say %q by its number", clip.Name(said))
		}
	}
	if i, err := strconv.Atoi(said); err == nil && i >= 1 && i <= len(f.Options) {
		return f.Options[i-1].Value, nil
	}
	return "", fmt.Errorf("has no option %q: give its number from 1 to %d, or what it says", clip.Name(said), len(f.Options))
}

// Show returns a value as [Field.Parse] takes it, to be shown to a person:
// options with their titles.
func (f *Field) Show(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	switch f.Kind {
	case Boolean:
		if len(raw) > 0 && raw[0] == 't' {
			return "yes"
		}
		return "no"
	case Number, Integer:
		return string(raw)
	case Choices:
		values, _ := texts(raw)
		for i := range values {
			values[i] = f.titleOf(values[i])
		}
		return strings.Join(values, ", ")
	}
	s, _ := jsonx.Text(raw)
	if f.Kind == Choice {
		return f.titleOf(s)
	}
	return s
}

func (f *Field) titleOf(value string) string {
	for _, o := range f.Options {
		if o.Value == value {
			return o.Title
		}
	}
	return value
}

// Bounds of one form. They are far beyond what a person would fill in.
const (
	maxSchema   = 128 << 10 // bytes
	maxFields   = 100
	maxOptions  = 1000     // of all fields together
	maxPatterns = 5        // the largest take milliseconds each to compile
	maxName     = 200      // bytes of a field's name
	maxAnswer   = 64 << 10 // bytes of one value
)
