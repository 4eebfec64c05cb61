package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// shrinkPages is how many pages one write gives back, of 4 KiB: it takes a few milliseconds.
const shrinkPages = 512

// Shrink implements [store.Shrinker]. What is removed leaves pages of the file unused. A file of this version gives them
// back, a few at a time; one that an older version has made only keeps them for what comes, until [Store.Vacuum]. The file
// on disk gets shorter when its log is moved into it: at once, or after readers that hold it up.
func (s *Store) Shrink(ctx context.Context) (freed, unused int64, err error) {
	var pageSize, free, mode int64
	err = s.read(ctx, "looking for unused space", func(q reader) error {
		return q.row(`SELECT (SELECT page_size FROM pragma_page_size), (SELECT freelist_count FROM pragma_freelist_count),
			(SELECT auto_vacuum FROM pragma_auto_vacuum)`).Scan(&pageSize, &free, &mode)
	})
	if err != nil || free == 0 || mode != incremental {
		return 0, free * pageSize, err
	}
	for more := true; more; {
		var pages int64
		begun := time.Now()
		err := s.writer.do(ctx, "giving space back", weight{events: groupEvents}, func(t *tx) (err error) {
			pages, free, err = t.shrink()
			return err
		})
		if err != nil {
			return freed, free * pageSize, err
		}
		freed += pages * pageSize
		if more = free > 0 && pages > 0; more { // processes that wait for the lock look for it from time to time
			select {
			case <-time.After(time.Since(begun)):
			case <-ctx.Done():
				return freed, free * pageSize, context.Cause(ctx)
			}
		}
	}
	return freed, free * pageSize, s.writer.doAlone(ctx, "moving the log into the file", func(*session) error {
		s.writer.checkpoint() // what fails here, the next one does
		return nil
	})
}

// shrink gives some pages back, and returns how many, and how many are unused still.
func (t *tx) shrink() (pages, free int64, err error) {
	var before, after int64
	const count = "SELECT (SELECT page_count FROM pragma_page_count), (SELECT freelist_count FROM pragma_freelist_count)"
	if err := t.row(count).Scan(&before, &free); err != nil {
		return 0, 0, err
	}
	// Each row that is read gives one page back.
	err = t.each(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", shrinkPages), nil, func(scanner) (bool, error) { return true, nil })
	if err == nil {
		err = t.row(count).Scan(&after, &free)
	}
	return before - after, free, err
}

// Vacuum writes the whole file anew, without unused space, and returns by how many bytes it is shorter. A file that an older version has
// made gives space back by itself from then on: see [Store.Shrink]. It takes as long as reading and writing the file takes, and all other
// calls of the store wait for it. Meanwhile the disk needs room for two copies, or Vacuum refuses with [store.ErrFull]; with
// [store.ErrBusy] if another process has the file open. A process that is killed meanwhile leaves the store as it was.
func (s *Store) Vacuum(ctx context.Context) (freed int64, err error) {
	s.open.Lock() // no reader of this store is at work from here on
	defer s.open.Unlock()
	if s.closed {
		return 0, store.ErrClosed
	}
	s.readers.SetMaxIdleConns(0) // closes them: they hold the file too
	defer s.readers.SetMaxIdleConns(2 * runtime.GOMAXPROCS(0))
	err = s.writer.doAlone(ctx, "vacuuming the store", func(session *session) (err error) {
		freed, err = s.vacuum(ctx, session)
		return err
	})
	return freed, err
}

// vacuum turns the log off meanwhile: that can only be done by the one process that has the file open, and the copy goes into the file
// itself.
func (s *Store) vacuum(ctx context.Context, session *session) (freed int64, err error) {
	if err := session.keepJournal("delete"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, session.useWAL()) }()
	before, err := s.size()
	if err != nil {
		return 0, err
	}
	if _, free, err := s.Space(); err == nil { // not all systems say how much room there is
		if err := spaceFor(before, free); err != nil {
			return 0, err
		}
	}
	if err := session.script(setIncremental); err != nil {
		return 0, err
	}
	if _, err := session.conn.ExecContext(ctx, "VACUUM"); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return 0, err
	}
	after, err := s.size()
	return max(before-after, 0), err
}

// spaceFor reports whether a file of this size can be written anew: the new one is written beside the old one, whose
// pages are kept until the end.
func spaceFor(size, free int64) error {
	if need := 2 * size; free < need {
		return fmt.Errorf("%w: writing a store of %d bytes anew needs %d bytes on its disk, and %d are there", store.ErrFull, size, need, free)
	}
	return nil
}
