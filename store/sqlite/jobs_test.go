package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
	"github.com/troupe-dev/troupe/store/storetest"
)

func BenchmarkJobs(b *testing.B) {
	storetest.BenchmarkJobs(b, func(b *testing.B) store.Store {
		return openAt(b, filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Normal})
	})
}
