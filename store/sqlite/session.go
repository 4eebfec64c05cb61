package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// background has no end on purpose: what has begun is finished, within the
// bounds of SQLite's busy timeout.
var background = context.Background()

// session is the one connection that writes. Only the writer touches it. Nil is
// one that is closed.
type session struct {
	conn     *sql.Conn
	prepared map[string]driver.Stmt // by their texts
	args     []driver.NamedValue    // room for those of a statement
	row      values                 // room for a row

	// rows are the places of runs by their IDs, which save a look into the table where the statement
	// that needs a place also compares the ID with it: a run may have been deleted meanwhile.
	rows map[string]place
	// These are the fences as they were read last: the statements that need them compare them.
	fence, fenceOfJobs int64
}

// Bounds of what a session keeps.
const (
	maxPrepared = 128
	maxBound    = 64 << 10 // bytes of arguments, which a prepared statement holds until its next use
	maxRows     = 1 << 14
)

func openSession(db *sql.DB) (*session, error) {
	conn, err := db.Conn(background)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, prepared: make(map[string]driver.Stmt), rows: make(map[string]place)}, nil
}

// useWAL is not left to the driver, which would set it before the file is known
// to be ours.
func (s *session) useWAL() error { return s.keepJournal("wal") }

// keepJournal sets the journal mode of the file.
func (s *session) keepJournal(want string) error {
	var mode string
	if err := s.conn.QueryRowContext(background, "PRAGMA journal_mode = "+want).Scan(&mode); err != nil {
		return err
	}
	if mode != want {
		return fmt.Errorf("the journal mode of the file stays %q, want %q", mode, want)
	}
	return nil
}

// script runs statements, or one that returns rows.
func (s *session) script(query string) error {
	_, err := s.conn.ExecContext(background, query)
	return err
}

// exec runs one statement that returns no rows. Like query it uses the driver itself: the pool would look
// for the statement, lock and convert at each use, which is a third of the writer's time.
func (s *session) exec(query string, args ...any) (res driver.Result, err error) {
	bound, err := s.bind(args)
	if err != nil {
		return nil, err
	}
	defer func() { clear(s.args) }()
	if bound > maxBound {
		return s.conn.ExecContext(background, query, args...)
	}
	err = s.conn.Raw(func(conn any) error {
		stmt, err := s.prepare(conn.(driver.Conn), query)
		if err == nil {
			res, err = stmt.(driver.StmtExecContext).ExecContext(background, s.args)
		}
		return err
	})
	return res, err
}

// bind converts the arguments of a statement, and returns how many bytes they have.
func (s *session) bind(args []any) (bytes int, err error) {
	s.args = s.args[:0]
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return 0, err
		}
		switch v := v.(type) {
		case string:
			bytes += len(v)
		case []byte:
			bytes += len(v)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return bytes, nil
}

// query runs one statement that returns rows, and calls f with each until f returns false. A row lasts
// until f returns; f runs no statement.
func (s *session) query(query string, args []any, f func(row scanner) (bool, error)) error {
	bound, err := s.bind(args)
	if err != nil {
		return err
	}
	if bound > maxBound {
		rows, err := s.conn.QueryContext(background, query, args...)
		return eachRow(rows, err, f)
	}
	return s.conn.Raw(func(conn any) error {
		stmt, err := s.prepare(conn.(driver.Conn), query)
		if err != nil {
			return err
		}
		rows, err := stmt.(driver.StmtQueryContext).QueryContext(background, s.args)
		clear(s.args)
		if err != nil {
			return err
		}
		s.row = slices.Grow(s.row[:0], len(rows.Columns()))[:len(rows.Columns())]
		defer clear(s.row)
		for more := true; more; {
			if err = rows.Next(s.row); err != nil {
				break
			}
			if more, err = f(s.row); err != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, rows.Close())
	})
}

// prepare returns a statement that is kept for the next time.
func (s *session) prepare(conn driver.Conn, query string) (driver.Stmt, error) {
	stmt, ok := s.prepared[query]
	if ok {
		return stmt, nil
	}
	if len(s.prepared) >= maxPrepared {
		s.forget()
	}
	stmt, err := conn.Prepare(query)
	if err == nil {
		s.prepared[query] = stmt
	}
	return stmt, err
}

// forget closes what is prepared.
func (s *session) forget() {
	for _, stmt := range s.prepared {
		_ = stmt.Close() // repeats the error of its last run
	}
	clear(s.prepared)
}

func (s *session) begin() error {
	_, err := s.exec("BEGIN IMMEDIATE")
	return err
}

func (s *session) commit() error {
	_, err := s.exec("COMMIT")
	return err
}

// rollback reports whether the connection is fit for another transaction. After
// some errors SQLite has rolled back by itself, and ROLLBACK fails.
func (s *session) rollback() bool {
	_ = s.script("ROLLBACK")
	return s.idle()
}

// idle reports whether no transaction is open: only then one begins. A deferred one
// takes no lock.
func (s *session) idle() bool {
	return s.script("BEGIN DEFERRED") == nil && s.script("ROLLBACK") == nil
}

// discard closes the connection itself; close would only give it back to its
// handle.
func (s *session) discard() {
	s.forget()
	// The error is the one that is asked for: it makes the handle drop it.
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

func (s *session) close() error {
	if s == nil {
		return nil
	}
	s.forget()
	return s.conn.Close()
}

// checkpoint moves the log into the file and cuts it. It waits at most 100 ms
// for readers, and else leaves it to the next time.
func (s *session) checkpoint(busy time.Duration) (pages int, err error) {
	if err := s.script("PRAGMA busy_timeout = 100"); err != nil {
		return 0, err
	}
	var blocked, moved int
	err = s.conn.QueryRowContext(background, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	if e := s.script(fmt.Sprintf("PRAGMA busy_timeout = %d", max(busy.Milliseconds(), 1))); err == nil {
		err = e
	}
	return pages, err
}

// remember keeps the place of a run.
func (s *session) remember(run string, at place) {
	if len(s.rows) >= maxRows {
		clear(s.rows)
	}
	s.rows[run] = at
}

// tx is the transaction that a write runs in.
type tx struct {
	s    *session
	now  time.Time // by the store's clock
	args []any     // room for those of a statement
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.s.exec(query, args...)
	return err
}

// changed runs a statement and reports whether it met a row.
func (t *tx) changed(query string, args ...any) (bool, error) {
	res, err := t.s.exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// row returns the first row of a query; its Scan fails with sql.ErrNoRows where there is none.
func (t *tx) row(query string, args ...any) scanner { return &first{t, query, args} }

// first is the first row of a query, which runs when it is scanned.
type first struct {
	t     *tx
	query string
	args  []any
}

func (r *first) Scan(dest ...any) error {
	met := false
	err := r.t.s.query(r.query, r.args, func(row scanner) (bool, error) {
		met = true
		return false, row.Scan(dest...)
	})
	if err == nil && !met {
		return sql.ErrNoRows
	}
	return err
}

func (t *tx) each(query string, args []any, f func(scan scanner) (bool, error)) error {
	return t.s.query(query, args, f)
}
