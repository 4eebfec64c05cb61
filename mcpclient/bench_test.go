package mcpclient

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

var (
	echoArgs = json.RawMessage(`{"text":"0123456789012345678901234567890123456789"}`)
	echoed   = []byte(`{"content":[{"type":"text","text":"0123456789012345678901234567890123456789"}]}`)
)

// measure reports the CPU time of this process beside the time on the clock.
func measure(b *testing.B, callers int, do func() error) {
	b.ReportAllocs()
	begin := cpuTime()
	if callers == 1 {
		for b.Loop() {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.ReportMetric(float64(cpuTime()-begin)/float64(b.N), "cpu-ns/op")
}

// memoryServer is a server in this process that answers on the caller's goroutine.
type memoryServer struct{}

func (memoryServer) Connect(sink mcp.Sink) (mcp.Link, error) { return memoryLink{sink}, nil }

type memoryLink struct{ sink mcp.Sink }

func (l memoryLink) Send(m mcp.Outgoing) error {
	switch m.Method {
	case mcp.MethodInitialize:
		l.sink.Frame(mcp.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`)))
	case mcp.MethodCallTool:
		l.sink.Frame(mcp.AppendResult(nil, m.ID, echoed))
	case mcp.MethodDiscover:
		l.sink.Frame(mcp.AppendError(nil, m.ID, mcp.ErrMethodNotFound))
	}
	return nil
}

func (l memoryLink) Close() error { l.sink.Lost(nil); return nil }

// BenchmarkMemoryCall is the client's part alone, with a server that does nothing.
func BenchmarkMemoryCall(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c, err := Dial(b.Context(), InProcess("memory", memoryServer{}), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Shutdown(b.Context())
			measure(b, callers, func() error { _, err := c.CallTool(b.Context(), "echo", echoArgs, nil); return err })
		})
	}
}
