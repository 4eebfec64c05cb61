package pages

import (
	"maps"
	"time"
)

// Session sends what belongs to no request of a client. Its dynamic type is comparable.
type Session interface{ Notify(frame []byte) }

// Need is what a page is made for.
type Need struct {
	Session   Session // of a legacy client, which is notified of the end; else nil
	Principal string
	Key, URL  string
}

// made is a page that was made for a need.
type made struct {
	id    string
	until time.Time // when another one is made: a person needs time for the page
}

// needs are the pages of handlers that do not wait, which get the same page again.
type needs map[Need]made

// maxNeeded bounds the pages that are remembered.
const maxNeeded = 1000

// keep remembers a page for the next call; beyond the bound that gets a page of its own.
func (n needs) keep(k Need, m made) {
	if len(n) >= maxNeeded {
		now := time.Now()
		maps.DeleteFunc(n, func(_ Need, m made) bool { return !now.Before(m.until) })
	}
	if len(n) < maxNeeded {
		n[k] = m
	}
}

// gone forgets the pages of a session.
func (n needs) gone(s Session) {
	maps.DeleteFunc(n, func(k Need, _ made) bool { return k.Session == s })
}
