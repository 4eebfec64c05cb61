package main

import (
	"fmt"
	"regexp"
	"strings"
)

// rule is one row of docs/protocol.md.
type rule struct {
	id    string // "CANC-03"
	mark  string // "M", "M/S/O" …; "–" for a definition
	binds string // "client", "server", "both" or "–"
	line  int    // of the list, from 0
}

// obliges reports whether the side, client or server, has to follow the rule.
func (r rule) obliges(side string) bool {
	return r.weight() != "" && (r.binds == side || r.binds == "both")
}

// without is why a rule has no test for one side: a row of the second table.
type without struct{ id, side, reason string }

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
	head      = "| id | mark | revisions | binds | in short | tests |"
	underHead = "|---|---|---|---|---|---|"

	withoutHead      = "| id | side | why there is no test |"
	underWithoutHead = "|---|---|---|"
)

// row is what the head of docs/protocol.md promises of each line of its tables.
var row = regexp.MustCompile(`^\| ([A-Z]+-\d\d) ` +
	`\| (–|M(?:/S)?(?:/O)?|S(?:/O)?|O) ` +
	`\| (?:all|legacy|(?:24|03|06|11|26)\+?|(?:24|03|06|11)\.\.(?:03|06|11|26)) ` +
	`\| (client|server|both|–) ` +
	`\| [^|]{1,110} \|([^|]*)\|$`)

var withoutRow = regexp.MustCompile(`^\| ([A-Z]+-\d\d) \| (client|server) \| ([^|]{10,}) \|$`)

// parseList reads the rules in their order, and the reasons for which some have no
// test. Nothing is left out: a line of a table that is not a row, and an id that comes
// twice, are errors.
func parseList(text string) (list []rule, reasons []without, err error) {
	seen := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case !strings.HasPrefix(line, "|"), line == head, line == underHead, line == withoutHead, line == underWithoutHead:
			continue
		}
		if m := withoutRow.FindStringSubmatch(line); m != nil {
			if !seen[m[1]] {
				return nil, nil, fmt.Errorf("line %d gives a reason for %s, which is not in the list before", i+1, m[1])
			}
			reasons = append(reasons, without{m[1], m[2], m[3]})
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			return nil, nil, fmt.Errorf("line %d is no row of the list: %s", i+1, line)
		}
		if seen[m[1]] {
			return nil, nil, fmt.Errorf("line %d: %s is there twice", i+1, m[1])
		}
		seen[m[1]] = true
		list = append(list, rule{id: m[1], mark: m[2], binds: m[3], line: i})
	}
	if len(list) == 0 {
		return nil, nil, fmt.Errorf("the list has no rows")
	}
	return list, reasons, nil
}

// withTests returns the text of the list with the tests of each rule in its last
// column.
func withTests(text string, list []rule, tests map[string][]test) string {
	lines := strings.Split(text, "\n")
	for _, r := range list {
		line := strings.TrimSuffix(lines[r.line], "|")
		lines[r.line] = line[:strings.LastIndex(line, "|")+1] + " " + cell(tests[r.id]) + "|"
	}
	return strings.Join(lines, "\n")
}

// maxShown bounds the tests that a row names of each side.
const maxShown = 2

// cell names some tests of a rule; those that are closest to it come first.
func cell(tests []test) string {
	var names []string
	shown := map[string]int{}
	for _, t := range tests {
		if shown[t.side]++; shown[t.side] > maxShown {
			continue
		}
		names = append(names, fmt.Sprintf("[%s](../%s)", t.name, t.file))
	}
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, ", ") + " "
}
