package benchmarks

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// BenchmarkIdleClient is what a connection costs its client's process while nothing is
// under way: connected, listed, called once, and left alone until the goroutines that only
// linger have ended. The servers are processes of their own. Each operation is one more
// connection; the figures mean something from some hundred on:
//
//	go test -run '^$' -bench IdleClient -benchtime 500x ./benchmarks
func BenchmarkIdleClient(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("stdio", func(b *testing.B) {
		server, name := mcpclient.Command(exe, "-test.run=^$"), "ten"
		server.Env = map[string]*string{role: &name}
		idleClients(b, server)
	})
	for _, kind := range []string{"stream", "no stream"} {
		b.Run("HTTP/"+kind, func(b *testing.B) {
			url := startWeb(b, exe, kind)
			idleClients(b, mcpclient.Server{Name: "web", URL: url})
		})
		b.Run("HTTP/"+kind+"/floor", func(b *testing.B) {
			url := startWeb(b, exe, kind)
			idleFloor(b, url)
		})
	}
}

func idleClients(b *testing.B, server mcpclient.Server) {
	server.Protocol = mcpclient.ProtocolLegacy
	sys, err := actors.NewSystem(nil)
	if err != nil {
		b.Fatal(err)
	}
	defer sys.Shutdown(context.Background())
	opts := &mcpclient.Options{System: sys}
	connect := func() *mcpclient.Client {
		c, err := mcpclient.Dial(b.Context(), server, opts)
		if err != nil {
			b.Fatal(err)
		}
		if tools, err := c.ListTools(b.Context()); err != nil || len(tools) != 10 {
			b.Fatal(len(tools), err)
		}
		if err := callEcho(b.Context(), c, echoIn{Message: "hello", Tags: []string{"one"}}, "hello"); err != nil {
			b.Fatal(err)
		}
		return c
	}
	shared := connect() // with what all share
	var clients []*mcpclient.Client
	rest := used()
	for b.Loop() {
		clients = append(clients, connect())
	}
	settled(b).report(b, rest)
	done := make(chan error)
	for _, c := range append(clients, shared) {
		go func() { done <- c.Close() }()
	}
	for range len(clients) + 1 {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// idleFloor is a program that has sent nothing yet but a GET, and reads its answer with a
// buffer of 1 KiB, if there is one.
func idleFloor(b *testing.B, url string) {
	client := &http.Client{Transport: &http.Transport{}}
	rest := used()
	var open []io.Closer
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url+"?floor", nil)
		if err != nil {
			b.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			continue
		}
		open = append(open, resp.Body)
		go func() {
			buf := make([]byte, 1<<10)
			for {
				if _, err := resp.Body.Read(buf); err != nil {
					return
				}
			}
		}()
	}
	client.CloseIdleConnections()
	settled(b).report(b, rest)
	for _, body := range open {
		body.Close()
	}
}

// usage is what the process uses, in bytes but for the last.
type usage struct{ heap, stacks, threads, goroutines float64 }

// settled is [used] once goroutines have stopped ending.
func settled(b *testing.B) usage {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for last, same := 0, 0; same < 12 && b.N > 1; same++ { // idle workers end after 5 to 10 s
		<-tick.C
		if n := runtime.NumGoroutine(); n != last {
			last, same = n, 0
		}
	}
	return used()
}

// used collects, and reads what is left.
func used() usage {
	for range 6 { // each halves the stacks that are too large
		runtime.GC()
	}
	s := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/os-stacks:bytes"},
	}
	metrics.Read(s)
	return usage{float64(s[0].Value.Uint64()), float64(s[1].Value.Uint64()), float64(s[2].Value.Uint64()), float64(runtime.NumGoroutine())}
}

func (u usage) report(b *testing.B, before usage) {
	b.Helper()
	n := float64(b.N)
	b.ReportMetric((u.heap-before.heap)/n, "heap-B/client")
	b.ReportMetric((u.stacks-before.stacks)/n, "stack-B/client")
	b.ReportMetric((u.heap+u.stacks-before.heap-before.stacks)/n, "B/client")
	b.ReportMetric((u.threads-before.threads)/n, "thread-B/client")
	b.ReportMetric((u.goroutines-before.goroutines)/n, "goroutines/client")
}

// tenTools are the tool echo and nine more like it, in 3 KB.
func tenTools() []mcp.Tool {
	tools := make([]mcp.Tool, 10)
	for i := range tools {
		tools[i] = mcp.Tool{
			Name: fmt.Sprintf("tool%d", i), Description: "Does what the other tools do, with a message, a count and tags.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"message":{"type":"string","description":"the message"},"count":{"type":"integer","description":"how often"},"tags":{"type":"array","items":{"type":"string"}}},"required":["message"]}`),
		}
	}
	tools[0].Name = "echo"
	return tools
}

// serveTen serves the ten tools on stdio with little memory, for there are hundreds of it.
func serveTen(r io.Reader, w io.Writer) error {
	in := bufio.NewReader(r)
	list, err := json.Marshal(map[string]any{"tools": tenTools()})
	if err != nil {
		return err
	}
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		var req floorRequest
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if req.ID == nil {
			continue
		}
		answer := `,"result":{"content":[{"type":"text","text":"` + req.Params.Arguments.Message + `"}]}}`
		switch req.Method {
		case "initialize":
			answer = handshake
		case "tools/list":
			answer = `,"result":` + string(list) + `}`
		}
		if _, err := fmt.Fprintf(w, "{\"jsonrpc\":\"2.0\",\"id\":%s%s\n", req.ID, answer); err != nil {
			return err
		}
	}
}

// startWeb starts a server over HTTP and returns its URL.
func startWeb(b *testing.B, exe, kind string) string {
	b.Helper()
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), role+"="+kind)
	cmd.Stderr = b.Output()
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
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(url)
}

// serveWeb serves the ten tools until its input ends, with or without a stream for GET.
func serveWeb(streams bool) error {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err != nil {
		return err
	}
	for _, t := range tenTools() {
		if err := mcpserver.AddFunc(s, &t, func(_ context.Context, in echoIn) (string, error) { return in.answer(), nil }); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	handler := s.Handler()
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && !streams:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.Method == http.MethodGet && r.URL.RawQuery == "floor":
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	fmt.Printf("http://%s/mcp\n", l.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
