package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// BenchmarkInProcess is a tools/call to a server in the same process, both sides
// with their actors. cpu-µs/op is the CPU time of the process.
func BenchmarkInProcess(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 60}, {"64KiB", 64 << 10}} {
		in := echoIn{Message: strings.Repeat("x", size.bytes), Count: 3, Tags: []string{"one", "two"}}
		want := in.answer()
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d/floor", size.name, callers), func(b *testing.B) {
				f := startMemoryFloor(b)
				measure(b, callers, func() error { return f.call(in, want) })
			})
			for _, version := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} { // which says more with each message
				b.Run(fmt.Sprintf("%s/callers=%d/troupe-%s", size.name, callers, version), func(b *testing.B) {
					c := dialMemory(b, version)
					measure(b, callers, func() error { return callEcho(b.Context(), c, in, want) })
				})
			}
		}
	}
}

func check(got, want string) error {
	if got != want {
		return fmt.Errorf("echo: got %q, want %q", got, want)
	}
	return nil
}

// dialMemory connects a client with a server that has the tool echo.
func dialMemory(b testing.TB, version mcp.Version) *mcpclient.Client {
	b.Helper()
	s, err := newTroupe()
	if err != nil {
		b.Fatal(err)
	}
	server := mcpclient.InProcess("echo", s)
	server.Protocol = string(version)
	c, err := mcpclient.Dial(b.Context(), server, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context()) // it has ended
		if err := c.Shutdown(ctx); err != nil {
			b.Error(err)
		}
		if err := s.Shutdown(ctx); err != nil {
			b.Error(err)
		}
	})
	return c
}

// measure calls do b.N times from a number of goroutines.
func measure(b *testing.B, callers int, do func() error) {
	for range 1000 { // tools earn their place, heaps their size
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	before, failed := processCPU(os.Getpid())
	b.SetParallelism(max(1, callers/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	if callers == 1 {
		for range b.N {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.StopTimer()
	if after, err := processCPU(os.Getpid()); err == nil && failed == nil {
		b.ReportMetric(float64((after-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
	}
}

// memoryFloor is a server on a goroutine, and channels that carry JSON.
type memoryFloor struct{ requests chan memoryRequest }

type memoryRequest struct {
	data  []byte
	reply chan<- []byte
}

func startMemoryFloor(b *testing.B) memoryFloor {
	f := memoryFloor{make(chan memoryRequest, 64)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range f.requests {
			r.reply <- floorAnswer(r.data)
		}
	}()
	b.Cleanup(func() { close(f.requests); <-done })
	return f
}

// floorAnswer returns nil for what is no request.
func floorAnswer(data []byte) []byte {
	var req floorRequest
	if err := json.Unmarshal(data, &req); err != nil {
		return nil
	}
	res := floorResponse{JSONRPC: "2.0", ID: req.ID}
	res.Result.Content = []floorText{{Type: "text", Text: req.Params.Arguments.answer()}}
	data, err := json.Marshal(&res)
	if err != nil {
		return nil
	}
	return data
}

func (f memoryFloor) call(in echoIn, want string) error {
	req := floorRequest{JSONRPC: "2.0", ID: json.RawMessage("1"), Method: mcp.MethodCallTool}
	req.Params.Name, req.Params.Arguments = "echo", in
	data, err := json.Marshal(&req)
	if err != nil {
		return err
	}
	reply := make(chan []byte, 1)
	f.requests <- memoryRequest{data, reply}
	var res floorResponse
	if err := json.Unmarshal(<-reply, &res); err != nil {
		return err
	}
	return check(res.Result.Content[0].Text, want)
}
