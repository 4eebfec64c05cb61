package uritemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expand fills in the values: string, []string, or map[string]string, whose members
// come in the order of their names. What is missing, nil, or empty and not a string
// is undefined and leaves nothing behind.
func (t *Template) Expand(values map[string]any) (string, error) {
	var out []byte
	for _, p := range t.parts {
		if p.op == nil {
			out = append(out, p.literal...)
			continue
		}
		begun := false
		for _, v := range p.vars {
			items, err := p.expand(v, values[v.name])
			if err != nil {
				return "", err
			}
			for _, item := range items {
				if begun {
					out = append(out, p.op.sep...)
				} else {
					out = append(out, p.op.first...)
				}
				begun = true
				out = append(out, item...)
			}
			if len(out) > MaxURI {
				return "", fmt.Errorf("the URI that comes of the values: %w", ErrTooLong)
			}
		}
	}
	return string(out), nil
}

// expand returns what a variable becomes: items that the operator's separator joins.
func (p *part) expand(v variable, value any) ([]string, error) {
	if size(value) > MaxURI {
		return nil, fmt.Errorf("the value of %s: %w", v.name, ErrTooLong)
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		if v.prefix > 0 {
			value = prefix(value, v.prefix)
		}
		return []string{p.pair(v.name, p.encode(value))}, nil
	case []string:
		return p.expandList(v, value)
	case map[string]string:
		return p.expandMap(v, value)
	}
	return nil, fmt.Errorf("the value of %s is a %T: want string, []string or map[string]string", v.name, value)
}

// size counts the bytes of a value, and one for each of its parts.
func size(value any) (n int) {
	switch value := value.(type) {
	case string:
		n = len(value)
	case []string:
		for _, s := range value {
			n += len(s) + 1
		}
	case map[string]string:
		for k, s := range value {
			n += len(k) + len(s) + 2
		}
	}
	return n
}

func (p *part) expandList(v variable, list []string) ([]string, error) {
	if v.prefix > 0 {
		return nil, fmt.Errorf("the value of %s is a list, and no string to be cut off", v.name)
	}
	items := make([]string, len(list))
	for i, s := range list {
		if items[i] = p.encode(s); v.explode {
			items[i] = p.pair(v.name, items[i])
		}
	}
	return p.joined(v, items), nil
}

func (p *part) expandMap(v variable, members map[string]string) ([]string, error) {
	if v.prefix > 0 {
		return nil, fmt.Errorf("the value of %s is a map, and no string to be cut off", v.name)
	}
	var items []string
	for _, key := range slices.Sorted(maps.Keys(members)) {
		name, value := p.encode(key), p.encode(members[key])
		switch {
		case !v.explode:
			items = append(items, name, value)
		case p.op.named && value == "":
			items = append(items, name+p.op.ifEmpty)
		default:
			items = append(items, name+"="+value)
		}
	}
	return p.joined(v, items), nil
}

// joined makes one item of those of a value that is not exploded.
func (p *part) joined(v variable, items []string) []string {
	if v.explode || len(items) == 0 {
		return items
	}
	return []string{p.pair(v.name, strings.Join(items, ","))}
}

// pair puts the name in front, where the operator has it.
func (p *part) pair(name, value string) string {
	switch {
	case !p.op.named:
		return value
	case value == "":
		return name + p.op.ifEmpty
	}
	return name + "=" + value
}

func (p *part) encode(s string) string { return string(appendEncoded(nil, s, p.op.reserved)) }

// prefix returns the first n characters.
func prefix(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}
