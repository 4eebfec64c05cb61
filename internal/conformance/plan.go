package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// scenario is one run of a scenario: the revision is what the client has to speak.
type scenario struct {
	Revision, Name string
	Required       bool // by the suite's frozen list for the revision
	Forced         bool // the suite has it for later revisions only
}

func (s scenario) String() string { return s.Revision + "/" + s.Name }

// revisions are those that the suite's servers speak, with the least number of
// scenarios that we know to be there: a suite that hides some is noticed.
var revisions = []struct {
	name  string
	least int
}{
	{"2025-03-26", 1},
	{"2025-06-18", 2},
	{"2025-11-25", 5},
	{"2026-07-28", 8},
}

// forced are scenarios that are played at a revision for which the suite lists only
// those of authorization: they hold there as well. Its initialize does not: that
// server answers with a revision of its own choice.
var forced = map[string][]string{"2025-03-26": {"tools_call"}}

// skipped says why a scenario is not played, "" if it is.
func skipped(name string) string {
	switch {
	case strings.HasPrefix(name, "auth/"):
		return "authorization (OAuth) is not built yet"
	case strings.HasPrefix(name, "sep-2640-"):
		return "the skills extension (SEP-2640) is not offered"
	}
	return ""
}

var (
	listed   = regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]*)\]`)
	required = regexp.MustCompile(`(?m)^\s+- (\S+)$`)
)

// plan returns what is to be played: every scenario for clients at every revision it
// exists at, and what is left out, one line for each reason.
func (s *suite) plan(ctx context.Context) (plan []scenario, left []string, err error) {
	all, err := s.command(ctx, "list", "--client")
	if err != nil {
		return nil, nil, err
	}
	without := map[string][]string{}
	for _, rev := range revisions {
		must, err := s.required(ctx, rev.name)
		if err != nil {
			return nil, nil, err
		}
		count := 0
		for _, m := range listed.FindAllStringSubmatch(all, -1) {
			sc := scenario{Revision: rev.name, Name: m[1], Required: slices.Contains(must, m[1]), Forced: slices.Contains(forced[rev.name], m[1])}
			if !sc.Forced && !slices.Contains(strings.Split(m[2], ","), rev.name) {
				continue
			}
			if why := skipped(sc.Name); why != "" {
				without[why] = append(without[why], sc.String())
				continue
			}
			count++
			plan = append(plan, sc)
		}
		if count < rev.least {
			return nil, nil, fmt.Errorf("the suite has %d scenarios for %s, want %d at least:\n%s", count, rev.name, rev.least, all)
		}
		for _, name := range must {
			if skipped(name) == "" && !slices.ContainsFunc(plan, func(sc scenario) bool { return sc.Revision == rev.name && sc.Name == name }) {
				return nil, nil, fmt.Errorf("%s requires %s, which is not on the list", rev.name, name)
			}
		}
	}
	for _, m := range listed.FindAllStringSubmatch(all, -1) {
		if why := skipped(m[1]); why != "" && m[2] == "extension" {
			without[why] = append(without[why], m[1])
		}
	}
	for why, names := range without {
		left = append(left, fmt.Sprintf("left  %d scenarios: %s: %s", len(names), why, strings.Join(names, " ")))
	}
	slices.Sort(left)
	return plan, left, nil
}

// required returns the client scenarios that the suite has frozen for a revision;
// the older revisions have no such list.
func (s *suite) required(ctx context.Context, revision string) ([]string, error) {
	if revision < "2025-11-25" {
		return nil, nil
	}
	text, err := s.command(ctx, "list", "--requirements", revision)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(text, "\nClient scenarios")
	if !found {
		return nil, errors.New("the suite lists its requirements in another way")
	}
	text, _, _ = strings.Cut(text, "\n\n")
	var names []string
	for _, m := range required.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names, nil
}
