package expose_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcpclient"
)

// counted is a server whose connections are counted, as a command's processes would be.
type counted struct{ begun, open atomic.Int64 }

func (d *counted) server(t *testing.T) mcpclient.Server {
	def := mcpclient.Stream("down", func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		d.begun.Add(1)
		d.open.Add(1)
		go func() {
			defer d.open.Add(-1)
			defer far.Close()
			for lines := bufio.NewScanner(far); lines.Scan(); {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
					continue
				}
				result := `{}`
				switch m.Method {
				case "initialize":
					result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}`
				case "tools/list":
					result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"long","inputSchema":{"type":"object"}}]}`
				case "tools/call":
					if strings.Contains(lines.Text(), `"long"`) {
						time.Sleep(5 * time.Minute)
					}
					result = `{"content":[{"type":"text","text":"ok"}]}`
				}
				fmt.Fprintf(far, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
			}
		}()
		return near, nil
	})
	def.Protocol, def.IdleTimeout = mcpclient.ProtocolLegacy, time.Hour
	return def
}

// A client with a session that is quiet for two minutes costs no server any more, and finds
// its session, its list and its servers when it comes back.
func TestIdleSessionEndsServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := new(counted)
		rt, err := agent.Open(t.Context(), &agent.Options{Model: llmtest.Script(), Servers: []mcpclient.Server{down.server(t)}})
		if err != nil {
			t.Fatal(err)
		}
		own, err := expose.New(rt, &expose.Options{Gateway: true})
		if err != nil {
			t.Fatal(err)
		}
		f := &front{Front: own, rt: rt}
		time.Sleep(time.Second)
		before := down.open.Load() // the runtime's own
		_, id := f.initialize(t)
		ask := func(body string) string {
			t.Helper()
			w := f.post(t, body, "Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25")
			if w.Code/100 != 2 {
				t.Fatalf("%s: got status %d: %s", body, w.Code, w.Body)
			}
			return w.Body.String()
		}
		ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		list := ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if n := down.open.Load() - before; n != 1 || !strings.Contains(list, "down__t") {
			t.Fatalf("at work: %d connections, list %s", n, list)
		}
		ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"down__long"}}`) // takes 5 minutes
		if n := down.begun.Load() - before; n != 1 {
			t.Errorf("after a long call: %d connections were begun, want 1", n)
		}
		time.Sleep(90 * time.Second)
		if n := down.open.Load() - before; n != 1 {
			t.Errorf("after 90 s: %d connections, want 1", n)
		}
		time.Sleep(90 * time.Second)
		if n := down.open.Load() - before; n != 0 {
			t.Errorf("after 3 minutes: %d connections, want none", n)
		}
		if code := f.ping(t, id); code != http.StatusOK {
			t.Errorf("ping after 3 minutes: got status %d, want the session to be there", code)
		}
		if got := ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"down__t"}}`); !strings.Contains(got, `"ok"`) {
			t.Errorf("a call after 3 minutes: got %s", got)
		}
		if got := ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); got != list {
			t.Errorf("the list after 3 minutes: got %s, want %s", got, list)
		}
		if n := down.begun.Load() - before; n != 2 {
			t.Errorf("%d connections were begun, want 2", n)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait() // the far end of a closed pipe reads its end
		if n := down.open.Load(); n != 0 {
			t.Errorf("after Close: %d connections", n)
		}
		time.Sleep(time.Minute)
	})
}
