package main

import (
	"fmt"
	"strings"
	"time"
)

// count is how many of something there were.
type count struct{ ran, passed int }

// add counts one more.
func (c *count) add(passed bool) {
	c.ran++
	if passed {
		c.passed++
	}
}

func (c count) String() string { return fmt.Sprintf("%d/%d", c.passed, c.ran) }

// total counts scenarios.
type total struct {
	count
	warned, stubs int
	revisions     map[string]*struct{ required, others count }
}

// add counts a verdict and prints it, with what the suite says where that was asked for.
func (t *total) add(v *verdict, o options, prefix string) {
	fmt.Fprintln(o.out, prefix+v.line())
	if v.stub() {
		t.stubs++
		return
	}
	if o.verbose && (!v.passed() || v.Warned > 0) {
		fmt.Fprint(o.out, v.details())
	}
	t.count.add(v.passed())
	if v.Warned > 0 {
		t.warned++
	}
	if t.revisions == nil {
		t.revisions = map[string]*struct{ required, others count }{}
	}
	r := t.revisions[v.Scenario.Revision]
	if r == nil {
		r = new(struct{ required, others count })
		t.revisions[v.Scenario.Revision] = r
	}
	if v.Scenario.Required {
		r.required.add(v.passed())
	} else {
		r.others.add(v.passed())
	}
}

// lines are the counts for people.
func (t *total) lines(what string, took time.Duration) string {
	var b strings.Builder
	for _, rev := range revisions {
		if r := t.revisions[rev]; r != nil {
			fmt.Fprintf(&b, "conformance: %s: %s: required %s, others %s\n", what, rev, r.required, r.others)
		}
	}
	fmt.Fprintf(&b, "conformance: %s: %d of %d scenarios pass, %d with warnings", what, t.passed, t.ran, t.warned)
	if t.stubs > 0 {
		fmt.Fprintf(&b, "; %d more are stubs of the suite", t.stubs)
	}
	fmt.Fprintf(&b, ", %.1fs\n", took.Seconds())
	return b.String()
}
