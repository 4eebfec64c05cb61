package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// asks holds the questions, and the order in which they were settled.
type asks struct {
	*memory
	runs    runs // those of the journal
	rows    map[string]*store.Ask
	settled settledList
	decided func(ask string) // called under the lock
}

func newAsks(m *memory, r runs) *asks {
	return &asks{memory: m, runs: r, rows: map[string]*store.Ask{}}
}

// OpenAsk implements [store.Asks].
func (s *asks) OpenAsk(ctx context.Context, a store.Ask) error {
	if err := a.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		if _, ok := s.rows[a.ID]; ok {
			return store.ErrExists
		}
		if a.Run != "" {
			if _, err := s.runs.writable(a.Run); err != nil {
				return err
			}
		}
		a.Decision = store.Decision{}
		if err := s.grow(sizeOfAsk(a)); err != nil {
			return err
		}
		s.add(a, now)
		return nil
	})
}

// add keeps a copy of a pending ask.
func (s *asks) add(a store.Ask, now time.Time) {
	a.Created, a.Expires = now, store.Clock(a.Expires)
	a.Decision = store.Decision{Status: store.AskPending}
	a = clone(a)
	s.rows[a.ID] = &a
}

// decide settles a pending ask, and returns it.
func (s *asks) decide(id string, d store.Decision, now time.Time) *store.Ask {
	if d.At.IsZero() {
		d.At = now
	}
	a := s.rows[id]
	d.At, d.Answer = store.Clock(d.At), body(d.Answer)
	a.Decision = d
	s.settled.add(id, s.rows)
	s.decided(id)
	return a
}

// SettleAsk implements [store.Asks].
func (s *asks) SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error) {
	if err := store.CheckID("ask", id); err != nil {
		return store.Ask{}, err
	}
	if err := d.Check(); err != nil {
		return store.Ask{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Ask, error) {
		a, ok := s.rows[id]
		if !ok {
			return store.Ask{}, store.ErrNotFound
		}
		if seen := a.Seen(now); seen.Status != store.AskPending {
			return clone(seen), store.ErrSettled
		}
		if err := s.grow(sizeOfDecision(d)); err != nil {
			return store.Ask{}, err
		}
		return clone(*s.decide(id, d, now)), nil
	})
}

// Ask implements [store.Asks].
func (s *asks) Ask(ctx context.Context, id string) (store.Ask, error) {
	if err := store.CheckID("ask", id); err != nil {
		return store.Ask{}, err
	}
	return get(ctx, s.memory, func(now time.Time) (store.Ask, error) {
		a, ok := s.rows[id]
		if !ok {
			return store.Ask{}, store.ErrNotFound
		}
		return clone(a.Seen(now)), nil
	})
}

// Asks implements [store.Asks]. It looks at every ask.
func (s *asks) Asks(ctx context.Context, q store.AskQuery) ([]store.Ask, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	cursor, paged, err := store.ParseCursor(q.After)
	if err != nil {
		return nil, err
	}
	list := []store.Ask{}
	err = s.do(ctx, func(now time.Time) error {
		for _, a := range s.rows {
			seen := a.Seen(now)
			if (q.Status == "" || q.Status == seen.Status) && (q.Run == "" || q.Run == a.Run) &&
				(q.Server == "" || q.Server == a.Server) && (!paged || cursor.Before(a.Created, a.ID)) {
				list = append(list, seen)
			}
		}
		slices.SortFunc(list, func(a, b store.Ask) int { return newest(a.Created, b.Created, a.ID, b.ID) })
		list = page(list, q.Limit, store.Ask.Bytes, clone)
		return nil
	})
	return list, err
}

// settledList holds the order in which asks were settled.
type settledList struct {
	last int64 // number of the last one
	ids  []settledAsk
}

type settledAsk struct {
	number int64
	id     string
}

// add numbers an ask. Now and then it forgets those that were deleted.
func (l *settledList) add(id string, asks map[string]*store.Ask) {
	if len(l.ids) > 2*len(asks)+1024 {
		l.ids = slices.DeleteFunc(l.ids, func(e settledAsk) bool { return asks[e.id] == nil })
	}
	l.last++
	l.ids = append(l.ids, settledAsk{l.last, id})
}

// SettledAsks implements [store.Asks].
func (s *asks) SettledAsks(ctx context.Context, after int64, limit int) ([]store.Ask, int64, error) {
	list, last := []store.Ask{}, after
	bytes := 0
	err := s.do(ctx, func(time.Time) error {
		if after < 0 {
			last = s.settled.last
			return nil
		}
		i, _ := slices.BinarySearchFunc(s.settled.ids, after+1, func(e settledAsk, n int64) int { return cmp.Compare(e.number, n) })
		for _, e := range s.settled.ids[i:] {
			a := s.rows[e.id]
			if a == nil {
				continue
			}
			if bytes += a.Bytes(); bytes > store.MaxPageBytes && len(list) > 0 || len(list) == store.PageSize(limit) {
				break
			}
			list, last = append(list, clone(*a)), e.number
		}
		return nil
	})
	if err != nil {
		return nil, after, err
	}
	return list, last, nil
}

// clone copies what a shares with its caller.
func clone(a store.Ask) store.Ask {
	a.Path = slices.Clone(a.Path)
	a.Payload, a.Default, a.Answer = body(a.Payload), body(a.Default), body(a.Answer)
	return a
}

func sizeOfAsk(a store.Ask) int64 {
	n := entryBytes + len(a.ID) + len(a.Run) + len(a.Kind) + len(a.Tool) + len(a.Server) + len(a.Origin) +
		len(a.Trust) + len(a.Payload) + len(a.Hash) + len(a.Default)
	for _, p := range a.Path {
		n += len(p)
	}
	return int64(n) + sizeOfDecision(a.Decision)
}

func sizeOfDecision(d store.Decision) int64 { return int64(len(d.Answer) + len(d.Scope) + len(d.By)) }
