package doctor

import (
	"context"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
)

// The results of a check.
const (
	checkOK      = "ok"
	checkWarning = "warning" // it works, and should be looked at
	checkFailed  = "failed"
)

// check is one thing that "doctor" has looked at.
type check struct {
	Area   string `json:"area"`
	Name   string `json:"name,omitempty"`
	Status string `json:"status"`
	Text   string `json:"text"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
	// Detail is what is known of it besides.
	Detail any `json:"detail,omitempty"`

	code int // what the program exits with where it failed
}

// checkArea looks at one area; it is called beside others.
type checkArea func(ctx context.Context, d *doctor) []check

// failed is the one result of an area that cannot be looked at further.
func failed(area, text, fix string) []check {
	return []check{{Area: area, Status: checkFailed, Text: text, Fix: fix, code: env.ExitUsage}}
}

// fine is the one result of an area with nothing to mend.
func fine(area, text string) []check { return []check{{Area: area, Status: checkOK, Text: text}} }

// absent is fine, too: a file or folder that is made when it is needed.
func absent(area, path string) []check {
	return fine(area, path+" does not exist yet; the first run creates it")
}

// doctor is what the checks share.
type doctor struct {
	env *env.Env
	f   *setup.ServerFlags
	// each bounds one check.
	each time.Duration
}
