package store

import (
	"strconv"
	"strings"
	"time"
)

// Cursor is a place in a list that is ordered newest first. It stays right when
// the entry it was taken from is deleted. Its text is for stores and for
// command lines to hand back, not to be looked into.
type Cursor struct {
	Created time.Time
	ID      string
}

// String returns the text of c.
func (c Cursor) String() string { return strconv.FormatInt(c.Created.UnixMicro(), 36) + "." + c.ID }

// ParseCursor reads what [Cursor.String] wrote. Empty text, the first page, is
// ok=false.
func ParseCursor(text string) (c Cursor, ok bool, err error) {
	if text == "" {
		return Cursor{}, false, nil
	}
	micros, id, found := strings.Cut(text, ".")
	n, err := strconv.ParseInt(micros, 36, 64)
	if !found || err != nil {
		return Cursor{}, false, &InvalidError{"cursor", "is not one that a store gave out"}
	}
	if err := CheckID("cursor", id); err != nil {
		return Cursor{}, false, err
	}
	return Cursor{time.UnixMicro(n).UTC(), id}, true, nil
}

// Before reports whether an entry created then, with that ID, comes after c in a
// list that is newest first.
func (c Cursor) Before(created time.Time, id string) bool {
	if !created.Equal(c.Created) {
		return created.Before(c.Created)
	}
	return id < c.ID
}
