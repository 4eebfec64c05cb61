package call_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// BenchmarkCall is a call with a peer that answers at once, on the goroutine that
// sends. floor is the same with a mutex, a map, a channel and a timer, without
// actors; codec is the coding alone.
func BenchmarkCall(b *testing.B) {
	params := []byte(`{"name":"echo","arguments":{"text":"hello"}}`)
	result := []byte(`{"content":[{"type":"text","text":"hello"}]}`)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d/actor", callers), func(b *testing.B) {
			t := newTable(b, nil)
			t.Open(1, echoLink{func(frame []byte) {
				var m mcp.Message
				if mcp.Scan(frame, &m) == nil {
					t.Deliver(1, &m)
				}
			}, result})
			t.Ready()
			ctx := b.Context()
			req := &call.Request{Method: mcp.MethodCallTool, Params: params}
			drive(b, callers, func() error { _, err := t.Do(ctx, req); return err })
		})
		b.Run(fmt.Sprintf("callers=%d/floor", callers), func(b *testing.B) {
			f := &floor{calls: make(map[string]chan []byte)}
			f.link = echoLink{f.frame, result}
			drive(b, callers, func() error { return f.do(b.Context(), params) })
		})
	}
}

func drive(b *testing.B, callers int, do func() error) {
	b.ReportAllocs()
	if callers == 1 {
		for b.Loop() {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
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

// echoLink answers each request with the same result.
type echoLink struct {
	frame  func([]byte)
	result []byte
}

func (l echoLink) Send(m mcp.Outgoing) error {
	b := buffers.Get().(*[]byte)
	*b = mcp.AppendResult((*b)[:0], m.ID, l.result)
	l.frame(*b)
	buffers.Put(b)
	return nil
}

func (l echoLink) Close() error { return nil }

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// floor is the least that a client can do.
type floor struct {
	link  mcp.Link
	mu    sync.Mutex
	last  int64
	calls map[string]chan []byte
}

func (f *floor) frame(frame []byte) {
	var m mcp.Message
	if mcp.Scan(frame, &m) != nil {
		return
	}
	f.mu.Lock()
	ch := f.calls[m.ID.String()]
	delete(f.calls, m.ID.String())
	f.mu.Unlock()
	ch <- append([]byte(nil), m.Result...)
}

func (f *floor) do(ctx context.Context, params []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ch := make(chan []byte, 1)
	f.mu.Lock()
	f.last++
	id := f.last
	f.calls[strconv.FormatInt(id, 10)] = ch
	f.mu.Unlock()
	b := buffers.Get().(*[]byte)
	*b = mcp.AppendRequest((*b)[:0], mcp.IntID(id), mcp.MethodCallTool, params)
	err := f.link.Send(mcp.Outgoing{Frame: *b, ID: mcp.IntID(id), Kind: mcp.KindRequest})
	buffers.Put(b)
	if err != nil {
		return err
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
