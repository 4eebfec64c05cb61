package sqlite

import (
	"cmp"
	"context"
	"errors"

	"github.com/troupe-dev/troupe/store"
)

func scanPin(row scanner) (p store.Pin, err error) {
	err = row.Scan(&p.Source, &p.Server, &p.Tool, &p.Hash, (*micros)(&p.At))
	return p, found(err)
}

// SetPin implements [store.Pins].
func (s *Store) SetPin(ctx context.Context, p store.Pin) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.writer.do(ctx, "recording what a tool is", weight{events: 1}, func(t *tx) error {
		var others int
		if err := t.row("SELECT count(*) FROM pins WHERE NOT (source = ? AND server = ? AND tool = ?)",
			p.Source, p.Server, p.Tool).Scan(&others); err != nil {
			return err
		}
		if others >= store.MaxPins {
			return &store.LimitError{Field: "pins", Size: others + 1, Max: store.MaxPins}
		}
		at := p.At
		if at.IsZero() {
			at = t.now
		}
		return t.exec("INSERT OR REPLACE INTO pins (source, server, tool, hash, at) VALUES (?,?,?,?,?)",
			p.Source, p.Server, p.Tool, p.Hash, at.UnixMicro())
	})
}

// Pin implements [store.Pins].
func (s *Store) Pin(ctx context.Context, source, server, tool string) (p store.Pin, ok bool, err error) {
	if err := checkPin(source, server, tool); err != nil {
		return store.Pin{}, false, err
	}
	err = s.read(ctx, "looking for what a tool was", func(q reader) error {
		p, err = scanPin(q.row("SELECT source, server, tool, hash, at FROM pins WHERE source = ? AND server = ? AND tool = ?",
			source, server, tool))
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return store.Pin{}, false, nil
	}
	return p, err == nil, err
}

// Pins implements [store.Pins].
func (s *Store) Pins(ctx context.Context) ([]store.Pin, error) {
	list := []store.Pin{}
	err := s.read(ctx, "listing what tools were", func(q reader) error {
		return q.each("SELECT source, server, tool, hash, at FROM pins ORDER BY source, server, tool LIMIT ?",
			[]any{store.MaxPins}, func(row scanner) (bool, error) {
				p, err := scanPin(row)
				list = append(list, p)
				return true, err
			})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Unpin implements [store.Pins].
func (s *Store) Unpin(ctx context.Context, source, server, tool string) error {
	if err := checkPin(source, server, tool); err != nil {
		return err
	}
	return s.writer.do(ctx, "forgetting what a tool was", weight{events: 1}, func(t *tx) error {
		met, err := t.changed("DELETE FROM pins WHERE source = ? AND server = ? AND (? = '' OR tool = ?)", source, server, tool, tool)
		if err == nil && !met {
			return store.ErrNotFound
		}
		return err
	})
}

func checkPin(source, server, tool string) error {
	return cmp.Or(store.CheckText("source", source), store.CheckText("server", server), store.CheckText("tool", tool))
}
