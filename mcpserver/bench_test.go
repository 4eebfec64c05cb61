package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

type benchIn struct {
	Message string   `json:"message"`
	Count   int      `json:"count"`
	Tags    []string `json:"tags"`
}

func (in benchIn) answer() string {
	return "got " + strconv.Itoa(len(in.Message)) + " bytes and " + strconv.Itoa(len(in.Tags)) + " tags"
}

// BenchmarkInMemory is one tools/call in one process, both sides: the server with
// everything it does, and the least a client can do. The floor is two goroutines
// that pass JSON through channels. The handler of "mayask" takes the request, by which it
// might ask, and does not. Servers as processes of their own are measured
// in package benchmarks.
func BenchmarkInMemory(b *testing.B) {
	for _, size := range []int{60, 64 << 10} {
		arguments, err := json.Marshal(benchIn{Message: strings.Repeat("m", size), Count: 3, Tags: []string{"a", "b"}})
		if err != nil {
			b.Fatal(err)
		}
		for _, callers := range []int{1, 64} {
			name := fmt.Sprintf("bytes=%d/callers=%d", size, callers)
			b.Run(name+"/floor", func(b *testing.B) { benchCalls(b, callers, floorClient(b, arguments)) })
			b.Run(name+"/troupe", func(b *testing.B) { benchCalls(b, callers, linkClient(b, arguments, false)) })
			b.Run(name+"/mayask", func(b *testing.B) { benchCalls(b, callers, linkClient(b, arguments, true)) })
		}
	}
}

// benchCalls lets callers make b.N calls together.
func benchCalls(b *testing.B, callers int, call func(caller int)) {
	for range 20 { // the tool earns its place
		call(0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for range b.N / callers {
				call(caller)
			}
		})
	}
	wg.Wait()
}

func linkClient(b *testing.B, arguments []byte, mayAsk bool) func(int) {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	echo := &mcp.Tool{Name: "echo"}
	if mayAsk {
		err = mcpserver.AddTool(s, echo, func(_ context.Context, _ *mcpserver.ToolRequest, in benchIn) (string, error) { return in.answer(), nil })
	} else {
		err = mcpserver.AddFunc(s, echo, func(_ context.Context, in benchIn) (string, error) { return in.answer(), nil })
	}
	if err != nil {
		b.Fatal(err)
	}
	c := &benchSink{answers: make([]chan bool, 64)}
	requests := make([][]byte, 64)
	for i := range c.answers {
		c.answers[i] = make(chan bool, 1)
		requests[i] = mcp.AppendRequest(nil, mcp.IntID(int64(i)), mcp.MethodCallTool, fmt.Appendf(nil, `{"name":"echo","arguments":%s,"_meta":{%s}}`, arguments, modernMeta))
	}
	link, err := s.Connect(c)
	if err != nil {
		b.Fatal(err)
	}
	return func(caller int) {
		if err := link.Send(mcp.Outgoing{Frame: requests[caller]}); err != nil {
			b.Error(err)
			return
		}
		if !<-c.answers[caller] {
			b.Error("the call failed")
		}
	}
}

type benchSink struct{ answers []chan bool }

func (c *benchSink) Frame(frame []byte) {
	var m mcp.Message
	if err := mcp.Scan(frame, &m); err != nil {
		return
	}
	id, _ := m.ID.Int64()
	c.answers[id] <- m.Kind == mcp.KindResult
}

func (c *benchSink) Lost(error) {}

type (
	floorRequest struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Method  string `json:"method"`
		Params  struct {
			Name      string  `json:"name"`
			Arguments benchIn `json:"arguments"`
		} `json:"params"`
	}
	floorAnswer struct {
		JSONRPC string `json:"jsonrpc"`
		ID      int    `json:"id"`
		Result  struct {
			Content []floorText `json:"content"`
		} `json:"result"`
	}
	floorText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

func floorClient(b *testing.B, arguments []byte) func(int) {
	requests, answers := make(chan []byte, 64), make([]chan []byte, 64)
	var in benchIn
	if err := json.Unmarshal(arguments, &in); err != nil {
		b.Fatal(err)
	}
	for i := range answers {
		answers[i] = make(chan []byte, 1)
	}
	b.Cleanup(func() { close(requests) })
	go func() {
		for raw := range requests {
			var q floorRequest
			if err := json.Unmarshal(raw, &q); err != nil {
				panic(err)
			}
			a := floorAnswer{JSONRPC: "2.0", ID: q.ID}
			a.Result.Content = []floorText{{"text", q.Params.Arguments.answer()}}
			raw, err := json.Marshal(a)
			if err != nil {
				panic(err)
			}
			answers[q.ID] <- raw
		}
	}()
	return func(caller int) {
		q := floorRequest{JSONRPC: "2.0", ID: caller, Method: mcp.MethodCallTool}
		q.Params.Name, q.Params.Arguments = "echo", in
		raw, err := json.Marshal(q)
		if err != nil {
			b.Error(err)
			return
		}
		requests <- raw
		var a floorAnswer
		if err := json.Unmarshal(<-answers[caller], &a); err != nil {
			b.Error(err)
		}
	}
}
