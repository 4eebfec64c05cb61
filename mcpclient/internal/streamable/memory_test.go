package streamable_test

import (
	"net/http"
	"net/url"
	"runtime"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/streamable"
)

// P16: an idle link holds no goroutine and at most 1 KiB.
func TestMemory(t *testing.T) {
	const n = 1000
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	u, _ := url.Parse("http://mcp.test/")
	client := &http.Client{Transport: canned{200, "application/json", []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)}}
	s := newSink()
	links := make([]*streamable.Link, n)
	before, goroutines := inUse(), runtime.NumGoroutine()
	for i := range links {
		l := streamable.New(streamable.Options{URL: u, Client: client, Sink: discard{s}, Go: func(_ string, f func()) { go f() }})
		l.Speak(mcp.V2026_07_28)
		if err := l.Send(mcp.Outgoing{Frame: []byte(`{}`), Kind: mcp.KindRequest, ID: mcp.IntID(1), Method: "tools/list"}); err != nil {
			t.Fatal(err)
		}
		links[i] = l
	}
	for runtime.NumGoroutine() > goroutines {
		runtime.Gosched()
	}
	each := float64(inUse()-before) / n
	t.Logf("%.0f bytes for each link", each)
	if each > 1<<10 && !raceEnabled {
		t.Errorf("%.0f bytes for each link, want at most 1024", each)
	}
	runtime.KeepAlive(links)
}

// discard is a sink that keeps nothing.
type discard struct{ *sink }

func (discard) FrameOf(mcp.ID, []byte) {}
func (discard) Frame([]byte)           {}
