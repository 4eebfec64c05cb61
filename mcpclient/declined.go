// declined.go: questions that are declined without being put to a person, and what is
// said about those that are put to one in doubt.

package mcpclient

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of what servers can write into logs and journals by asking in vain (ROB-9).
const (
	declineWarnings      = 20 // without a limit; later one in declineWarningsEvery
	declineWarningsEvery = time.Second
	maxNotices           = 16 // to the Human of one call
	maxDoubts            = 3  // named with a question
)

// warnDeclined says in the log that a question is declined unasked, and why.
func (c *Client) warnDeclined(what string, why error) {
	c.asks.warned.Do(func() {
		c.log.Warn("a question of the server is declined without being asked", "question", what, "reason", why)
	})
}

// declinedUnasked tells the log, and the Humans of the calls that the question may
// belong to, that nobody was asked. None of them learns what the question says: it may
// be another's.
func (c *Client) declinedUnasked(o *origin, a *Ask, why error) {
	c.warnDeclined(a.Kind.String(), why)
	var told []Human
	for _, t := range o.calls {
		h, ok := t.human.(DeclineRecorder)
		if !ok || !t.notice() || slices.ContainsFunc(told, func(o Human) bool { return same(o, h) }) {
			continue
		}
		told = append(told, h)
		h.Declined(a.Kind, why)
	}
}

// notice counts one more declined question, and reports whether the Human is told of it.
func (t *callTag) notice() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notices++
	return t.notices <= maxNotices
}

// doubts are the notes of a question that may belong to calls that were given up, the
// newest first.
func (o *origin) doubts() (notes []string) {
	now := time.Now()
	for _, t := range slices.Backward(o.calls) {
		if t.abandoned.IsZero() {
			continue
		}
		if len(notes) == maxDoubts {
			return append(notes, "The server may ask this for other cancelled calls, too.")
		}
		name := t.name
		if name == "" {
			name = t.method
		}
		notes = append(notes, fmt.Sprintf("The server may ask this for a call that was cancelled %v ago: %s",
			now.Sub(t.abandoned).Round(time.Second), name))
	}
	return notes
}
