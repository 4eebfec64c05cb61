package mcpclient

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/mcp"
)

// echoServer is the floor of a server: it scans a line and writes the answer.
// Answers wait until there is nothing more to read.
func echoServer() {
	in := frame.NewReader(os.Stdin, 0)
	out := bufio.NewWriter(os.Stdout)
	var buf []byte
	for {
		line, err := in.Next()
		if err != nil {
			return
		}
		var m mcp.Message
		if mcp.Scan(line, &m) != nil || m.Kind != mcp.KindRequest {
			continue
		}
		switch m.Method {
		case mcp.MethodInitialize:
			buf = mcp.AppendResult(buf[:0], m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}`))
		case mcp.MethodCallTool:
			buf = mcp.AppendResult(buf[:0], m.ID, echoed)
		default:
			buf = mcp.AppendError(buf[:0], m.ID, mcp.ErrMethodNotFound)
		}
		_, _ = out.Write(append(buf, '\n'))
		if !in.Buffered() {
			out.Flush()
		}
	}
}

var (
	echoArgs = json.RawMessage(`{"text":"0123456789012345678901234567890123456789"}`)
	echoed   = []byte(`{"content":[{"type":"text","text":"0123456789012345678901234567890123456789"}]}`)
)

// BenchmarkStdioCall is one tools/call to a server process (P15). floor is a
// client with a mutex, a map and channels, without actors, limits or
// supervision; it decodes results in the same way.
func BenchmarkStdioCall(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d/client", callers), func(b *testing.B) {
			s := childServer("echo")
			s.Protocol = ProtocolLegacy
			c, err := Dial(b.Context(), s, nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Shutdown(b.Context())
			measure(b, callers, func() error { _, err := c.CallTool(b.Context(), "echo", echoArgs, nil); return err })
		})
		b.Run(fmt.Sprintf("callers=%d/floor", callers), func(b *testing.B) {
			f := newFloor(b)
			measure(b, callers, f.call)
		})
	}
}

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

// floorClient is the least that a client can do.
type floorClient struct {
	mu    sync.Mutex
	out   *bufio.Writer
	last  int64
	calls map[string]chan *mcp.CallToolResult
}

func newFloor(b *testing.B) *floorClient {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeVariable+"=echo")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	f := &floorClient{out: bufio.NewWriter(in), calls: make(map[string]chan *mcp.CallToolResult)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.read(frame.NewReader(out, 0))
	}()
	b.Cleanup(func() {
		in.Close()
		<-done
		_ = cmd.Wait()
	})
	return f
}

func (f *floorClient) read(in *frame.Reader) {
	for {
		line, err := in.Next()
		if err != nil {
			return
		}
		var m mcp.Message
		if mcp.Scan(line, &m) != nil {
			continue
		}
		f.mu.Lock()
		ch := f.calls[m.ID.String()]
		delete(f.calls, m.ID.String())
		f.mu.Unlock()
		res := new(mcp.CallToolResult)
		if ch != nil && decode(append([]byte(nil), m.Result...), res) == nil {
			ch <- res
		}
	}
}

func (f *floorClient) call() error {
	params, err := toolParams("echo", echoArgs)
	if err != nil {
		return err
	}
	ch := make(chan *mcp.CallToolResult, 1)
	f.mu.Lock()
	f.last++
	id := mcp.IntID(f.last)
	f.calls[strconv.FormatInt(f.last, 10)] = ch
	_, _ = f.out.Write(append(mcp.AppendRequest(nil, id, mcp.MethodCallTool, params), '\n'))
	err = f.out.Flush()
	f.mu.Unlock()
	if err == nil {
		<-ch
	}
	return err
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
