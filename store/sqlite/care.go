package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/troupe-dev/troupe/internal/diskspace"
	"github.com/troupe-dev/troupe/store"
)

// maxFaults bounds what Check reports.
const maxFaults = 100

// checks find what contradicts itself in the tables. Each returns a text per fault.
var checks = []string{
	"SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
	`SELECT 'a row of ' || "table" || ' refers to a missing row of ' || parent FROM pragma_foreign_key_check`,
	`SELECT 'run ' || id || ' counts ' || seq || ' events, and has ' || n || ' up to number ' || last FROM
		(SELECT r.id, r.seq, count(e.seq) AS n, coalesce(max(e.seq), 0) AS last FROM runs r LEFT JOIN events e ON e.run = r.n GROUP BY r.n)
		WHERE n <> seq OR last <> seq`,
	"SELECT 'ask ' || id || ' belongs to run ' || run || ', which does not exist' FROM asks WHERE run <> '' AND run NOT IN (SELECT id FROM runs)",
	"SELECT 'event ' || seq || ' of run ' || run || ' has no valid body' FROM events WHERE body <> '' AND NOT json_valid(body)",
}

// Check reads the whole file and returns its faults, at most 100; none is a sound store. It
// takes as long as reading the file takes, and other processes may use the store meanwhile.
func (s *Store) Check(ctx context.Context) (faults []string, err error) {
	err = s.read(ctx, "checking the store", func(q reader) error {
		for _, query := range checks {
			err := q.each(query, nil, func(row scanner) (bool, error) {
				var fault string
				err := row.Scan(&fault)
				faults = append(faults, fault)
				return len(faults) < maxFaults, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return faults, err
}

// Backup writes a copy of the store as it is now, without unused space, to a new file that only
// its owner may read. Other processes may use the store meanwhile. An existing file is an error
// that wraps [os.ErrExist], and is left as it is; after any other error no file is left.
func (s *Store) Backup(ctx context.Context, file string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(f.Close(), s.copyTo(ctx, file))
	if err == nil {
		err = syncFile(file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// copyTo fills an empty file, on a connection of its own: those of readers may write nowhere.
func (s *Store) copyTo(ctx context.Context, file string) error {
	s.open.RLock()
	defer s.open.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	db, err := sql.Open(s.opts.library.Name(), writerDSN(s.path, s.opts))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, setIncremental); err != nil { // of the copy
		return err
	}
	if _, err := conn.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("copying the store: %w", translate(s.opts.library, err))
	}
	return nil
}

// Space returns the size of the store with its log, and the room that the disk has for it, in bytes.
func (s *Store) Space() (size, free int64, err error) {
	if size, err = s.size(); err != nil {
		return 0, 0, err
	}
	if free, err = diskspace.Free(filepath.Dir(s.path)); err != nil {
		return 0, 0, fmt.Errorf("looking for the room on the disk of the store: %w", err)
	}
	return size, free, nil
}

// size is the size of the store with its log, in bytes.
func (s *Store) size() (size int64, err error) {
	for _, name := range []string{s.path, s.path + "-wal"} {
		info, err := os.Stat(name)
		switch {
		case err == nil:
			size += info.Size()
		case !errors.Is(err, os.ErrNotExist):
			return 0, fmt.Errorf("looking at the size of the store: %w", err)
		}
	}
	return size, nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
