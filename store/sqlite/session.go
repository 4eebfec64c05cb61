package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"
)

// background has no end on purpose: what has begun is finished, within the
// bounds of SQLite's busy timeout.
var background = context.Background()

// session is the one connection that writes. Only the writer touches it. Nil is
// one that is closed.
type session struct{ conn *sql.Conn }

func openSession(db *sql.DB) (*session, error) {
	conn, err := db.Conn(background)
	if err != nil {
		return nil, err
	}
	return &session{conn}, nil
}

// useWAL is not left to the driver, which would set it before the file is known
// to be ours.
func (s *session) useWAL() error {
	var mode string
	if err := s.conn.QueryRowContext(background, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file cannot use a write-ahead log, its journal mode stays %q", mode)
	}
	return nil
}

func (s *session) exec(query string, args ...any) error {
	_, err := s.conn.ExecContext(background, query, args...)
	return err
}

func (s *session) begin() error  { return s.exec("BEGIN IMMEDIATE") }
func (s *session) commit() error { return s.exec("COMMIT") }

// rollback reports whether the connection is fit for another transaction. After
// some errors SQLite has rolled back by itself, and ROLLBACK fails.
func (s *session) rollback() bool {
	_ = s.exec("ROLLBACK")
	return s.idle()
}

// idle reports whether no transaction is open: only then one begins. A deferred one
// takes no lock.
func (s *session) idle() bool { return s.exec("BEGIN DEFERRED") == nil && s.exec("ROLLBACK") == nil }

// discard closes the connection itself; close would only give it back to its
// handle.
func (s *session) discard() {
	// The error is the one that is asked for: it makes the handle drop it.
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

func (s *session) close() error {
	if s == nil {
		return nil
	}
	return s.conn.Close()
}

// checkpoint moves the log into the file and cuts it. It waits at most 100 ms
// for readers, and else leaves it to the next time.
func (s *session) checkpoint(busy time.Duration) (pages int, err error) {
	if err := s.exec("PRAGMA busy_timeout = 100"); err != nil {
		return 0, err
	}
	var blocked, moved int
	err = s.conn.QueryRowContext(background, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&blocked, &pages, &moved)
	if e := s.exec(fmt.Sprintf("PRAGMA busy_timeout = %d", max(busy.Milliseconds(), 1))); err == nil {
		err = e
	}
	return pages, err
}

// tx is the transaction that a write runs in.
type tx struct {
	s   *session
	now time.Time // by the store's clock
}

func (t *tx) exec(query string, args ...any) error { return t.s.exec(query, args...) }

// changed runs a statement and reports whether it met a row.
func (t *tx) changed(query string, args ...any) (bool, error) {
	res, err := t.s.conn.ExecContext(background, query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func (t *tx) row(query string, args ...any) *sql.Row {
	return t.s.conn.QueryRowContext(background, query, args...)
}

func (t *tx) each(query string, args []any, f func(scan scanner) (bool, error)) error {
	rows, err := t.s.conn.QueryContext(background, query, args...)
	return eachRow(rows, err, f)
}
