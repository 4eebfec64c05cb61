package hostile

import (
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// One host with 100 servers over stdio and 100 over HTTP: all tools are listed, and each
// is called once. What a server costs is logged. ROB-7: nothing is left afterwards.
func TestManyServers(t *testing.T) {
	each := 100
	if mcptest.Race {
		each = 10
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	mux := http.NewServeMux()
	for i := range each {
		v := mcp.V2025_11_25
		if i%2 == 1 {
			v = mcp.Latest
		}
		mux.Handle(fmt.Sprintf("/s%d", i), &web{p: newPolite("polite", v)})
	}
	url := listen(t, mux)
	var servers []mcpclient.Server
	for i := range each {
		v := mcp.V2025_11_25
		if i%2 == 1 {
			v = mcp.Latest
		}
		process := openStdio(t, "polite", v)
		process.Name = fmt.Sprint("process", i)
		servers = append(servers, process, mcpclient.Server{Name: fmt.Sprint("web", i), URL: fmt.Sprintf("%s/s%d", url, i), Protocol: pin(v)})
	}
	runtime.GC()
	debug.FreeOSMemory()
	base, baseHeap, baseGo := resident(), mcptest.Heap(), runtime.NumGoroutine()
	begin := time.Now()
	h := newHost(t, servers, &mcpclient.HostOptions{ListTimeout: time.Minute})
	tools, err := h.Tools(t.Context())
	for _, s := range h.Servers() {
		if s.ListErr != nil || s.Generation != 1 {
			t.Errorf("%s: generation %d, %v", s.Name, s.Generation, s.ListErr)
		}
	}
	if err != nil || len(tools) != 2*each {
		t.Fatalf("Tools: got %d, %v, want %d", len(tools), err, 2*each)
	}
	listed := time.Since(begin)
	var all sync.WaitGroup
	begin = time.Now()
	for _, tool := range tools {
		all.Go(func() {
			res, err := h.Call(t.Context(), tool.Name, nil, nil)
			if err != nil || res.Content.Text() != "echo" {
				t.Errorf("%s: got %+v, %v", tool.Name, res, err)
			}
		})
	}
	all.Wait()
	called := time.Since(begin)
	runtime.GC()
	debug.FreeOSMemory()
	n := int64(2 * each)
	t.Logf("%d servers: listed in %v, called in %v; for each %.1f KiB of heap, %.1f KiB resident, %.1f goroutines (servers over HTTP and their goroutines are in this process)",
		n, listed, called, float64(mcptest.Heap()-baseHeap)/float64(n)/1024, float64(resident()-base)/float64(n)/1024, float64(runtime.NumGoroutine()-baseGo)/float64(n))
	for owner, count := range goroutinesByOwner() {
		if count >= each/2 {
			t.Logf("%5d goroutines in %s", count, owner)
		}
	}
	begin = time.Now()
	closeSoon(t, h.Close)
	t.Logf("closed in %v", time.Since(begin))
	mcptest.GoroutinesBack(t, baseGo+each) // the connections of the test's own HTTP server end by themselves
}

// goroutinesByOwner counts them by the function that started them.
func goroutinesByOwner() map[string]int {
	buf := make([]byte, 8<<20)
	counts := map[string]int{}
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if _, by, ok := strings.Cut(g, "created by "); ok {
			by, _, _ = strings.Cut(by, "\n")
			by, _, _ = strings.Cut(by, " in goroutine")
			counts[by]++
		}
	}
	return counts
}
