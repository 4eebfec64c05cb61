package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// migrations holds 0001.sql, 0002.sql …; the n-th leads to PRAGMA user_version n.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks a file as a store of Troupe ("TRPE"), in its header.
const applicationID = 0x54525045

// A file has room to tell which page is where if this is set before its first table, or before a VACUUM; else it changes nothing.
const (
	setIncremental = "PRAGMA auto_vacuum = INCREMENTAL"
	incremental    = 2 // as the setting is read
)

// identify reports the schema's version, zero for an empty file, and refuses
// what is not a store. It must come before anything is written: the path may be
// another program's database.
func identify(s *session) (version int, err error) {
	var app, objects int
	row := s.conn.QueryRowContext(context.Background(),
		"SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)")
	if err := row.Scan(&app, &version, &objects); err != nil {
		return 0, err
	}
	switch {
	case app == applicationID:
		return version, nil
	case app == 0 && version == 0 && objects == 0:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: it is the database of another program", store.ErrCorrupt)
}

// migrate brings the file to the newest version, in one transaction.
func migrate(s *session) error {
	scripts, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	version, err := identify(s)
	if err != nil {
		return err
	}
	if version > len(scripts) {
		return fmt.Errorf("%w: its schema is %d, this program knows %d", store.ErrTooNew, version, len(scripts))
	}
	if version == 0 {
		if err := s.script(setIncremental); err != nil {
			return err
		}
	}
	if err := s.useWAL(); err != nil {
		return err
	}
	if version == len(scripts) {
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	if err := apply(s, len(scripts)); err != nil {
		s.rollback()
		return err
	}
	return s.commit()
}

// migratePatiently tries again while another process has the file locked, for twice the
// BusyTimeout at the most: SQLite does not wait by itself while the log of a new file is
// turned on.
func migratePatiently(s *session, o Options) error {
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for begun := time.Now(); ; <-pause.C {
		err := migrate(s)
		if !errors.Is(translate(o.library, err), store.ErrBusy) || time.Since(begun) > 2*o.BusyTimeout {
			return err
		}
	}
}

// apply runs in a transaction, and looks again at the version: another process
// may have been faster.
func apply(s *session, newest int) error {
	version, err := identify(s)
	if err != nil {
		return err
	}
	for v := version + 1; v <= newest; v++ {
		script, err := migrations.ReadFile(fmt.Sprintf("migrations/%04d.sql", v))
		if err != nil {
			return err
		}
		if err := s.script(string(script)); err != nil {
			return fmt.Errorf("migrating to schema %d: %w", v, err)
		}
	}
	return s.script(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, max(version, newest)))
}
