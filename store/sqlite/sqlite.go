// Package sqlite keeps a store in one SQLite file.
//
// [Open] creates the file where it is missing. It is in WAL mode: there is one
// connection that writes and a second, read-only handle with as many
// connections as twice the cores. Several processes may have the file open;
// their writers take turns. The file has to be on a local disk.
//
// # Durability
//
// Writes go by group commit. One goroutine drains a bounded queue and commits
// whatever waits in it, up to 512 events, 32 MiB or 2 ms, so many writers share
// one fsync and a lone one waits for no other. Each caller returns when its own
// write is durable: by default after power loss ([Full]), or after a kill of
// the process ([Normal]).
//
// A write that is refused (fenced, say) does not touch its neighbours in the
// commit. When the disk is full or fails, the commit is rolled back and its
// writes are tried one by one, so that only those that cannot be kept fail,
// with [store.ErrFull] or what the disk said. Nothing acknowledged is lost, and
// the writer goes on as soon as there is room. A write that failed in the
// moment of its commit may still be found after a crash that follows at once.
//
// # Goroutines
//
// A store owns one goroutine, the writer. Open starts it; Close, which is
// required, lets it commit what was accepted, ends it and waits for it.
//
// # Drivers
//
// With cgo the SQLite library is github.com/mattn/go-sqlite3; without it,
// modernc.org/sqlite. Both read and write the same file, and processes with one and
// with the other may share it. The second one reports a quota or a limit of the size
// of files that is reached as an I/O error, not as [store.ErrFull].
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"

	"github.com/troupe-dev/troupe/store"
)

// Store is a [store.Store] in a file. Make it with [Open]. Each of its parts has the methods
// of one interface, or of two that belong together, with their statements.
type Store struct {
	*database
	*journal
	*asks
	*approvals
	*pins
	*records
	*vault
	*jobs
	*schedules
}

var (
	_ store.Store      = (*Store)(nil)
	_ store.Starter    = (*Store)(nil)
	_ store.JobStarter = (*Store)(nil)
	_ store.Shrinker   = (*Store)(nil)
)

// Open opens the store in the file at path, and creates the file, readable for
// its owner only, and missing folders where there is none. The path is a plain
// one, not a URI. Errors: [store.ErrInvalid] for a path that cannot be one,
// [store.ErrCorrupt] for a file that is not a store, [store.ErrTooNew] for one
// of a newer version, [store.ErrBusy] for one that is locked.
func Open(path string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	path, err := prepare(path, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", noRoom(err))
	}
	db, err := sql.Open(o.library.Name(), writerDSN(path, o))
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, err)
	}
	db.SetMaxOpenConns(1)
	first, err := openSession(db)
	if err == nil {
		err = migratePatiently(first, o)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, errors.Join(translate(o.library, err), first.close(), db.Close()))
	}
	readers, err := sql.Open(o.library.Name(), readerDSN(path, o))
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", path, errors.Join(err, first.close(), db.Close()))
	}
	n := 2 * runtime.GOMAXPROCS(0)
	readers.SetMaxOpenConns(n)
	readers.SetMaxIdleConns(n)

	d := &database{opts: o, path: path, readers: readers, writer: newWriter(db, first, o)}
	go d.writer.loop()
	return &Store{d, &journal{d}, &asks{d}, newApprovals(d), newPins(d), &records{d}, &vault{d}, &jobs{database: d}, &schedules{d}}, nil
}

// Close refuses further calls, waits for those that were accepted, and ends the
// writer. Closing again does nothing.
func (s *Store) Close() error {
	s.open.Lock()
	defer s.open.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	// Readers first: the last connection to close moves the log into the file,
	// and one that only reads could not.
	err := s.readers.Close()
	if err := errors.Join(err, s.writer.close()); err != nil {
		return fmt.Errorf("closing the store %s: %w", s.path, translate(s.opts.library, err))
	}
	return nil
}

// Schema returns the version of the schema of the file.
func (s *Store) Schema(ctx context.Context) (version int, err error) {
	err = s.read(ctx, "reading the version of the schema", func(q reader) error {
		return q.row("SELECT user_version FROM pragma_user_version").Scan(&version)
	})
	return version, err
}
