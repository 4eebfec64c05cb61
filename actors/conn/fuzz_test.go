package conn_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/mcp"
)

// FuzzFrame: whatever a peer sends, nothing panics, and the call that is out gets
// its one outcome.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `garbage`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"jsonrpc":"2.0","id":1,"result":{}},{"a":1}]`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":""}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":null}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"1","result":{}}`,
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, frame []byte, batches bool) {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{answer: func(l *link, _ mcp.Outgoing) { l.sink.Frame(frame) }}
			if batches {
				p.negotiate = func(_ context.Context, s *conn.Session) error { s.Agree(mcp.V2025_03_26, nil); return nil }
			}
			b := connect(t, p, conn.Options{})
			r := b.Begin(&call.Request{Method: mcp.MethodCallTool}, nil)
			if _, err := r.Wait(t.Context()); b.Stats().Pending != 0 {
				t.Errorf("pending after the outcome %v", err)
			}
		})
	})
}
