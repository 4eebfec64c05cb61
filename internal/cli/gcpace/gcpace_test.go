package gcpace

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// What is live decides how much garbage there may be beside it, at any time anew.
func TestPacer(t *testing.T) {
	for live, want := range map[uint64]int{0: 300, 3 << 20: 300, 4 << 20: 150, 8 << 20: 100, 31 << 20: 100, 32 << 20: 50, 63 << 20: 50, 64 << 20: 20, 8 << 30: 20} {
		if got := growth(live); got != want {
			t.Errorf("growth(%d MiB): got %d %%, want %d", live>>20, got, want)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	set := func() int {
		p := newPacer()
		p.look() // as after a collection
		p.release.Stop()
		return debug.SetGCPercent(100)
	}
	ballast := make([]byte, 70<<20)
	runtime.GC()
	if got := set(); got != 20 {
		t.Errorf("with 70 MiB that are live: got %d %%, want 20", got)
	}
	runtime.KeepAlive(ballast)
	runtime.GC()
	if got := set(); got == 20 {
		t.Error("without them: got 20 %, want more")
	}
}
