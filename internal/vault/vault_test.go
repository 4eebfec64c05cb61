package vault_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/internal/vault"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
	"github.com/troupe-dev/troupe/store/sqlite"
)

const planted = "planted-7d1f-secret"

type token struct{ Access string }

func open(t *testing.T, s store.Vault, keys ...[]byte) *vault.Vault {
	t.Helper()
	v, err := vault.New(s, keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustPut(t *testing.T, v *vault.Vault, key string, replaces int64) int64 {
	t.Helper()
	version, err := v.Put(t.Context(), "token", key, replaces, token{planted})
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// TestPut: the second of two writers that have read the same secret is refused.
func TestPut(t *testing.T) {
	v := open(t, memstore.New(nil), seal.NewKey())
	var got token
	if version, err := v.Get(t.Context(), "token", "k", &got); version != 0 || err != nil {
		t.Errorf("Get where there is none: got %d, %v", version, err)
	}
	first := mustPut(t, v, "k", 0)
	if _, err := v.Put(t.Context(), "token", "k", 0, token{"x"}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("Put over another's: got %v, want ErrConflict", err)
	}
	second := mustPut(t, v, "k", first)
	if err := v.DeleteSealed(t.Context(), "token", "k"); err != nil {
		t.Fatal(err)
	}
	anew := mustPut(t, v, "k", 0)
	for _, old := range []int64{first, second} {
		if _, err := v.Put(t.Context(), "token", "k", old, token{"x"}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("Put over a secret that was removed and made anew: got %v, want ErrConflict", err)
		}
	}
	second = anew
	version, err := v.Get(t.Context(), "token", "k", &got)
	if version != second || err != nil || got.Access != planted {
		t.Errorf("Get: got %+v, %d, %v, want %d", got, version, err, second)
	}
}

// TestMovedRows: a row opens in its own place, with the version it was written with, and under
// a key that is here; no error shows the secret (SECA-36, SECA-24).
func TestMovedRows(t *testing.T) {
	s, key := memstore.New(nil), seal.NewKey()
	v := open(t, s, key)
	first := mustPut(t, v, "ada", 0)
	old, err := s.Sealed(t.Context(), "token", "ada")
	if err != nil {
		t.Fatal(err)
	}
	second := mustPut(t, v, "ada", first)
	moved := func(kind, at string, version int64) store.Sealed {
		x := old
		x.Kind, x.Key, x.Version = kind, at, version
		return x
	}
	tests := []struct {
		name string
		row  store.Sealed
		at   int64 // the version that it replaces
		want error
	}{
		{"to another key", moved("token", "bob", old.Version), 0, seal.ErrInvalid},
		{"to another kind", moved("client", "ada", old.Version), 0, seal.ErrInvalid},
		{"in the place of a newer version", moved("token", "ada", second+1), second, seal.ErrInvalid},
		{"cut", store.Sealed{Kind: "token", Key: "cut", Version: 1, Value: []byte{1}}, 0, seal.ErrInvalid},
		{"of a lost key", store.Sealed{Kind: "token", Key: "lost", Version: 1, Value: mustSeal(t)}, 0, seal.ErrUnknownKey},
	}
	for _, tt := range tests {
		if err := s.PutSealed(t.Context(), tt.row, tt.at); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var got token
		_, err := v.Get(t.Context(), tt.row.Kind, tt.row.Key, &got)
		damaged, ok := errors.AsType[*vault.DamagedError](err)
		if !ok || !errors.Is(damaged, tt.want) || got != (token{}) {
			t.Errorf("a row %s: got %+v, %v, want a DamagedError for %v", tt.name, got, err, tt.want)
		}
		if strings.Contains(err.Error(), planted) {
			t.Errorf("a row %s: the error shows the secret: %v", tt.name, err)
		}
	}
}

func mustSeal(t *testing.T) []byte {
	t.Helper()
	k, err := seal.New("other", "other", seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return k.Seal([]byte("x"), nil)
}

// TestReseal: after a key was replaced, the old one is needed no more.
func TestReseal(t *testing.T) {
	s, old, key := memstore.New(nil), seal.NewKey(), seal.NewKey()
	before := open(t, s, old)
	for _, k := range []string{"a", "b", "c"} {
		mustPut(t, before, k, 0)
	}
	both := open(t, s, key, old)
	mustPut(t, both, "d", 0)
	if n, err := both.Reseal(t.Context(), "token"); n != 3 || err != nil {
		t.Errorf("Reseal: got %d, %v, want 3", n, err)
	}
	if n, err := both.Reseal(t.Context(), "token"); n != 0 || err != nil {
		t.Errorf("Reseal again: got %d, %v, want 0", n, err)
	}
	after := open(t, s, key)
	for _, k := range []string{"a", "b", "c", "d"} {
		var got token
		if _, err := after.Get(t.Context(), "token", k, &got); err != nil || got.Access != planted {
			t.Errorf("Get(%q) with the new key alone: got %+v, %v", k, got, err)
		}
	}
	if n, err := open(t, s, seal.NewKey(), key).Reseal(t.Context(), "other"); n != 0 || err != nil {
		t.Errorf("Reseal of a kind without secrets: got %d, %v", n, err)
	}
	if _, err := open(t, s, seal.NewKey()).Reseal(t.Context(), "token"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("Reseal without the old key: got %v, want ErrUnknownKey", err)
	}
}

// TestStoreFile: the file of a store holds no secret in clear, nor does its log (SECA-24, SECA-36).
func TestStoreFile(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(filepath.Join(dir, "troupe.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := open(t, s, seal.NewKey())
	mustPut(t, v, "k", mustPut(t, v, "k", 0))
	var got token
	if _, err := v.Get(t.Context(), "token", "k", &got); err != nil || got.Access != planted {
		t.Errorf("Get: got %+v, %v", got, err)
	}
	look := func(when string) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("the files of the store: %v, %v", files, err)
		}
		for _, name := range files {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), planted) {
				t.Errorf("%s: %s shows the secret", when, filepath.Base(name))
			}
		}
	}
	look("while it is open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look("after Close")
}

// TestKeys: keys come from the variable, else from a file that only its owner may read, which
// is made where there is none (SECA-36).
func TestKeys(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state", "key")
	made, err := vault.Keys("", path)
	if err != nil || len(made) != 1 || len(made[0]) != seal.KeySize {
		t.Fatalf("Keys, first: got %v keys, %v", len(made), err)
	}
	if again, err := vault.Keys("", path); err != nil || string(again[0]) != string(made[0]) {
		t.Errorf("Keys, again: got another key, %v", err)
	}
	one, two := base64.StdEncoding.EncodeToString(seal.NewKey()), base64.StdEncoding.EncodeToString(seal.NewKey())
	if got, err := vault.Keys(one+", "+two+"\n", filepath.Join(dir, "none")); err != nil || len(got) != 2 {
		t.Errorf("Keys of a variable: got %d keys, %v, want 2", len(got), err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("Keys of a variable: made the file")
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bad := map[string][2]string{
		"a short key":   {one[:20], ""},
		"no base64":     {"!" + one, ""},
		"seventeen":     {strings.Repeat(one+"\n", 17), ""},
		"an empty file": {"", write("empty", "", 0o600)},
		"a huge file":   {"", write("huge", strings.Repeat(one+"\n", 100), 0o600)},
		"a folder":      {"", dir},
	}
	if runtime.GOOS != "windows" {
		bad["one that others may read"] = [2]string{"", write("open", one, 0o644)}
	}
	for name, from := range bad {
		_, err := vault.Keys(from[0], from[1])
		if err == nil || strings.Contains(err.Error(), one[:20]) {
			t.Errorf("Keys of %s: got %v, want an error without the key", name, err)
		}
	}
}

// TestKeysAtOnce: of processes that make the file at once all get the same key.
func TestKeysAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	var got [16]string
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			keys, err := vault.Keys("", path)
			if err != nil || len(keys) != 1 {
				t.Errorf("Keys: got %d keys, %v", len(keys), err)
				return
			}
			got[i] = string(keys[0])
		})
	}
	wg.Wait()
	for _, key := range got {
		if key != got[0] {
			t.Fatal("Keys: two processes have made two keys")
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".key-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}
