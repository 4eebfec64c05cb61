package memstore

import (
	"cmp"
	"context"
	"time"

	"github.com/troupe-dev/troupe/store"
)

func newPins() shelf[store.Pin] {
	return shelf[store.Pin]{
		field: "pins", most: store.MaxPins, rows: map[[3]string]store.Pin{},
		size: func(p *store.Pin) int64 {
			return int64(entryBytes + len(p.Source) + len(p.Server) + len(p.Tool) + len(p.Hash))
		},
		at: func(p *store.Pin) *time.Time { return &p.At },
	}
}

// SetPin implements [store.Pins].
func (s *Store) SetPin(ctx context.Context, p store.Pin) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		return s.pins.put(s, now, [3]string{p.Source, p.Server, p.Tool}, p)
	})
}

// Pin implements [store.Pins].
func (s *Store) Pin(ctx context.Context, source, server, tool string) (p store.Pin, ok bool, err error) {
	if err := checkPin(source, server, tool); err != nil {
		return p, false, err
	}
	err = s.do(ctx, func(time.Time) error {
		p, ok = s.pins.rows[[3]string{source, server, tool}]
		return nil
	})
	return p, ok, err
}

// Pins implements [store.Pins].
func (s *Store) Pins(ctx context.Context) (list []store.Pin, err error) {
	err = s.do(ctx, func(time.Time) error {
		list = s.pins.all()
		return nil
	})
	return list, err
}

// Unpin implements [store.Pins].
func (s *Store) Unpin(ctx context.Context, source, server, tool string) error {
	if err := checkPin(source, server, tool); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error { return s.pins.remove(s, [3]string{source, server, tool}) })
}

func checkPin(source, server, tool string) error {
	return cmp.Or(store.CheckText("source", source), store.CheckText("server", server), store.CheckText("tool", tool))
}
