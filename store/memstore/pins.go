package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// SetPin implements [store.Pins].
func (s *Store) SetPin(ctx context.Context, p store.Pin) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.do(ctx, func(now time.Time) error {
		key := pinKey{p.Source, p.Server, p.Tool}
		old, replaces := s.pins[key]
		if !replaces && len(s.pins) >= store.MaxPins {
			return &store.LimitError{Field: "pins", Size: len(s.pins) + 1, Max: store.MaxPins}
		}
		n := sizeOfPin(p)
		if replaces {
			n -= sizeOfPin(old)
		}
		if err := s.grow(n); err != nil {
			return err
		}
		if p.At.IsZero() {
			p.At = now
		}
		p.At = store.Clock(p.At)
		s.pins[key] = p
		return nil
	})
}

// Pin implements [store.Pins].
func (s *Store) Pin(ctx context.Context, source, server, tool string) (p store.Pin, ok bool, err error) {
	if err := checkPin(source, server, tool); err != nil {
		return p, false, err
	}
	err = s.do(ctx, func(time.Time) error {
		p, ok = s.pins[pinKey{source, server, tool}]
		return nil
	})
	return p, ok, err
}

// Pins implements [store.Pins].
func (s *Store) Pins(ctx context.Context) (list []store.Pin, err error) {
	err = s.do(ctx, func(time.Time) error {
		list = slices.AppendSeq(make([]store.Pin, 0, len(s.pins)), maps.Values(s.pins))
		return nil
	})
	slices.SortFunc(list, func(a, b store.Pin) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool))
	})
	return list, err
}

// Unpin implements [store.Pins].
func (s *Store) Unpin(ctx context.Context, source, server, tool string) error {
	if err := checkPin(source, server, tool); err != nil {
		return err
	}
	return s.do(ctx, func(time.Time) error {
		found := false
		for key, p := range s.pins {
			if key.source == source && key.server == server && (tool == "" || key.tool == tool) {
				found = true
				s.used -= sizeOfPin(p)
				delete(s.pins, key)
			}
		}
		if !found {
			return store.ErrNotFound
		}
		return nil
	})
}

func checkPin(source, server, tool string) error {
	return cmp.Or(store.CheckText("source", source), store.CheckText("server", server), store.CheckText("tool", tool))
}

func sizeOfPin(p store.Pin) int64 {
	return int64(entryBytes + len(p.Source) + len(p.Server) + len(p.Tool) + len(p.Hash))
}
