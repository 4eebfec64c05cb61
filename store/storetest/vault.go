package storetest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/store"
)

// testVault: a secret is replaced only by a writer that knows the one before.
func testVault(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	put := func(kind, key string, version, replaces int64, value string) error {
		return s.PutSealed(t.Context(), store.Sealed{Kind: kind, Key: key, Version: version, Value: []byte(value)}, replaces)
	}
	wantErr(t, "PutSealed", put("token", "b", 1, 0, "one"), nil)
	wantErr(t, "PutSealed of another key", put("token", "a", 7, 0, "two"), nil)
	wantErr(t, "PutSealed of another kind", put("client", "b", 3, 0, "three"), nil)
	wantErr(t, "PutSealed where there is one", put("token", "b", 2, 0, "x"), store.ErrConflict)
	wantErr(t, "PutSealed over another version", put("token", "b", 3, 2, "x"), store.ErrConflict)
	wantErr(t, "PutSealed of the same version", put("token", "b", 1, 1, "x"), store.ErrConflict)
	wantErr(t, "PutSealed over none", put("token", "c", 2, 1, "x"), store.ErrConflict)
	wantErr(t, "PutSealed over the last", put("token", "b", 5, 1, "four\x00\xff"), nil)

	before := time.Now().Add(-time.Minute)
	for _, want := range []store.Sealed{
		{Kind: "token", Key: "b", Version: 5, Value: []byte("four\x00\xff")}, {Kind: "client", Key: "b", Version: 3, Value: []byte("three")},
	} {
		got, err := s.Sealed(t.Context(), want.Kind, want.Key)
		if err != nil || got.Updated.Before(before) || got.Updated.After(time.Now().Add(time.Minute)) {
			t.Errorf("Sealed: got %+v, %v", got, err)
		}
		got.Updated = time.Time{}
		wantEqual(t, "Sealed", got, want)
	}
	for _, miss := range [][2]string{{"token", "c"}, {"Token", "a"}, {"token", "%"}, {"token", "A"}} {
		_, err := s.Sealed(t.Context(), miss[0], miss[1])
		wantErr(t, fmt.Sprintf("Sealed(%q)", miss), err, store.ErrNotFound)
		wantErr(t, fmt.Sprintf("DeleteSealed(%q)", miss), s.DeleteSealed(t.Context(), miss[0], miss[1]), store.ErrNotFound)
	}
	keys := func(after string, limit int) (keys []string) {
		list, err := s.AllSealed(t.Context(), "token", after, limit)
		wantErr(t, "AllSealed", err, nil)
		for _, x := range list {
			keys = append(keys, x.Key)
		}
		return keys
	}
	wantEqual(t, "AllSealed", keys("", 0), []string{"a", "b"})
	wantEqual(t, "AllSealed, first page", keys("", 1), []string{"a"})
	wantEqual(t, "AllSealed after a", keys("a", 1), []string{"b"})
	wantEqual(t, "AllSealed after b", len(keys("b", 1)), 0)
	wantErr(t, "DeleteSealed", s.DeleteSealed(t.Context(), "token", "b"), nil)
	wantErr(t, "DeleteSealed again", s.DeleteSealed(t.Context(), "token", "b"), store.ErrNotFound)
	wantEqual(t, "AllSealed after DeleteSealed", keys("", 0), []string{"a"})

	large := string(bytes.Repeat([]byte{0}, store.MaxSealed))
	wantErr(t, "PutSealed of the largest", put("token", strings.Repeat("k", store.MaxText), 1, 0, large), nil)
	wantErr(t, "PutSealed of a larger one", put("token", "l", 1, 0, large+"x"), store.ErrTooLarge)
	wantErr(t, "PutSealed without a value", put("token", "l", 1, 0, ""), store.ErrInvalid)
	wantErr(t, "PutSealed without a version", put("token", "l", 0, 0, "x"), store.ErrInvalid)
	wantErr(t, "PutSealed without a key", put("token", "", 1, 0, "x"), store.ErrInvalid)
	wantErr(t, "PutSealed without a kind", put("", "l", 1, 0, "x"), store.ErrInvalid)
}

// testVaultLeases: one owner at a time may renew a secret, whether there is one or not.
func testVaultLeases(t *testing.T, open func(t *testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		lease := func(key, owner string) error {
			return s.LeaseSealed(t.Context(), "token", key, owner, time.Minute)
		}
		wantErr(t, "LeaseSealed", lease("k", "ada"), nil)
		wantErr(t, "LeaseSealed again", lease("k", "ada"), nil)
		wantErr(t, "LeaseSealed of another key", lease("l", "bob"), nil)
		wantErr(t, "LeaseSealed of a leased one", lease("k", "bob"), store.ErrLeased)
		wantErr(t, "ReleaseSealed by another owner", s.ReleaseSealed(t.Context(), "token", "k", "bob"), nil)
		wantErr(t, "LeaseSealed of one that is still leased", lease("k", "bob"), store.ErrLeased)
		wantErr(t, "ReleaseSealed", s.ReleaseSealed(t.Context(), "token", "k", "ada"), nil)
		wantErr(t, "LeaseSealed of a released one", lease("k", "bob"), nil)
		time.Sleep(time.Minute - time.Microsecond)
		wantErr(t, "LeaseSealed before the expiry", lease("k", "ada"), store.ErrLeased)
		time.Sleep(time.Microsecond)
		wantErr(t, "LeaseSealed at the expiry", lease("k", "ada"), nil)
		wantErr(t, "LeaseSealed for no time", s.LeaseSealed(t.Context(), "token", "k", "ada", 0), store.ErrInvalid)
	})
}

// testVaultRace: of writers that replace the same version one wins.
func testVaultRace(t *testing.T, open func(t *testing.T) store.Store) {
	s := open(t)
	for version := range int64(5) {
		var won atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				err := s.PutSealed(t.Context(), store.Sealed{Kind: "token", Key: "k", Version: version + 1, Value: []byte("x")}, version)
				if err == nil {
					won.Add(1)
					return
				}
				wantErr(t, "PutSealed", err, store.ErrConflict)
			})
		}
		wg.Wait()
		wantEqual(t, "writers that replaced a version", won.Load(), int32(1))
	}
}
