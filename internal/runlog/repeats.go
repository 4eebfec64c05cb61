package runlog

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
)

// Repeats counts turns in a row with the same calls. Equal ones of one turn count as
// one: the model had not seen a result when it asked for the next. One equal call beside
// others that change is no circle: it may look at what the others have done.
type Repeats struct {
	N      int                   // of its kind in a row, the last turn with calls was
	last   []*mcp.ToolUseContent // its calls
	prints []print               // of them; nil until a turn looks alike that is not written alike
}

// print identifies a call.
type print [sha256.Size]byte

// See counts a turn by its calls, and returns which of its kind in a row it is.
func (r *Repeats) See(calls []*mcp.ToolUseContent) int {
	next := Repeats{N: 1, last: calls}
	switch {
	case slices.EqualFunc(calls, r.last, sameText):
		next.N, next.prints = r.N+1, r.prints
	case alike(calls, r.last):
		if r.prints == nil {
			r.prints = printsOf(r.last)
		}
		if next.prints = printsOf(calls); slices.Equal(next.prints, r.prints) {
			next.N = r.N + 1
		}
	}
	*r = next
	return r.N
}

func sameText(a, b *mcp.ToolUseContent) bool {
	return a.Name == b.Name && bytes.Equal(a.Input, b.Input)
}

// alike reports whether two turns may have the same calls, which is dear to find out: the first
// tool of each is one of the other.
func alike(a, b []*mcp.ToolUseContent) bool {
	has := func(calls []*mcp.ToolUseContent, name string) bool {
		return slices.ContainsFunc(calls, func(c *mcp.ToolUseContent) bool { return c.Name == name })
	}
	return len(a) > 0 && len(b) > 0 && has(a, b[0].Name) && has(b, a[0].Name)
}

// printsOf are the fingerprints of calls, in order, each once. Two of one tool with the same arguments
// have the same, in whatever order and layout those are written.
func printsOf(calls []*mcp.ToolUseContent) []print {
	prints := make([]print, len(calls))
	for i, c := range calls {
		args, err := jsonx.Canonical(c.Input)
		if err != nil {
			args = c.Input
		}
		prints[i] = sha256.Sum256(slices.Concat([]byte(c.Name), []byte{0}, args))
	}
	slices.SortFunc(prints, func(a, b print) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(prints)
}
