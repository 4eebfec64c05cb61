// Package vault keeps secrets in a [store.Vault], sealed: tokens, client registrations and
// connected accounts. A store's file, a backup of it, or a row that was moved to another
// place gives none of them away.
//
// The kind, the key and the version of a secret are in clear, and bound to its value: a row
// opens in its own place only, and not in the place of a newer version.
package vault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/store"
)

// Vault seals values on their way into a store. Its methods may be used from any goroutine.
type Vault struct {
	store.Vault
	keys *seal.Keys
}

// New returns a vault in s. The first key seals, all open; see [Keys].
func New(s store.Vault, keys [][]byte) (*Vault, error) {
	k, err := seal.New("troupe vault key", "troupe vault", keys...)
	if err != nil {
		return nil, err
	}
	return &Vault{s, k}, nil
}

// DamagedError says that a secret cannot be opened. It does not contain the secret.
type DamagedError struct {
	Kind, Key string
	Err       error // [seal.ErrUnknownKey], [seal.ErrInvalid], or that the value is not as expected
}

func (e *DamagedError) Error() string {
	if errors.Is(e.Err, seal.ErrUnknownKey) {
		return fmt.Sprintf("the %s %q was sealed with a key that is not here: give the key back (TROUPE_KEY, or the key file), or remove the entry and make it anew", e.Kind, e.Key)
	}
	return fmt.Sprintf("the %s %q cannot be opened: its entry was changed or moved (%v); remove it and make it anew", e.Kind, e.Key, e.Err)
}

// Unwrap returns e.Err.
func (e *DamagedError) Unwrap() error { return e.Err }

// Put keeps value, as JSON, in the place of the version replaces, 0 for none, and returns the
// version that it has now. [store.ErrConflict] if another writer was faster.
func (v *Vault) Put(ctx context.Context, kind, key string, replaces int64, value any) (version int64, err error) {
	plain, err := jsonx.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("keeping the %s %q: %w", kind, key, err)
	}
	version = max(replaces+1, time.Now().UnixMicro()) // greater than that of any entry that was removed before
	err = v.PutSealed(ctx, store.Sealed{
		Kind: kind, Key: key, Version: version, Value: v.keys.Seal(plain, place(kind, key, version)),
	}, replaces)
	if err != nil {
		return 0, fmt.Errorf("keeping the %s %q: %w", kind, key, err)
	}
	return version, nil
}

// Get reads a secret into value, and returns its version: 0 if there is none, which is no
// error. A [*DamagedError] says that it cannot be opened.
func (v *Vault) Get(ctx context.Context, kind, key string, value any) (version int64, err error) {
	x, err := v.Sealed(ctx, kind, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the %s %q: %w", kind, key, err)
	}
	return x.Version, v.Unseal(&x, value)
}

// Unseal reads the value of an entry, such as one of [store.Vault].AllSealed.
func (v *Vault) Unseal(x *store.Sealed, value any) error {
	plain, err := v.keys.Open(x.Value, place(x.Kind, x.Key, x.Version))
	if err == nil && jsonx.Unmarshal(plain, value) != nil {
		err = errors.New("its value is of another form") // the error would show parts of it
	}
	if err != nil {
		return &DamagedError{Kind: x.Kind, Key: x.Key, Err: err}
	}
	return nil
}

// Reseal seals all secrets of a kind that an older key has sealed with the first key, and
// returns how many. One that is replaced meanwhile needs it no more; one that cannot be opened
// stays as it is, and is part of the error.
func (v *Vault) Reseal(ctx context.Context, kind string) (n int, err error) {
	var bad error
	for after := ""; ; {
		list, err := v.AllSealed(ctx, kind, after, 0)
		if err != nil || len(list) == 0 {
			return n, errors.Join(bad, err)
		}
		for _, x := range list {
			after = x.Key
			if v.keys.Current(x.Value) {
				continue
			}
			plain, err := v.keys.Open(x.Value, place(kind, x.Key, x.Version))
			if err != nil {
				bad = errors.Join(bad, &DamagedError{Kind: kind, Key: x.Key, Err: err})
				continue
			}
			next := x
			next.Version = max(next.Version+1, time.Now().UnixMicro())
			next.Value = v.keys.Seal(plain, place(kind, x.Key, next.Version))
			switch err := v.PutSealed(ctx, next, x.Version); {
			case err == nil:
				n++
			case !errors.Is(err, store.ErrConflict):
				return n, errors.Join(bad, err)
			}
		}
	}
}

// place is what a value belongs to, unambiguously.
func place(kind, key string, version int64) []byte {
	b := binary.AppendUvarint(nil, uint64(len(kind)))
	b = append(b, kind...)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	return binary.AppendVarint(b, version)
}
