package negotiate

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
)

// A verdict holds for an hour, and the newest on a server counts.
func TestEras(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Eras
		want := func(eras ...mcp.Era) {
			t.Helper()
			for i, era := range eras {
				if got := e.Get(strconv.Itoa(i)); got != era {
					t.Errorf("server %d: got %v, want %v", i, got, era)
				}
			}
		}
		const unknown, legacy, modern = mcp.EraUnknown, mcp.EraLegacy, mcp.EraModern
		e.Set("0", unknown)
		want(unknown, unknown, unknown)
		for key, era := range []mcp.Era{legacy, modern, legacy} {
			e.Set(strconv.Itoa(key), era)
		}
		want(legacy, modern, legacy)
		time.Sleep(EraLife / 2)
		e.Set("0", modern)
		e.Set("1", unknown)
		want(modern, unknown, legacy)
		time.Sleep(EraLife / 2)
		want(modern, unknown, legacy)
		time.Sleep(time.Nanosecond)
		want(modern, unknown, unknown)
		e.Set("2", modern)
		e.Set("2", legacy)
		if n := e.newest.Load().len(); n != 2 {
			t.Errorf("%d verdicts are kept, want 2", n)
		}
		want(modern, unknown, legacy)
	})
}

// There is a bound, within which the newest are kept; those who set verdicts at the same time lose none.
func TestErasMany(t *testing.T) {
	var e Eras
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range maxVerdicts / 4 {
				e.Set(strconv.Itoa(j*4+i), mcp.EraModern)
			}
		})
	}
	all.Wait()
	for i := range maxVerdicts {
		if e.Get(strconv.Itoa(i)) != mcp.EraModern {
			t.Fatalf("verdict %d is lost", i)
		}
	}
	e.Set("more", mcp.EraLegacy)
	if n := e.newest.Load().len(); n != maxVerdicts/2+1 || e.Get("more") != mcp.EraLegacy {
		t.Errorf("%d verdicts are kept, and the newest is %v", n, e.Get("more"))
	}
}
