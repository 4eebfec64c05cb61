package runlog

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Repeats counts turns in a row with the same calls. Equal ones of one turn count as
// one: the model had not seen a result when it asked for the next. One equal call beside
// others that change is no circle: it may look at what the others have done.
type Repeats struct {
	N    int                 // of its kind in a row, the last turn with calls was
	last [][sha256.Size]byte // its calls, in order, each once
}

// See counts a turn by the fingerprints of its calls, which it sorts, and returns which of its
// kind in a row it is.
func (r *Repeats) See(prints [][sha256.Size]byte) int {
	slices.SortFunc(prints, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	prints = slices.Compact(prints)
	if !slices.Equal(prints, r.last) {
		r.last, r.N = prints, 0
	}
	r.N++
	return r.N
}

// Fingerprint is the same for calls of one tool with the same arguments, in whatever
// order and layout they are written.
func Fingerprint(tool string, args []byte) [sha256.Size]byte {
	canonical, err := jsonx.Canonical(args)
	if err != nil {
		canonical = args
	}
	return sha256.Sum256(slices.Concat([]byte(tool), []byte{0}, canonical))
}
