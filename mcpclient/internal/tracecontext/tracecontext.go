// Package tracecontext puts the trace context of the W3C into requests.
package tracecontext

import (
	"log/slog"
	"maps"
	"regexp"

	"github.com/troupe-dev/troupe/mcp"
)

// Bounds of the W3C recommendations on trace context and baggage.
const (
	maxTraceState = 512
	maxBaggage    = 8192
)

// traceParent is a version, a trace id, a parent id and flags. What a later version
// adds behind them is kept.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?$`)

const noTrace, noParent = "00000000000000000000000000000000", "0000000000000000"

// Add returns meta with the members of the request's trace context (META-04).
// What the caller has set itself goes on unchanged. What is not in the form of the
// W3C is left out, with all that depends on it.
func Add(found map[string]string, meta mcp.Meta, log *slog.Logger) mcp.Meta {
	parent := found[mcp.MetaTraceParent]
	add := map[string]string{}
	if validTraceParent(parent) {
		add[mcp.MetaTraceParent] = parent
		if s := found[mcp.MetaTraceState]; validMember(s, maxTraceState) {
			add[mcp.MetaTraceState] = s
		}
	} else if parent != "" {
		log.Debug("leaving out a trace context that is not in the form of the W3C")
	}
	if s := found[mcp.MetaBaggage]; validMember(s, maxBaggage) {
		add[mcp.MetaBaggage] = s
	}
	if _, own := meta[mcp.MetaTraceParent]; own { // its state belongs to it
		delete(add, mcp.MetaTraceParent)
		delete(add, mcp.MetaTraceState)
	}
	if len(add) == 0 {
		return meta
	}
	merged := make(mcp.Meta, len(meta)+len(add))
	for key, value := range add {
		if err := merged.Set(key, value); err != nil {
			log.Debug("leaving out a member of the trace context", "error", err)
		}
	}
	maps.Copy(merged, meta)
	return merged
}

func validTraceParent(s string) bool {
	return traceParent.MatchString(s) && s[:2] != "ff" && s[3:35] != noTrace && s[36:52] != noParent &&
		(s[:2] != "00" || len(s) == 55)
}

// validMember reports whether s is not empty, not too long and made of what a header may hold.
func validMember(s string, most int) bool {
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
