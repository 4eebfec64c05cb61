package mcpserver_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// output collects what is written until it is closed.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

func (o *output) Close() error { return nil }

// Whatever bytes come, the server answers a ping behind them, and says nothing
// but messages.
func FuzzServe(f *testing.F) {
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n"
	for _, v := range mcp.Versions() {
		f.Add([]byte(initialize + call(v, 1, "echo", `{"text":"a"}`) + "\n" + call(v, 2, "block", `{}`) + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`))
		f.Add([]byte(request(v, 1, "server/discover", "{}") + "\r\n" + request(v, 2, "tools/list", `{"cursor":"x"}`)))
	}
	f.Add([]byte(initialize + `[{"jsonrpc":"2.0","id":1,"method":"ping"},7,` + call(mcp.V2025_03_26, 2, "steps", `{"n":3,"text":""}`) + `]`))
	f.Add([]byte("garbage\n\x00\n{}\n[]\n" + strings.Repeat("[", 1000)))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`))
	f.Add([]byte(strings.Repeat("a", 70_000)))

	s, _ := newServer(f, &mcpserver.Options{Limits: mcpserver.Limits{Grace: 10 * time.Millisecond, MaxMessage: 64 << 10}})
	const ping = `{"jsonrpc":"2.0","id":"the last","method":"ping"}`
	f.Fuzz(func(t *testing.T, data []byte) {
		out := new(output)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		in := io.MultiReader(bytes.NewReader(data), strings.NewReader("\n"+ping+"\n"))
		if err := s.Serve(ctx, in, out); err != nil {
			t.Fatalf("Serve(%q): %v", data, err)
		}
		said := out.String()
		if !strings.Contains(said, `{"jsonrpc":"2.0","id":"the last","result":{}}`+"\n") {
			t.Fatalf("Serve(%q): the ping was not answered:\n%s", data, said)
		}
		for line := range strings.Lines(said) {
			var m mcp.Message
			err := mcp.Scan([]byte(line), &m)
			if mcp.IsBatch([]byte(line)) {
				err = mcp.ScanBatch([]byte(line), 1000, func([]byte) error { return nil })
			}
			if err != nil || !strings.HasSuffix(line, "\n") {
				t.Fatalf("Serve(%q) said %q: %v", data, line, err)
			}
		}
	})
}
