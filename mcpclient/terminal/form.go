package terminal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/internal/form"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// form fills in a form field by field, shows all of it, and lets it be changed
// before it goes anywhere (ELIC-12).
func (q *question) form() (*mcpclient.Decision, error) {
	f, err := form.Parse(q.ask.Form.RequestedSchema, mcp.Latest)
	if err != nil {
		return nil, fmt.Errorf("asking on the terminal: %w", err)
	}
	q.header("asks for information")
	q.say("It says:")
	q.quote(q.ask.Message)
	secret := form.LooksSecret(q.ask.Message)
	for i := range f.Fields {
		secret = secret || f.Fields[i].Secret
	}
	if secret {
		q.warnSecret()
	}
	values := make(map[string]json.RawMessage)
	if len(f.Fields) > 0 {
		q.say("\nFields: %d. An empty line takes what stands in [ ]. At any time: :back, :clear, :decline, :decline all, :cancel.", len(f.Fields))
	}
	for i := 0; i < len(f.Fields); {
		back, err := q.fill(f, i, values)
		switch {
		case err != nil:
			return nil, err
		case back:
			i = max(0, i-1)
		default:
			i++
		}
	}
	return q.review(f, values)
}

// warnSecret is said of what looks like a secret (SECA-31).
func (q *question) warnSecret() {
	q.warn("This looks like a request for a secret, such as a password, a key or a card number. " +
		"Servers must not ask for those in this way. Decline, unless you are sure that it is none.")
}

// fill asks for one field until there is a valid value, or none where none is needed.
func (q *question) fill(f *form.Form, i int, values map[string]json.RawMessage) (back bool, err error) {
	field := &f.Fields[i]
	q.describe(field, fmt.Sprintf("\n%d of %d", i+1, len(f.Fields)))
	for {
		current, given := values[field.Name]
		if !given {
			current = field.Default
		}
		prompt := "> "
		if current != nil {
			prompt = "[" + clean(field.Show(current)) + "] > "
		}
		line, err := q.read(prompt)
		if err != nil {
			return false, err
		}
		switch word, l := command(line); {
		case l != nil:
			return false, l
		case word == "back":
			return true, nil
		case word == "clear":
			delete(values, field.Name)
			continue
		}
		if strings.TrimSpace(line) == "" && given {
			return false, nil
		}
		value, err := field.Parse(strings.TrimPrefix(line, `\`))
		if err != nil {
			q.say("  This value %s.", clean(err.Error()))
			continue
		}
		if value != nil {
			values[field.Name] = value
		}
		return false, nil
	}
}

// describe shows what a field is for and what it takes.
func (q *question) describe(field *form.Field, number string) {
	need := "optional"
	if field.Required {
		need = "required"
	}
	q.say("%s: %s (%s), %s", number, field.Kind, need, limits(field))
	label := field.Label()
	if label != field.Name {
		label += " (" + field.Name + ")"
	}
	q.quote(label)
	if field.Description != "" {
		q.quote(field.Description)
	}
	if field.Secret {
		q.warnSecret()
	}
	for i, o := range field.Options {
		q.quote(strconv.Itoa(i+1) + ") " + clean(option(o)))
	}
	if field.Kind == form.Choices {
		q.say("  Several with commas between, by number or name; a single comma is none.")
	}
}

func option(o form.Option) string {
	if o.Title == o.Value {
		return o.Value
	}
	return o.Title + "  = " + o.Value
}

// limits says what values a field takes.
func limits(f *form.Field) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if f.Format != "" {
		add("as %s", f.Format)
	}
	if f.MinLength > 0 {
		add("at least %d characters", f.MinLength)
	}
	if f.Kind == form.String && f.MaxLength >= 0 {
		add("at most %d characters", f.MaxLength)
	}
	if f.Pattern != "" {
		add("like %s", clean(f.Pattern))
	}
	if f.Min != "" {
		add("from %s", clean(f.Min))
	}
	if f.Max != "" {
		add("up to %s", clean(f.Max))
	}
	if f.MinItems > 0 {
		add("at least %d", f.MinItems)
	}
	if f.Kind == form.Choices && f.MaxItems >= 0 {
		add("at most %d", f.MaxItems)
	}
	if len(all) == 0 {
		return "any value"
	}
	return strings.Join(all, ", ")
}

// review shows what would be sent, defaults included (SECA-32), and asks.
func (q *question) review(f *form.Form, values map[string]json.RawMessage) (*mcpclient.Decision, error) {
	for {
		content, err := f.Complete(values)
		q.say("\nThis would be sent to %s:", q.server)
		if len(f.Fields) == 0 {
			q.say("  nothing but that you agree")
		}
		for i := range f.Fields {
			q.shown(i, &f.Fields[i], content[f.Fields[i].Name])
		}
		if err != nil { // a field was cleared that is required
			q.say("  It cannot be sent: %s.", clean(err.Error()))
		}
		key, argument, merr := q.menu("send it", choice{"e", "edit", "change a field: edit NUMBER"})
		switch {
		case merr != nil:
			return nil, merr
		case key == "a" && err == nil:
			return &mcpclient.Decision{Action: mcp.ActionAccept, Content: content}, nil
		case key != "e":
			continue
		}
		n, nerr := strconv.Atoi(argument)
		if nerr != nil || n < 1 || n > len(f.Fields) {
			q.say("Say which field, from 1 to %d, such as: edit 1", len(f.Fields))
			continue
		}
		if _, err := q.fill(f, n-1, values); err != nil {
			return nil, err
		}
	}
}

// shown shows the value of one field as it would be sent.
func (q *question) shown(i int, field *form.Field, value json.RawMessage) {
	q.say("  %d) %s", i+1, clean(field.Label()))
	switch {
	case value == nil:
		q.say("     (nothing)")
	case field.Kind == form.Choice || field.Kind == form.Choices:
		text := field.Show(value)
		if text != valueText(value) {
			text += "  = " + valueText(value)
		}
		q.quote(text)
	default:
		q.quote(field.Show(value))
	}
}

// valueText is a string as it is, and anything else as JSON.
func valueText(raw json.RawMessage) string {
	var s string
	if mcp.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
