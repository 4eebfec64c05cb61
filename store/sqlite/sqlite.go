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
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Synchronous says what an acknowledged write survives.
type Synchronous int

const (
	// Full survives power loss: one fsync for each commit.
	Full Synchronous = iota
	// Normal survives a kill of the process. Power loss may take the last
	// commits, never damage the file.
	Normal
)

// Options changes how a store works; nil is the same as the zero value.
type Options struct {
	// Synchronous is Full by default.
	Synchronous Synchronous
	// Queue bounds the writes that wait for the writer; further ones wait for
	// room as long as their context lasts. Zero means 1024.
	Queue int
	// BusyTimeout is how long a write waits for another process that holds the file
	// locked, to the millisecond; then it is [store.ErrBusy], after twice that at the
	// latest. Zero means 5 s.
	BusyTimeout time.Duration
	// Now is the clock of leases and expiry. Nil means time.Now.
	Now func() time.Time
	// Logger takes structured logs. Nil discards them.
	Logger *slog.Logger

	idle    time.Duration // without a write, until a checkpoint; zero means 1 s
	library library       // nil means defaultLibrary
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	d.Queue = cmp.Or(max(d.Queue, 0), 1024)
	d.BusyTimeout = cmp.Or(max(d.BusyTimeout, 0), 5*time.Second)
	d.idle = cmp.Or(d.idle, time.Second)
	if d.library == nil {
		d.library = defaultLibrary
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

// Store is a [store.Store] in a file. Make it with [Open].
type Store struct {
	opts   Options
	path   string
	writer *writer

	// open is held for reading by each read, and for writing by Close, which so
	// waits for them.
	open    sync.RWMutex
	closed  bool // guarded by open
	readers *sql.DB
}

var _ store.Store = (*Store)(nil)

// Open opens the store in the file at path, and creates the file, readable for
// its owner only, and missing folders where there is none. The path is a plain
// one, not a URI. Errors: [store.ErrInvalid] for a path that cannot be one,
// [store.ErrCorrupt] for a file that is not a store, [store.ErrTooNew] for one
// of a newer version, [store.ErrBusy] for one that is locked.
func Open(path string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	path, err := prepare(path, o.Logger)
	if err != nil {
		return nil, fmt.Errorf("opening the store: %w", err)
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

	s := &Store{opts: o, path: path, readers: readers, writer: newWriter(db, first, o)}
	go s.writer.loop()
	return s, nil
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

// read runs f, which reads from q, while the store is open.
func (s *Store) read(ctx context.Context, doing string, f func(q reader) error) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := f(reader{ctx, s.readers})
	switch {
	case err == nil, refused(err):
		return err
	case ctx.Err() != nil: // the driver says "interrupted"
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", doing, translate(s.opts.library, err))
}

// now is the time by the store's clock.
func (s *Store) now() time.Time { return store.Clock(s.opts.Now()) }

// reader queries the read-only handle.
type reader struct {
	ctx context.Context
	db  *sql.DB
}

func (r reader) row(query string, args ...any) *sql.Row {
	return r.db.QueryRowContext(r.ctx, query, args...)
}

// each calls f for each row, until it returns false.
func (r reader) each(query string, args []any, f func(scan scanner) (bool, error)) error {
	rows, err := r.db.QueryContext(r.ctx, query, args...)
	return eachRow(rows, err, f)
}

// eachRow calls f for each row of what a query has returned, until f returns false.
func eachRow(rows *sql.Rows, err error, f func(scan scanner) (bool, error)) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := f(rows); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// scanner is a row.
type scanner interface{ Scan(dest ...any) error }
