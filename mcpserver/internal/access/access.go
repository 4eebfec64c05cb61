// Package access says which scopes a request needs: those of what it is for, and those of
// rules about its method and name.
package access

import (
	"slices"
	"strings"
)

// Rule adds scopes to requests.
type Rule struct {
	Method string // "" is any
	Name   string // a pattern, see [Match]; "" is any
	Scopes []string
}

// Rules are those of a server. All that fit a request count.
type Rules []Rule

// Needs returns the scopes that a request needs, own among them, each once. It does not
// change own, and returns it if no rule adds any.
func (rs Rules) Needs(method, name string, own []string) []string {
	all := own
	for _, r := range rs {
		if r.Method != "" && r.Method != method || r.Name != "" && !Match(r.Name, name) {
			continue
		}
		for _, scope := range r.Scopes {
			if !slices.Contains(all, scope) {
				all = append(slices.Clip(all), scope)
			}
		}
	}
	return all
}

// Match reports whether a name fits a pattern, in which * stands for any number of any
// characters. It takes a time linear in each of them.
func Match(pattern, name string) bool {
	head, rest, open := strings.Cut(pattern, "*")
	if !open {
		return name == pattern
	}
	name, ok := strings.CutPrefix(name, head)
	for ok {
		var part string
		part, rest, open = strings.Cut(rest, "*")
		if !open {
			return strings.HasSuffix(name, part)
		}
		_, name, ok = strings.Cut(name, part)
	}
	return false
}
