package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	b := store.Backlog{Asks: map[string]int{}, Succeeded: map[string]time.Time{}}
	now, never := s.database.now().UnixMicro(), time.Time{}.UnixMicro()
	// One statement: what it says is of one moment.
	query := "SELECT 'ask', kind, count(*), min(created) FROM asks WHERE status = 'pending' AND (expires = ? OR expires > ?) GROUP BY kind " +
		"UNION ALL SELECT 'queued', '', 0, min(due) FROM jobs WHERE state = 'queued' AND due <= ? " +
		"UNION ALL SELECT 'parked', '', count(*), NULL FROM jobs WHERE state = 'waiting' AND owner = '' " +
		"UNION ALL SELECT 'schedule', name, 0, (SELECT updated FROM jobs WHERE schedule = s.name AND state = 'done' ORDER BY created DESC, id DESC LIMIT 1) FROM schedules AS s"
	err := s.read(ctx, "counting what waits", func(q reader) error {
		return q.each(query, []any{never, now, now}, func(row scanner) (bool, error) {
			var what, name string
			var n int
			var micros sql.NullInt64
			if err := row.Scan(&what, &name, &n, &micros); err != nil {
				return false, err
			}
			var at time.Time
			if micros.Valid {
				at = time.UnixMicro(micros.Int64).UTC()
			}
			switch what {
			case "ask":
				b.Asks[name] = n
				if b.OldestAsk.IsZero() || at.Before(b.OldestAsk) {
					b.OldestAsk = at
				}
			case "queued":
				b.OldestJob = at
			case "parked":
				b.Parked = n
			case "schedule":
				b.Succeeded[name] = at
			}
			return true, nil
		})
	})
	if err != nil {
		return store.Backlog{}, err
	}
	return b, nil
}
