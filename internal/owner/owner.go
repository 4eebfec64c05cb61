// Package owner names the holders of leases so that another process of the same machine can tell
// that a holder is gone, and need not wait for the end of its lease.
//
// A name says where its process lives, as a digest, and who it is there:
//
//	PREFIX-PID-START-PLACE-UNIQUE
//
// Only a process of the same place reads more than an opaque text from it: processes share a place if they
// share the boot of a machine, its PID namespace and its time namespace, so that a PID and a start time mean the same to both. Containers of
// one machine share its boot alone, and processes of other machines nothing: of them there is no verdict. A machine that has started again is
// another place, too. That the first one is gone then could only be told by an ID of the machine, which copies of one disk share.
package owner

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/store"
)

// maxPrefix bounds what a name begins with: the rest, at most 59 characters, has room within store.MaxID.
const maxPrefix = 64

// process identifies a process within its place.
type process struct {
	place string // 16 hexadecimal digits; empty where processes cannot be told apart
	pid   int
	start uint64 // clock ticks since the machine started: a later process of the same PID has another
}

// New makes a name for leases of this process that no other call returns. It begins with the prefix, of
// which it keeps what an ID of a store may have.
func New(prefix string) string { return nameOf(prefix, self()) }

func nameOf(prefix string, p process) string {
	prefix = strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '-'
		}
		return r
	}, prefix)
	prefix = prefix[:min(len(prefix), maxPrefix)]
	unique := uuid.NewString()[:8]
	if p.place == "" {
		return fmt.Sprintf("%s-%d-%s", prefix, os.Getpid(), unique)
	}
	return fmt.Sprintf("%s-%d-%s-%s-%s", prefix, p.pid, strconv.FormatUint(p.start, 36), p.place, unique)
}

// Gone reports whether the process that has made a name is known to be gone: it can do nothing any more. It is
// false for one that lives, and for one of which this process cannot know.
func Gone(name string) bool {
	of, ok := parse(name)
	return ok && of.place == self().place && !lives(of)
}

// Holds reports whether a process holds the lease of a run: it has not expired, and its owner is not known to be gone. A job's run
// is held until its lease has expired: only then a worker takes it, and counts it as lost.
func Holds(r store.Run, now time.Time) bool { return r.Leased(now) && (r.Job != "" || !Gone(r.Owner)) }

// parse reads a name that New has made with a place.
func parse(name string) (p process, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) < 5 {
		return p, false
	}
	parts = parts[len(parts)-4:]
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 {
		return p, false
	}
	start, err := strconv.ParseUint(parts[1], 36, 64)
	if err != nil || len(parts[2]) != placeLen {
		return p, false
	}
	return process{place: parts[2], pid: pid, start: start}, true
}

// placeLen is the number of characters of a place.
const placeLen = 16
