package mcpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
)

// lineServer is a server of 2025-11-25 at the other end of a stream that answers each
// tools/call with the text that its function makes of the request.
func lineServer(t *testing.T, answer func(m *mcp.Message) string) (srv Server, dials *int) {
	t.Helper()
	dials = new(int)
	serve := func(conn net.Conn) {
		defer conn.Close()
		in := bufio.NewScanner(conn)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			m := new(mcp.Message)
			if mcp.Scan(in.Bytes(), m) != nil {
				continue
			}
			text := ""
			switch m.Method {
			case mcp.MethodInitialize:
				text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, m.ID)
			case mcp.MethodCallTool, "":
				text = answer(m)
			default:
				if m.Kind != mcp.KindRequest {
					continue
				}
				text = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
			}
			if text != "" {
				_, _ = io.WriteString(conn, text+"\n")
			}
		}
	}
	srv = Stream("s", func(context.Context) (io.ReadWriteCloser, error) {
		*dials++
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	})
	srv.MaxMessage = 64 << 10
	return srv, dials
}

func textResult(n int) string {
	return `{"content":[{"type":"text","text":"` + strings.Repeat("x", n) + `"}]}`
}

// WIRE-04, ROB-2: an answer that is too long ends the call that it answers, wherever the
// id stands; where it does not stand at an end, all calls under way end. The connection
// goes on.
func TestAnswerTooLong(t *testing.T) {
	tests := []struct {
		name, format string // of the id and the result
		all          bool
	}{
		{"id first", `{"jsonrpc":"2.0","id":%[1]s,"result":%[2]s}`, false},
		{"id last", `{"result":%[2]s,"jsonrpc":"2.0","id":%[1]s}`, false},
		{"id in between", `{"x":` + `"` + strings.Repeat("y", 3000) + `","id":%[1]s,"result":%[2]s}`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, dials := lineServer(t, func(m *mcp.Message) string {
					switch {
					case strings.Contains(string(m.Params), `"big"`):
						return fmt.Sprintf(tt.format, m.ID, textResult(100<<10))
					case strings.Contains(string(m.Params), `"slow"`):
						return ""
					}
					return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, textResult(60<<10))
				})
				c, err := Dial(t.Context(), srv, &Options{System: newSystem(t)})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				slow := make(chan error, 1)
				go func() {
					_, err := c.CallTool(t.Context(), "slow", nil, &CallOptions{Idle: time.Hour})
					slow <- err
				}()
				synctest.Wait()
				_, err = c.CallTool(t.Context(), "big", nil, nil)
				long, ok := errors.AsType[*MessageTooLongError](err)
				if !ok || long.Server != "s" || long.Max != 64<<10 || long.Certain == tt.all || !errors.Is(err, ErrMessageTooLong) || !errors.Is(err, call.ErrInvalidResponse) || !strings.Contains(err.Error(), "maxMessageBytes") {
					t.Errorf("CallTool: got %v, want a MessageTooLongError", err)
				}
				synctest.Wait()
				select {
				case err := <-slow:
					if !tt.all || !errors.Is(err, ErrMessageTooLong) {
						t.Errorf("the other call: got %v", err)
					}
				default:
					if tt.all {
						t.Error("the other call goes on")
					}
				}
				if res, err := c.CallTool(t.Context(), "fits", nil, nil); err != nil || len(res.Content.Text()) != 60<<10 {
					t.Errorf("a call after it: got %v", err)
				}
				if *dials != 1 || c.Status().Generation != 1 {
					t.Errorf("dialled %d times, want once", *dials)
				}
			})
		})
	}
}

// A request of the server that is too long is refused with its id, and a notification is
// passed over (WIRE-04, BASE-08).
func TestQuestionTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var heard []string
		srv, dials := lineServer(t, func(m *mcp.Message) string {
			mu.Lock()
			defer mu.Unlock()
			if m.Method == "" {
				heard = append(heard, fmt.Sprint(m.ID, m.Error))
				return ""
			}
			pad := `"` + strings.Repeat("x", 100<<10) + `"`
			return `{"method":"notifications/message","params":{"data":` + pad + "}}\n" +
				`{"method":"sampling/createMessage","params":{"x":` + pad + `},"jsonrpc":"2.0","id":"q"}` + "\n" +
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, textResult(1))
		})
		c, err := Dial(t.Context(), srv, &Options{System: newSystem(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.CallTool(t.Context(), "t", nil, nil); err != nil {
			t.Errorf("CallTool: got %v", err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(heard) != 1 || !strings.HasPrefix(heard[0], `"q"`) || !strings.Contains(heard[0], "65536 bytes") || *dials != 1 {
			t.Errorf("the server heard %q, want a refusal", heard)
		}
	})
}
