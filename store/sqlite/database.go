package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
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
	// room as long as their context lasts. Zero means 1024. Of the appends of
	// [Store.StartAppend], which do not wait, 64 times as many are accepted.
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
	gather  time.Duration // how long writes are gathered for a commit; zero means groupTime
	library library       // nil means defaultLibrary
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Queue = cmp.Or(max(d.Queue, 0), 1024)
	d.BusyTimeout = cmp.Or(max(d.BusyTimeout, 0), 5*time.Second)
	d.idle = cmp.Or(d.idle, time.Second)
	d.gather = cmp.Or(d.gather, groupTime)
	d.library = cmp.Or(d.library, defaultLibrary)
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Logger = cmp.Or(d.Logger, slog.New(slog.DiscardHandler))
	return d
}

// database is the open file, which the parts of a store share.
type database struct {
	opts   Options
	path   string
	writer *writer

	// open is held for reading by each read, and for writing by Close, which so
	// waits for them.
	open    sync.RWMutex
	closed  bool // guarded by open
	readers *sql.DB
}

// read runs f, which reads from q, while the store is open.
func (s *database) read(ctx context.Context, doing string, f func(q reader) error) error {
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
func (s *database) now() time.Time { return store.Clock(s.opts.Now()) }

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

// list returns the rows of a query; with a size of each, as many as a page may have bytes.
func list[T any](ctx context.Context, s *database, doing, query string, args []any, scan func(scanner) (T, error), size func(T) int) ([]T, error) {
	rows, bytes := []T{}, 0
	err := s.read(ctx, doing, func(q reader) error {
		return q.each(query, args, func(row scanner) (bool, error) {
			one, err := scan(row)
			if err != nil {
				return false, err
			}
			if size != nil {
				if bytes += size(one); bytes > store.MaxPageBytes && len(rows) > 0 {
					return false, nil
				}
			}
			rows = append(rows, one)
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
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
