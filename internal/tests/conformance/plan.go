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
	Alone          bool // it is in none of the suite's lists for a revision, and has to be named
}

func (s scenario) String() string { return s.Revision + "/" + s.Name }

// side is who is tested.
type side struct {
	flag, title string         // of the suite's lists
	least       map[string]int // scenarios that we know to be there, by revision: a suite that hides some is noticed
}

var (
	clients = side{"--client", "Client", map[string]int{"2025-03-26": 1, "2025-06-18": 2, "2025-11-25": 5, "2026-07-28": 12}}
	servers = side{"--server", "Server", map[string]int{"2025-03-26": 1, "2025-06-18": 27, "2025-11-25": 33, "2026-07-28": 53}}
)

// revisions are those that the suite speaks.
var revisions = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// hasRequirements reports whether the suite has frozen what a revision requires.
func hasRequirements(revision string) bool { return revision >= "2025-11-25" }

// forced are scenarios that are played at a revision for which the suite lists only
// those of authorization: they hold there as well. Its initialize does not: that
// server answers with a revision of its own choice.
var forced = map[string][]string{"2025-03-26": {"tools_call"}}

// stubs are scenarios that the suite skips whatever the server does.
var stubs = map[string]bool{"tasks-status-notifications": true}

// skipped says why a scenario is not played, "" if it is.
func skipped(name string) string {
	return ""
}

// alone reports whether a scenario is of an extension, which the suite has in no list of a
// revision: it is played at the one that the extension is written for, or the newest.
func alone(name, of, revision string) bool {
	return (strings.HasPrefix(name, "sep-2640-") || of == "extension") && revision == "2026-07-28"
}

var (
	listed   = regexp.MustCompile(`(?m)^\s+- (\S+) \[([^\]]*)\]`)
	required = regexp.MustCompile(`(?m)^\s+- (\S+)$`)
	unscored = regexp.MustCompile(`(?m)^\s+- (\S+) \[(\w+)\]`)
)

// plan returns what is to be played: every scenario of a side at every revision it
// exists at, and what is left out, one line for each reason.
func (s *suite) plan(ctx context.Context, who side) (plan []scenario, left []string, err error) {
	all, err := s.command(ctx, "list", who.flag)
	if err != nil {
		return nil, nil, err
	}
	without := map[string][]string{}
	for _, rev := range revisions {
		must, extra, err := s.required(ctx, who, rev)
		if err != nil {
			return nil, nil, err
		}
		count := 0
		for _, m := range listed.FindAllStringSubmatch(all, -1) {
			sc := scenario{
				Revision: rev, Name: m[1], Required: slices.Contains(must, m[1]),
				Forced: slices.Contains(forced[rev], m[1]), Alone: alone(m[1], m[2], rev),
			}
			if !sc.Forced && !sc.Alone && !slices.Contains(strings.Split(m[2], ","), rev) && (!slices.Contains(extra, m[1]) || m[2] == "extension") {
				continue
			}
			if why := skipped(sc.Name); why != "" {
				without[why] = append(without[why], sc.String())
				continue
			}
			count++
			plan = append(plan, sc)
		}
		if count < who.least[rev] {
			return nil, nil, fmt.Errorf("the suite has %d scenarios for %s, want %d at least:\n%s", count, rev, who.least[rev], all)
		}
		for _, name := range must {
			if skipped(name) == "" && !slices.ContainsFunc(plan, func(sc scenario) bool { return sc.Revision == rev && sc.Name == name }) {
				return nil, nil, fmt.Errorf("%s requires %s, which is not on the list", rev, name)
			}
		}
	}
	for _, m := range listed.FindAllStringSubmatch(all, -1) {
		if why := skipped(m[1]); why != "" && m[2] == "extension" && !slices.ContainsFunc(without[why], func(s string) bool { return strings.HasSuffix(s, "/"+m[1]) }) {
			without[why] = append(without[why], m[1]) // of no revision
		}
	}
	for why, names := range without {
		left = append(left, fmt.Sprintf("left  %d scenarios: %s: %s", len(names), why, strings.Join(names, " ")))
	}
	slices.Sort(left)
	return plan, left, nil
}

// required returns the scenarios of a side that the suite has frozen for a revision,
// and those that it runs beside them without counting; the older revisions have no
// such lists.
func (s *suite) required(ctx context.Context, who side, revision string) (must, extra []string, err error) {
	if !hasRequirements(revision) {
		return nil, nil, nil
	}
	text, err := s.command(ctx, "list", "--requirements", revision)
	if err != nil {
		return nil, nil, err
	}
	_, own, found := strings.Cut(text, "\n"+who.title+" scenarios")
	if !found {
		return nil, nil, errors.New("the suite lists its requirements in another way")
	}
	own, _, _ = strings.Cut(own, "\n\n")
	for _, m := range required.FindAllStringSubmatch(own, -1) {
		must = append(must, m[1])
	}
	for _, m := range unscored.FindAllStringSubmatch(text, -1) {
		if "--"+m[2] == who.flag {
			extra = append(extra, m[1])
		}
	}
	return must, extra, nil
}
