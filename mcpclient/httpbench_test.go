package mcpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
)

// serveHTTP is a server of both eras over HTTP, in a process of its own: it tells its address and echoes.
func serveHTTP() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String() + "/mcp")
	go func() { // ends with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_ = http.Serve(l, http.HandlerFunc(echoHTTP))
}

func echoHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var m mcp.Message
	if err := mcp.Scan(body, &m); err != nil || m.Kind != mcp.KindRequest {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	answer := echoed
	switch m.Method {
	case mcp.MethodInitialize:
		w.Header().Set("Mcp-Session-Id", "0123456789abcdef0123456789abcdef")
		_, _ = io.WriteString(w, handshakeOf(m.ID))
		return
	case mcp.MethodDiscover:
		answer = []byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`)
	case mcp.MethodListTools:
		answer = []byte(`{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"type":"object"}}],"ttlMs":3600000,"cacheScope":"private"}`)
	}
	_, _ = w.Write(mcp.AppendResult(nil, m.ID, answer))
}

// startHTTP starts serveHTTP and returns its address.
func startHTTP(tb testing.TB) string {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), modeVariable+"=http")
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// floorCall is a call with nothing but net/http and a minimum of JSON.
func floorCall(ctx context.Context, client *http.Client, url string, id int64, modern bool) error {
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":%s}}`, id, echoArgs)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if modern {
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "echo")
	} else {
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		req.Header.Set("Mcp-Session-Id", "0123456789abcdef0123456789abcdef")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		ID     int64 `json:"id"`
		Result struct {
			Content []struct{ Type, Text string } `json:"content"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	if answer.ID != id || len(answer.Result.Content) != 1 {
		return errors.New("a wrong answer")
	}
	return nil
}

// P15: a call over HTTP beside the floor, to a server in another process.
func BenchmarkHTTPCall(b *testing.B) {
	url := startHTTP(b)
	for _, callers := range []int{1, 64} {
		for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
			b.Run(fmt.Sprintf("%s/callers=%d/floor", protocol, callers), func(b *testing.B) {
				client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
				defer client.CloseIdleConnections()
				var id atomic.Int64
				measure(b, callers, func() error {
					return floorCall(b.Context(), client, url, id.Add(1), protocol == "2026-07-28")
				})
			})
			b.Run(fmt.Sprintf("%s/callers=%d/troupe", protocol, callers), func(b *testing.B) {
				c, err := Dial(b.Context(), Server{Name: "echo", URL: url, Protocol: protocol}, nil)
				if err != nil {
					b.Fatal(err)
				}
				defer c.Shutdown(b.Context())
				measure(b, callers, func() error { _, err := c.CallTool(b.Context(), "echo", echoArgs, nil); return err })
			})
		}
	}
}

// P15: allocations of a call over HTTP.
func TestHTTPAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	url := startHTTP(t)
	for _, protocol := range []string{"2025-11-25", "2026-07-28"} {
		c, err := Dial(t.Context(), Server{Name: "echo", URL: url, Protocol: protocol}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(200, func() {
			if _, err := c.CallTool(t.Context(), "echo", echoArgs, nil); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%s: %v allocations", protocol, n)
		if n > 75 { // the goal is 90
			t.Errorf("%s: %v allocations, want at most 75", protocol, n)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
