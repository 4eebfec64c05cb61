package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/store"
)

// asks holds the statements on questions.
type asks struct{ *database }

// askColumns are those of an ask, in the order of scanAsk.
const askColumns = "id, run, kind, tool, server, origin, path, trust, payload, hash, fallback, created, expires, status, answer, scope, by, at"

func scanAsk(row scanner) (a store.Ask, err error) {
	var path string
	if err := found(row.Scan(&a.ID, &a.Run, &a.Kind, &a.Tool, &a.Server, &a.Origin, &path, &a.Trust,
		(*body)(&a.Payload), &a.Hash, (*body)(&a.Default), (*micros)(&a.Created), (*micros)(&a.Expires),
		&a.Status, (*body)(&a.Answer), &a.Scope, &a.By, (*micros)(&a.At))); err != nil {
		return store.Ask{}, err
	}
	if path != "" {
		err = jsonx.Unmarshal([]byte(path), &a.Path)
	}
	return a, err
}

// OpenAsk implements [store.Asks].
func (s *asks) OpenAsk(ctx context.Context, a store.Ask) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.writer.do(ctx, "opening an ask", weight{1, a.Bytes()}, func(t *tx) error {
		var taken bool
		if err := t.row("SELECT EXISTS (SELECT 1 FROM asks WHERE id = ?)", a.ID).Scan(&taken); err != nil {
			return err
		}
		if taken {
			return store.ErrExists
		}
		if a.Run != "" {
			if _, err := t.writable(a.Run); err != nil {
				return err
			}
		}
		return t.openAsk(a)
	})
}

// openAsk adds a pending ask.
func (t *tx) openAsk(a store.Ask) error {
	var path []byte // empty for none
	if len(a.Path) > 0 {
		var err error
		if path, err = jsonx.Marshal(a.Path); err != nil {
			return err
		}
	}
	return t.exec("INSERT INTO asks ("+askColumns+") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,'','','',?)",
		a.ID, a.Run, a.Kind, a.Tool, a.Server, a.Origin, string(path), a.Trust, string(a.Payload), a.Hash,
		string(a.Default), t.now.UnixMicro(), a.Expires.UnixMicro(), string(store.AskPending), time.Time{}.UnixMicro())
}

// SettleAsk implements [store.Asks]. The condition on the status is the single
// transition: of any number of callers one meets the row.
func (s *asks) SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error) {
	if err := store.CheckID("ask", id); err != nil {
		return store.Ask{}, err
	}
	if err := d.Check(); err != nil {
		return store.Ask{}, err
	}
	var a store.Ask
	err := s.writer.do(ctx, "settling an ask", weight{1, len(d.Answer)}, func(t *tx) error {
		won, err := t.settleAsk(id, d)
		if err != nil {
			return err
		}
		a, err = scanAsk(t.row("SELECT "+askColumns+" FROM asks WHERE id = ?", id))
		if err == nil && !won {
			a = a.Seen(t.now)
			return store.ErrSettled
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrSettled) {
		return store.Ask{}, err
	}
	return a, err
}

// settleAsk decides an ask if it is pending, and reports whether it was.
func (t *tx) settleAsk(id string, d store.Decision) (won bool, err error) {
	if d.At.IsZero() {
		d.At = t.now
	}
	won, err = t.changed(`UPDATE asks SET status = ?, answer = ?, scope = ?, by = ?, at = ?, settled = (SELECT settled + 1 FROM fence)
		WHERE id = ? AND status = 'pending' AND (expires = ? OR expires > ?)`,
		string(d.Status), string(d.Answer), d.Scope, d.By, d.At.UnixMicro(),
		id, time.Time{}.UnixMicro(), t.now.UnixMicro())
	if err != nil || !won {
		return false, err
	}
	if err := t.exec("UPDATE fence SET settled = settled + 1"); err != nil {
		return true, err
	}
	return true, t.wake(id)
}

// wake has the job given out that waits for an ask: see [store.Job.Wake].
func (t *tx) wake(ask string) error {
	j, err := scanJob(t.row("SELECT "+jobColumns+" FROM jobs WHERE id = (SELECT job FROM asks WHERE id = ? AND job <> '') AND state = 'waiting' AND owner = ''", ask))
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	j.Wake()
	return t.exec("UPDATE jobs SET not_before = ?, due = ? WHERE id = ?", j.NotBefore.UnixMicro(), j.Due().UnixMicro(), j.ID)
}

// Ask implements [store.Asks].
func (s *asks) Ask(ctx context.Context, id string) (a store.Ask, err error) {
	if err := store.CheckID("ask", id); err != nil {
		return store.Ask{}, err
	}
	err = s.read(ctx, "reading an ask", func(q reader) error {
		a, err = scanAsk(q.row("SELECT "+askColumns+" FROM asks WHERE id = ?", id))
		return err
	})
	if err != nil {
		return store.Ask{}, err
	}
	return a.Seen(s.now()), nil
}

// Asks implements [store.Asks].
func (s *asks) Asks(ctx context.Context, q store.AskQuery) ([]store.Ask, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	now, never := s.now(), time.Time{}.UnixMicro()
	var w where
	switch q.Status {
	case "":
	case store.AskPending:
		w.and("status = 'pending' AND (expires = ? OR expires > ?)", never, now.UnixMicro())
	case store.AskExpired:
		w.and("status = 'expired' OR status = 'pending' AND expires <> ? AND expires <= ?", never, now.UnixMicro())
	default:
		w.and("status = ?", string(q.Status))
	}
	if q.Run != "" {
		w.and("run = ?", q.Run)
	}
	if q.Server != "" {
		w.and("server = ?", q.Server)
	}
	query, args := w.newest("SELECT "+askColumns+" FROM asks", cursor, paged, store.PageSize(q.Limit))
	return list(ctx, s.database, "listing asks", query, args, func(row scanner) (store.Ask, error) {
		a, err := scanAsk(row)
		return a.Seen(now), err
	}, store.Ask.Bytes)
}

// SettledAsks implements [store.Asks].
func (s *asks) SettledAsks(ctx context.Context, after int64, limit int) ([]store.Ask, int64, error) {
	list, last := []store.Ask{}, after
	bytes := 0
	err := s.read(ctx, "listing settled asks", func(q reader) error {
		if after < 0 {
			return q.row("SELECT settled FROM fence").Scan(&last)
		}
		return q.each("SELECT settled, "+askColumns+" FROM asks WHERE settled > 0 AND settled > ? ORDER BY settled LIMIT ?",
			[]any{after, store.PageSize(limit)}, func(row scanner) (bool, error) {
				var place int64
				a, err := scanAsk(placed{row, &place})
				if err != nil {
					return false, err
				}
				if bytes += a.Bytes(); bytes > store.MaxPageBytes && len(list) > 0 {
					return false, nil
				}
				list, last = append(list, a), place
				return true, nil
			})
	})
	if err != nil {
		return nil, after, err
	}
	return list, last, nil
}

// placed is a row with a column before those that are scanned.
type placed struct {
	row   scanner
	place *int64
}

// Scan implements scanner.
func (p placed) Scan(dest ...any) error { return p.row.Scan(append([]any{p.place}, dest...)...) }
