package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/store"
)

// PruneRuns implements [store.Journal].
func (s *journal) PruneRuns(ctx context.Context, p store.Prune) (removed int, err error) {
	return prune(ctx, s.database, "pruning runs", p, "runs", "state NOT IN ('running', 'waiting')",
		"NOT EXISTS (SELECT 1 FROM runs AS p WHERE p.id = runs.parent AND p.state IN ('running', 'waiting'))", (*tx).removeRun)
}

// PruneJobs implements [store.Jobs].
func (s *jobs) PruneJobs(ctx context.Context, p store.Prune) (removed int, err error) {
	return prune(ctx, s.database, "pruning jobs", p, "jobs", "state NOT IN ('queued', 'running', 'waiting')", "NOT untold", (*tx).removeJob)
}

// prune removes what p selects of a table: rows that have ended, and of these such as may go. It looks for them as a reader,
// for it may pass many that stay; the writer only looks again at those that were found.
func prune(ctx context.Context, d *database, doing string, p store.Prune, table, ended, may string, remove func(t *tx, id string, epoch int64) error) (removed int, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	var w where
	w.and(ended)
	w.selection(p)
	var ids []string
	err = d.read(ctx, doing, func(q reader) error {
		before, oldest, oldestID := p.Before.UnixMicro(), int64(math.MinInt64), "" // the oldest of those that are kept by number
		if p.Keep > 0 {
			// The bound, which all are within, has SQLite go through the index in place of sorting all rows.
			err := q.row("SELECT created, id FROM "+table+w.clause()+" AND created <= ? ORDER BY created DESC, id DESC LIMIT 1 OFFSET ?",
				append(slices.Clone(w.args), int64(math.MaxInt64), p.Keep-1)...).Scan(&oldest, &oldestID)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		w.and("created <= ?", max(before, oldest)) // bounds what is looked at: nothing ends before it is created
		w.and("updated < ? OR (created, id) < (?, ?)", before, oldest, oldestID)
		w.and(may)
		return q.each("SELECT id FROM "+table+w.clause()+" ORDER BY created, id LIMIT ?", append(slices.Clone(w.args), p.Most()), func(row scanner) (bool, error) {
			var id string
			err := row.Scan(&id)
			ids = append(ids, id)
			return true, err
		})
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	again := "SELECT epoch FROM " + table + w.clause() + " AND id = ?"
	err = d.writer.do(ctx, doing, weight{events: groupEvents}, func(t *tx) error {
		removed = 0
		for _, id := range ids {
			var epoch int64
			err := t.row(again, append(slices.Clone(w.args), id)...).Scan(&epoch)
			if errors.Is(err, sql.ErrNoRows) { // another process was faster, or it goes on
				continue
			}
			if err == nil {
				err = remove(t, id, epoch)
			}
			if err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	return removed, err
}

// selection requires what p looks at, by agent and state.
func (w *where) selection(p store.Prune) {
	of := func(s store.Selection) (all where) {
		if s.Agent != "" {
			all.and("agent = ?", s.Agent)
		}
		oneOf(&all, "state", s.States)
		return all
	}
	only := of(p.Selection)
	w.conditions, w.args = append(w.conditions, only.conditions...), append(w.args, only.args...)
	for _, s := range p.Except {
		stays := of(s)
		w.and("NOT ("+strings.Join(append(stays.conditions, "true"), " AND ")+")", stays.args...)
	}
}
