package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// Options changes how a store works; nil is the same as the zero value.
type Options struct {
	// MaxBytes bounds what the store holds: the bytes of all texts and bodies,
	// and a fixed sum for each entry. Zero means 256 MiB.
	MaxBytes int64
	// Now is the clock of leases and expiry. Nil means time.Now.
	Now func() time.Time
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.MaxBytes = cmp.Or(d.MaxBytes, 256<<20)
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

// memory is what the parts of a store share: one lock and one bound.
type memory struct {
	opts Options

	mu     sync.Mutex // guards what follows, and what the parts keep
	closed bool
	used   int64 // bytes, as Options.MaxBytes counts them
}

// do runs f under the lock, with the time by the store's clock, unless the
// context or the store has ended. All access goes through it.
func (s *memory) do(ctx context.Context, f func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f(store.Clock(s.opts.Now()))
}

// get is do for a value.
func get[T any](ctx context.Context, s *memory, f func(now time.Time) (T, error)) (out T, err error) {
	err = s.do(ctx, func(now time.Time) error {
		out, err = f(now)
		return err
	})
	return out, err
}

// newest orders what was created later before what was created earlier.
func newest(a, b time.Time, idA, idB string) int {
	return cmp.Or(b.Compare(a), strings.Compare(idB, idA))
}

// page copies the head of list, as many as a page may have and as it may have bytes.
func page[T, U any](list []T, limit int, size func(U) int, clone func(T) U) []U {
	out, bytes := []U{}, 0
	for _, one := range list[:min(len(list), store.PageSize(limit))] {
		shown := clone(one)
		if bytes += size(shown); bytes > store.MaxPageBytes && len(out) > 0 {
			break
		}
		out = append(out, shown)
	}
	return out
}

// entryBytes is what an entry counts beside its texts.
const entryBytes = 256

// grow counts n more bytes, or refuses them.
func (s *memory) grow(n int64) error {
	if n > 0 && s.used+n > s.opts.MaxBytes {
		return store.ErrFull
	}
	s.used += n
	return nil
}

// body copies b; an empty one is nil, as in every store.
func body(b json.RawMessage) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}
