package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// check is one thing the suite has looked at.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED or INFO
	Description  string `json:"description"`
	ErrorMessage string `json:"errorMessage"`
}

// verdict is what has come of a scenario.
type verdict struct {
	Scenario scenario
	Checks   []check
	Broken   string // why the run as a whole counts for nothing
	Log      string
	Took     time.Duration

	Passed, Failed, Warned, Skipped int // checks
}

func (v *verdict) count() {
	for _, c := range v.Checks {
		switch c.Status {
		case "SUCCESS":
			v.Passed++
		case "FAILURE":
			v.Failed++
		case "WARNING":
			v.Warned++
		case "SKIPPED":
			v.Skipped++
		}
	}
}

// passed is stricter than the suite: what was tested has ended well, something was
// found to be right, and nothing wrong.
func (v *verdict) passed() bool {
	return v.Broken == "" && v.Failed == 0 && v.Passed > 0 && !v.idle()
}

// idle reports whether the scenario has looked at nothing: all it has, beside the form
// of the messages, was skipped.
func (v *verdict) idle() bool {
	own := 0
	for _, c := range v.Checks {
		if c.Status != "INFO" && c.Status != "SKIPPED" && !strings.HasPrefix(c.ID, "wire-schema-") {
			own++
		}
	}
	return v.Skipped > 0 && own == 0
}

// stub reports whether the suite itself has skipped a scenario that is only a stub.
func (v *verdict) stub() bool {
	return stubs[v.Scenario.Name] && v.Broken == "" && v.Failed == 0 && v.idle()
}

// line is the verdict for people.
func (v *verdict) line() string {
	word := "FAIL"
	switch {
	case v.passed() && v.Warned > 0:
		word = "warn"
	case v.passed():
		word = "pass"
	case v.stub():
		word = "stub"
	}
	line := fmt.Sprintf("%s  %s  %d ok, %d failed", word, v.Scenario, v.Passed, v.Failed)
	if v.Warned > 0 {
		line += fmt.Sprintf(", %d warnings", v.Warned)
	}
	switch {
	case v.Scenario.Forced:
		line += " (forced)"
	case !v.Scenario.Required:
		line += " (not on the suite's list)"
	}
	line += fmt.Sprintf("  %.1fs", v.Took.Seconds())
	if v.Broken != "" {
		line += "  " + strings.SplitN(v.Broken, "\n", 2)[0]
	}
	return line
}

// details are the checks that are not right, and the end of the log where the run
// as a whole went wrong.
func (v *verdict) details() string {
	var b strings.Builder
	for _, c := range v.Checks {
		if c.Status == "FAILURE" || c.Status == "WARNING" {
			fmt.Fprintf(&b, "      %s %s: %s\n", c.Status, c.ID, cmp.Or(c.ErrorMessage, c.Description))
		}
	}
	if v.Broken != "" {
		lines := strings.Split(strings.TrimSpace(v.Log), "\n")
		for _, line := range lines[max(0, len(lines)-30):] {
			fmt.Fprintf(&b, "      | %s\n", line)
		}
	}
	return b.String()
}
