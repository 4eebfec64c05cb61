package call_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// silent takes requests and keeps nothing of them.
type silent struct{}

func (silent) Send(mcp.Outgoing) error { return nil }
func (silent) Close() error            { return nil }

// heap returns the bytes in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A pending call is an actor of at most 1.5 KB with its deadline armed, and no goroutine.
func TestCensusOfPendingCalls(t *testing.T) {
	n := 10_000
	if raceDetector {
		n = 1000
	}
	b := newTable(t, &call.Options{Limit: n})
	b.Open(1, silent{})
	b.Ready()
	calls := make([]*call.Call, n)
	req := &call.Request{Method: mcp.MethodCallTool, Idle: time.Hour, Max: 2 * time.Hour}
	warm := b.Start(req, nil)
	waitFor(t, func() bool { return b.live() == 1 })
	warm.Cancel(nil)
	goroutines := runtime.NumGoroutine()
	before := heap()
	for i := range calls {
		calls[i] = b.Start(req, nil)
	}
	waitFor(t, func() bool { return b.live() == n && b.Stats().Pending == n })
	each := (heap() - before) / uint64(n)
	t.Logf("%d B for each pending call", each)
	if each > 1536 && !raceDetector {
		t.Errorf("a pending call takes %d B, want at most 1536", each)
	}
	if more := runtime.NumGoroutine() - goroutines; more > 8 {
		t.Errorf("%d pending calls have %d goroutines", n, more)
	}
	for _, c := range calls {
		c.Cancel(nil)
	}
	for i := range calls {
		if !calls[i].Completed() {
			t.Fatalf("call %d has no outcome after its cancel", i)
		}
	}
	b.ref.Stop()
	<-b.ref.Stopped()
	if b.live() != 0 || b.Stats().Pending != 0 {
		t.Errorf("afterwards: %d actors and %d calls, want none", b.live(), b.Stats().Pending)
	}
}

// waitFor waits for what another goroutine is about to do.
func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("it did not happen within 30 s")
		}
	}
}
