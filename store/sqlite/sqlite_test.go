package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
	"github.com/troupe-dev/troupe/store/storetest"
)

// openAt opens the store at path and closes it with the test.
func openAt(tb testing.TB, path string, opts *sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(path, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return openAt(t, filepath.Join(t.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Normal})
	})
}

func BenchmarkAppend(b *testing.B) {
	for mode, name := range []string{sqlite.Full: "full", sqlite.Normal: "normal"} {
		b.Run("sync="+name, func(b *testing.B) {
			storetest.Benchmark(b, func(b *testing.B) store.Store {
				return openAt(b, filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Synchronous(mode)})
			})
		})
	}
}
