package main

import (
	"fmt"
	"regexp"
	"strings"
)

// rule is one row of docs/protocol.md.
type rule struct {
	id   string // "CANC-03"
	mark string // "M", "M/S/O" …; "–" for a definition
}

func (r rule) prefix() string { p, _, _ := strings.Cut(r.id, "-"); return p }

// weight is the strongest mark that binds, "M" or "S", and empty for the rest.
func (r rule) weight() string {
	for _, w := range []string{"M", "S"} {
		if strings.Contains(r.mark, w) {
			return w
		}
	}
	return ""
}

const (
	head      = "| id | mark | revisions | binds | in short |"
	underHead = "|---|---|---|---|---|"
)

// row is what the head of docs/protocol.md promises of each line of its tables.
var row = regexp.MustCompile(`^\| ([A-Z]+-\d\d) ` +
	`\| (–|M(?:/S)?(?:/O)?|S(?:/O)?|O) ` +
	`\| (?:all|legacy|(?:24|03|06|11|26)\+?|(?:24|03|06|11)\.\.(?:03|06|11|26)) ` +
	`\| (?:client|server|both|–) ` +
	`\| [^|]{1,110} \|$`)

// parseList reads the rules in their order. Nothing is left out: a line of a
// table that is not a row, and an id that comes twice, are errors.
func parseList(text string) ([]rule, error) {
	var list []rule
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") || line == head || line == underHead {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("line %d is no row of the list: %s", i+1, line)
		}
		if seen[m[1]] {
			return nil, fmt.Errorf("line %d: %s is there twice", i+1, m[1])
		}
		seen[m[1]] = true
		list = append(list, rule{id: m[1], mark: m[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the list has no rows")
	}
	return list, nil
}
