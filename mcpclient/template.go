package mcpclient

import (
	"fmt"

	"github.com/troupe-dev/troupe/internal/uritemplate"
)

// ExpandTemplate makes the URI of a resource from a template (RES-02, RFC 6570), to
// be read with [Client.ReadResource]. Values are string, []string or
// map[string]string; a variable without one leaves nothing behind. Templates beyond
// 4 KiB and URIs beyond 16 KiB are errors: templates come from servers (SECA-10).
func ExpandTemplate[V any](template string, values map[string]V) (string, error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return "", fmt.Errorf("mcpclient: %w", err)
	}
	all := make(map[string]any, len(values))
	for name, v := range values {
		all[name] = v
	}
	uri, err := t.Expand(all)
	if err != nil {
		return "", fmt.Errorf("mcpclient: filling in a URI template: %w", err)
	}
	return uri, nil
}

// MatchTemplate returns values from which a template makes the URI, of the types that
// [ExpandTemplate] takes, and false if there are none. It takes a few milliseconds at
// most: what would take longer does not match.
func MatchTemplate(template, uri string) (values map[string]any, ok bool, err error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return nil, false, fmt.Errorf("mcpclient: %w", err)
	}
	values, ok = t.Match(uri)
	return values, ok, nil
}

// TemplateNames returns the names of a template's variables, such as a program asks
// its user for, and [Client.Complete] completes.
func TemplateNames(template string) ([]string, error) {
	t, err := uritemplate.Parse(template)
	if err != nil {
		return nil, fmt.Errorf("mcpclient: %w", err)
	}
	return t.Names(), nil
}
