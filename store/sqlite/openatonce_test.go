package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestOpenAtOnce: several open a file that does not exist yet at the same moment, such as
// a worker and the command that hands it a job. SQLite answers "locked" at once, without
// waiting, while one of them turns the log on.
func TestOpenAtOnce(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", i))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				s, err := sqlite.Open(path, nil)
				if err != nil {
					t.Errorf("Open: %v", err)
					return
				}
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		all.Wait()
	}
}
