package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/frame"
	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/pipe"
)

// lineSink writes what a wire says as lines.
type lineSink struct {
	mu   sync.Mutex
	conn io.Writer
}

func (s *lineSink) Frame(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.conn.Write(append(append([]byte(nil), frame...), '\n'))
}

func (s *lineSink) Lost(error) {}

// serveLines answers the lines of a stream as w does, until it ends.
func serveLines(conn io.ReadWriteCloser, w *wire) {
	defer conn.Close()
	link, err := w.Connect(&lineSink{conn: conn})
	if err != nil {
		return
	}
	in := frame.NewReader(conn, 0)
	for {
		line, err := in.Next()
		if err != nil {
			return
		}
		_ = link.Send(mcp.Outgoing{Frame: line})
	}
}

// echoTools answers a call with its arguments, as a text.
func echoTools(v mcp.Version) *wire {
	w := newWire(v, map[string]string{mcp.MethodListTools: pageOf(mcp.MethodListTools, "", "echo")})
	w.methods[mcp.MethodCallTool] = func(m *mcp.Message) string {
		var p mcp.CallToolParams
		if err := m.DecodeParams(&p); err != nil {
			return `!{"code":-32602,"message":"bad"}`
		}
		text, _ := json.Marshal(string(p.Arguments))
		return `{"resultType":"complete","content":[{"type":"text","text":` + string(text) + `}]}`
	}
	return w
}

// soleText is the text that a result consists of.
func soleText(res *mcp.CallToolResult) string {
	if res == nil || len(res.Content) != 1 {
		return ""
	}
	text, _ := res.Content[0].(*mcp.TextContent)
	if text == nil {
		return ""
	}
	return text.Text
}

// WIRE-02: any byte stream carries every revision, and a new one follows when it ends.
func TestStream(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := newSystem(t)
				streams := make(chan net.Conn, 10)
				server := Stream("pipe", func(context.Context) (io.ReadWriteCloser, error) {
					ours, theirs := net.Pipe()
					streams <- theirs
					go serveLines(theirs, echoTools(v))
					return ours, nil
				})
				c, err := Dial(t.Context(), server, &Options{System: sys})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if info, err := c.Info(t.Context()); err != nil || info.Version != v {
					t.Errorf("Info: got %+v, %v, want %s", info, err, v)
				}
				for i := range 3 {
					want := fmt.Sprintf(`{"n":%d}`, i)
					res, err := c.CallTool(t.Context(), "echo", json.RawMessage(want), nil)
					if err != nil || soleText(res) != want {
						t.Errorf("CallTool(%s) on stream %d: got %q, %v", want, i, soleText(res), err)
					}
					(<-streams).Close() // the peer goes; the next call waits for another
					synctest.Wait()
				}
			})
		})
	}
}

// WIRE-02, on what it is meant for.
func TestStreamOverUnixSocket(t *testing.T) {
	sys := realSystem(t)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		mcptest.Lacks(t, "unix sockets", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveLines(conn, echoTools(mcp.V2025_11_25)) })
		}
	})
	defer serving.Wait()
	defer l.Close()
	c, err := Dial(t.Context(), Stream("socket", func(ctx context.Context) (io.ReadWriteCloser, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}), &Options{System: sys})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			want := fmt.Sprintf(`{"n":%d}`, i)
			res, err := c.CallTool(t.Context(), "echo", json.RawMessage(want), nil)
			if err != nil || soleText(res) != want { // SECA-6
				t.Errorf("CallTool(%s): got %q, %v", want, soleText(res), err)
			}
		})
	}
	calls.Wait()
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// streamTo is a client's link over one end of a pipe, without the client.
func streamTo(t *testing.T, conn io.ReadWriteCloser, sink mcp.Sink) mcp.Link {
	t.Helper()
	l := pipe.NewStream(conn, pipeOptions(newSystem(t), sink))
	t.Cleanup(func() { l.Close() })
	return l
}

// WIRE-04, STDIO-02, STDIO-03, ROB-2, ROB-3: what a hostile peer may write.
func TestStreamHostile(t *testing.T) {
	tests := []struct {
		name, text string
		frames     int
		skipped    int
		lost       func(error) bool
	}{
		{"good, blank and stray lines", "{}\r\n\n  \nhello\n[1]\n{}", 3, 0, func(err error) bool { return err == nil }},
		{"too long", "{}\n{" + strings.Repeat("x", maxMessage) + "}\n{}\n", 2, 1, func(err error) bool { return err == nil }},
		{"junk that is too long", "{}\n" + strings.Repeat("x", 3*maxMessage) + "\n{}\n", 2, 0, func(err error) bool { return err == nil }},
		{"no end of line", "{" + strings.Repeat("x", maxMessage+10), 0, 1, func(err error) bool { return err == nil }},
		{"only junk", strings.Repeat("junk\n", 1005), 0, 0, func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "no messages")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				sink := new(mailbox)
				streamTo(t, ours, sink)
				go func() {
					io.WriteString(theirs, tt.text)
					theirs.Close()
				}()
				time.Sleep(time.Second)
				frames, lost := sink.all()
				if len(frames) != tt.frames || len(sink.skipped) != tt.skipped || len(lost) != 1 || !tt.lost(lost[0]) {
					t.Errorf("got %d frames, %d skipped, lost %v, want %d, %d and the end", len(frames), len(sink.skipped), lost, tt.frames, tt.skipped)
				}
				theirs.Close()
			})
		})
	}
}

// A stream that is cut at any byte gives the messages that were whole, and its end.
func TestStreamCutAtEveryByte(t *testing.T) {
	const text = "{\"a\":1}\n{\"b\":\"ü\"}\r\n\n[1]\n"
	for cut := range len(text) + 1 {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			sink := new(mailbox)
			streamTo(t, ours, sink)
			io.WriteString(theirs, text[:cut])
			theirs.Close()
			time.Sleep(time.Second)
			frames, lost := sink.all()
			if want := strings.Count(text[:cut], "\n"); len(frames) > want+1 || len(lost) != 1 {
				t.Errorf("cut at %d: got frames %q, lost %v", cut, frames, lost)
			}
		})
	}
}

// Half-open: a peer that does not read, nor close. What waits for it is bounded, and
// so is Close (ROB-7, ROB-8, STDIO-09).
func TestStreamPeerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		sink := new(mailbox)
		l := streamTo(t, ours, sink)
		big := mcp.Outgoing{Frame: []byte("{\"x\":\"" + strings.Repeat("y", 1<<20) + "\"}")}
		var err error
		for n := 0; err == nil && n < 100; n++ {
			err = l.Send(big)
		}
		if !errors.Is(err, call.ErrBusy) {
			t.Errorf("Send to a peer that does not read: got %v, want ErrBusy", err)
		}
		start := time.Now()
		l.Close()
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("Close took %v", d)
		}
		if _, lost := sink.all(); len(lost) != 1 {
			t.Errorf("got lost %v, want once", lost)
		}
		if err := l.Send(big); err == nil {
			t.Error("Send after Close: got no error")
		}
		theirs.Close()
	})
}

func TestStreamDialFails(t *testing.T) {
	refused := errors.New("refused")
	tests := map[string]struct {
		dial func(ctx context.Context) (io.ReadWriteCloser, error)
		want error
	}{
		"error":   {func(context.Context) (io.ReadWriteCloser, error) { return nil, refused }, refused},
		"nothing": {func(context.Context) (io.ReadWriteCloser, error) { return nil, nil }, nil},
		"hangs": {func(ctx context.Context) (io.ReadWriteCloser, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int32
				server := Stream("x", func(ctx context.Context) (io.ReadWriteCloser, error) {
					dials.Add(1)
					return tt.dial(ctx)
				})
				server.ConnectTimeout = time.Second
				_, err := Dial(t.Context(), server, &Options{System: newSystem(t)})
				if err == nil || tt.want != nil && !errors.Is(err, tt.want) || dials.Load() != 1 {
					t.Errorf("Dial: got %v after %d attempts, want %v after one", err, dials.Load(), tt.want)
				}
			})
		})
	}
}

func TestStreamNeedsDial(t *testing.T) {
	if _, err := Dial(t.Context(), Stream("x", nil), nil); err == nil {
		t.Error("Dial of a stream without a function: got no error")
	}
}
