package runlog

import (
	"bytes"
	"crypto/sha256"
	"reflect"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/toolresult"
	"github.com/troupe-dev/troupe/mcp"
)

// Repeats notices that a run turns in circles: that its turns make the same calls, that up to four turns come again in the
// same order, or that turn after turn has the same result, whatever it calls.
//
// Equal calls of one turn count as one: the model had not seen a result when it asked for the next. One equal call beside
// others that change is no circle: it may look at what the others have done. Calls that poll count as not made, and a turn of
// nothing else as no turn: a model that waits for something asks again, and may do other things meanwhile.
//
// An equal result says that the model gets no further only if it is an error, if the call had no effect, or if there is much of
// it. Different calls with an effect may well have the same short result, such as "ok" of files that are written.
type Repeats struct {
	turns   [maxPeriod]turnCalls   // the last ones, the last first
	alike   [maxPeriod]int         // how many turns in a row were the same as the one so many places before them
	result  *mcp.ToolResultContent // that all calls of the last turn had; nil unless they had one that counts
	results int                    // turns in a row that had it
}

// maxPeriod is how many turns a circle has at the most.
const maxPeriod = 4

// Traits are what matters of a tool for whether its calls get any further.
type Traits struct {
	Polls    bool `json:"polls,omitzero"`    // it looks whether something has changed
	ReadOnly bool `json:"readOnly,omitzero"` // its calls have no effect, as far as it says itself
}

// minResult is from how many bytes on the result of a call that succeeds, and may have had an effect, counts. Confirmations have
// less, and what was looked at has more as a rule.
const minResult = 256

// Circle is what the turns of a run come to again and again.
type Circle struct {
	Period int // of how many turns; zero for different calls with the same result
	Times  int // how often in a row it has come; one is no circle
}

// See counts a turn by its calls and their results, which are in the same order. Of says what the tool of each is.
func (r *Repeats) See(calls []*mcp.ToolUseContent, results mcp.Contents, of func(i int) Traits) {
	effects := false
	for i := range calls {
		effects = effects || !of(i).Polls && !of(i).ReadOnly
	}
	calls, results = withoutPolls(calls, results, func(i int) bool { return of(i).Polls })
	if len(calls) == 0 {
		return
	}
	now := turnCalls{calls: calls}
	for i := range r.turns {
		if r.turns[i].same(&now) {
			r.alike[i]++
		} else {
			r.alike[i] = 0
		}
	}
	copy(r.turns[1:], r.turns[:])
	r.turns[0] = now
	switch last := r.result; {
	case !sameResults(results, effects):
		r.result, r.results = nil, 0
	case last != nil && sameResult(last, results[0]):
		r.results++
	default:
		r.result, r.results = results[0].(*mcp.ToolResultContent), 1
	}
}

// Circle returns the circle that the last turn has closed, the one that has come most often. Times is one for none.
func (r *Repeats) Circle() Circle {
	most := Circle{Period: 1, Times: 1}
	for i, n := range r.alike {
		period := i + 1
		if times := 1 + n/period; n%period == 0 && times > most.Times {
			most = Circle{period, times}
		}
	}
	if r.results > most.Times {
		most = Circle{0, r.results}
	}
	return most
}

func withoutPolls(calls []*mcp.ToolUseContent, results mcp.Contents, polls func(i int) bool) (c []*mcp.ToolUseContent, r mcp.Contents) {
	for i := range calls {
		if polls(i) {
			c, r = slices.Clone(calls[:i]), slices.Clone(results[:i])
			for j := i + 1; j < len(calls); j++ {
				if !polls(j) {
					c, r = append(c, calls[j]), append(r, results[j])
				}
			}
			return c, r
		}
	}
	return calls, results
}

// sameResults reports whether all of them are the same, and one that counts. Effects says that any of their calls may have had one.
func sameResults(results mcp.Contents, effects bool) bool {
	first, ok := results[0].(*mcp.ToolResultContent)
	if !ok || !first.IsError && effects && toolresult.Bytes(first) < minResult {
		return false
	}
	return !slices.ContainsFunc(results[1:], func(c mcp.Content) bool { return !sameResult(first, c) })
}

// sameResult compares all but what call they are of.
func sameResult(a *mcp.ToolResultContent, other mcp.Content) bool {
	b, ok := other.(*mcp.ToolResultContent)
	return ok && a.IsError == b.IsError && bytes.Equal(a.StructuredContent, b.StructuredContent) &&
		slices.EqualFunc(a.Content, b.Content, func(a, b mcp.Content) bool { return reflect.DeepEqual(a, b) })
}

// turnCalls are the calls of a turn.
type turnCalls struct {
	calls  []*mcp.ToolUseContent // none of a turn that there was not
	prints []print               // of them; nil until a turn looks alike that is not written alike
}

// print identifies a call.
type print [sha256.Size]byte

// same reports whether two turns have the same calls.
func (t *turnCalls) same(o *turnCalls) bool {
	return len(t.calls) > 0 && slices.EqualFunc(t.calls, o.calls, sameText) ||
		alike(t.calls, o.calls) && slices.Equal(t.fingerprints(), o.fingerprints())
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

// fingerprints are those of the calls, in order, each once. Two of one tool with the same arguments
// have the same, in whatever order and layout those are written.
func (t *turnCalls) fingerprints() []print {
	if t.prints != nil {
		return t.prints
	}
	prints := make([]print, len(t.calls))
	for i, c := range t.calls {
		args, err := jsonx.Canonical(c.Input)
		if err != nil {
			args = c.Input
		}
		prints[i] = sha256.Sum256(slices.Concat([]byte(c.Name), []byte{0}, args))
	}
	slices.SortFunc(prints, func(a, b print) int { return bytes.Compare(a[:], b[:]) })
	t.prints = slices.Compact(prints)
	return t.prints
}
