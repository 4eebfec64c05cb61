package lists

import (
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// ROB-3: however much is read, what is kept is bounded; what was used last stays.
func TestKeptReadsAreBounded(t *testing.T) {
	var a Answers[int]
	a.byKey.Max, a.byKey.MaxSize = 3, 100
	f := FreshnessOf(mcp.EraModern, time.Hour, mcp.CachePublic, "", time.Now())
	put := func(key string, size int) { a.Put(key, 1, size, f, a.epoch.Load()) }
	has := func(keys string) {
		t.Helper()
		for _, key := range "abcdefg" {
			_, ok, _ := a.Get(string(key), "")
			if want := strings.ContainsRune(keys, key); ok != want {
				t.Errorf("%c is kept: got %v, want %v", key, ok, want)
			}
		}
	}
	put("a", 10)
	put("b", 10)
	put("c", 10)
	a.Get("a", "")
	put("d", 10)
	has("acd")
	put("e", 90)
	has("e")
	put("f", 100) // with its key too much
	has("e")
	put("e", 9)
	put("g", 10)
	has("eg")
	_, _, epoch := a.Get("a", "")
	a.Drop(func(key string) bool { return key == "g" })
	a.Put("a", 1, 1, f, epoch) // it was under way when something changed
	has("e")
	a.Drop(nil)
	has("")
	if n := a.byKey.Len(); n != 0 {
		t.Errorf("%d answers are left", n)
	}
}
