package loop

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
)

// RepeatError ends a run whose model does nothing but make the same calls again.
type RepeatError struct {
	Tool  string // of the first of them
	Times int    // in a row
}

func (e *RepeatError) Error() string {
	return fmt.Sprintf("the model has asked for the tool %q with the same arguments %d times in a row, though it was told", e.Tool, e.Times)
}

// repeated counts turns in a row with the same calls. Equal ones of one turn count as
// one: the model had not seen a result when it asked for the next. One equal call beside
// others that change is no circle: it may look at what the others have done.
type repeated struct {
	last [][sha256.Size]byte // the calls of the last turn, in order, each once
	n    int
}

// see counts a turn, and returns which of its kind in a row it is.
func (r *repeated) see(rulings []ruling) int {
	prints := make([][sha256.Size]byte, len(rulings))
	for i := range rulings {
		prints[i] = rulings[i].print
	}
	slices.SortFunc(prints, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	prints = slices.Compact(prints)
	if !slices.Equal(prints, r.last) {
		r.last, r.n = prints, 0
	}
	r.n++
	return r.n
}

// fingerprint is the same for calls of one tool with the same arguments, in whatever
// order and layout they are written.
func fingerprint(tool string, args []byte) [sha256.Size]byte {
	canonical, err := jsonx.Canonical(args)
	if err != nil {
		canonical = args
	}
	return sha256.Sum256(slices.Concat([]byte(tool), []byte{0}, canonical))
}

// judge goes on with the calls of a turn, if guards and loop detector let it.
func (r *run) judge(c *actors.Context, rulings []ruling) {
	entries, err := r.judged(r.turn, rulings)
	if len(entries) > 0 {
		r.write(c, nil, entries...)
	}
	if err != nil {
		r.failed(c, err)
		return
	}
	if r.out == nil {
		r.act(c, rulings)
	}
}

// judged takes over what guards and loop detector say of calls. It returns the events
// of that, and why the run can not go on.
func (r *run) judged(t *turn, rulings []ruling) ([]runlog.Entry, error) {
	if t.guards.Refused != "" {
		if err := r.refuse(t.guards.Refused); err != nil {
			return nil, err
		}
	}
	var entries []runlog.Entry
	transfers := 0
	n := r.repeated.see(rulings)
	for i, cl := range t.calls {
		g := &rulings[i].guards
		entries = append(entries, g.Entries(cl.key)...)
		if g.Stop != nil {
			return entries, g.Stop
		}
		if r.cfg.Repeats > 0 && n >= r.cfg.Repeats {
			cl.nth = n
			if n >= 2*r.cfg.Repeats {
				return entries, &RepeatError{Tool: cl.name, Times: n}
			}
		}
		if rulings[i].args != nil {
			cl.args = rulings[i].args
		}
		if cl.tool != nil && cl.tool.HandOff != nil && rulings[i].refusal == "" {
			rulings[i].refusal = r.mayHandOff(transfers)
			transfers++
		}
	}
	return entries, nil
}

// tellRepeated adds to a call's result that the model turns in circles.
func (cl *call) tellRepeated() {
	if cl.nth == 0 {
		return
	}
	res := cl.result
	if len(res.Content) == 0 && len(res.StructuredContent) > 0 {
		res.Content = append(res.Content, mcp.Text(string(res.StructuredContent)))
	}
	res.Content = append(res.Content, mcp.Text(fmt.Sprintf(
		"[You have made this same call with the same arguments %d times in a row. "+
			"Its result will not help you any further: do something else, or answer with what you know.]", cl.nth)))
}
