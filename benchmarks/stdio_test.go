package benchmarks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// echoIn is the 100-byte payload of every benchmark, or 64 KiB by its message.
type echoIn struct {
	Message string   `json:"message"`
	Count   int      `json:"count"`
	Tags    []string `json:"tags"`
}

func (in echoIn) answer() string {
	return "got " + strconv.Itoa(len(in.Message)) + " bytes, " + strconv.Itoa(len(in.Tags)) + " tags, " + strconv.Itoa(in.Count)
}

// role makes the test binary a server.
const role = "TROUPE_BENCH_SERVER"

var servers = []string{"floor", "troupe"}

func TestMain(m *testing.M) {
	if os.Getenv(role) == "" {
		os.Exit(m.Run())
	}
	if err := serve(os.Getenv(role)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve runs a server; with TROUPE_BENCH_PROFILE its CPU profile goes to that file.
func serve(name string) error {
	if file := os.Getenv("TROUPE_BENCH_PROFILE"); file != "" {
		w, err := os.Create(file)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	switch name {
	case "floor":
		return serveFloor(os.Stdin, os.Stdout)
	case "troupe":
		return serveTroupe()
	}
	return fmt.Errorf("there is no server %q", name)
}

func serveTroupe() error {
	s, err := newTroupe()
	if err != nil {
		return err
	}
	return s.ServeStdio(context.Background())
}

// newTroupe returns a server with the tool echo.
func newTroupe() (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "bench", Version: "1"}, nil)
	if err != nil {
		return nil, err
	}
	return s, mcpserver.AddFunc(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, in echoIn) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(in.answer())}}, nil
	})
}

// BenchmarkStdio reports the CPU time of the server alone for one tools/call.
func BenchmarkStdio(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 60}, {"64KiB", 64 << 10}} {
		for _, inFlight := range []int{1, 16, 64} {
			for _, server := range servers {
				b.Run(fmt.Sprintf("%s/inflight=%d/%s", size.name, inFlight, server), func(b *testing.B) {
					p := startServer(b, server)
					p.load(b, 2000/(1+size.bytes/4096), inFlight, size.bytes) // tools earn their place, heaps their size
					before, err := processCPU(p.cmd.Process.Pid)
					if err != nil {
						b.Skip(err)
					}
					b.ResetTimer()
					p.load(b, b.N, inFlight, size.bytes)
					b.StopTimer()
					after, err := processCPU(p.cmd.Process.Pid)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64((after-before).Nanoseconds())/1000/float64(b.N), "server-cpu-µs/op")
				})
			}
		}
	}
}

// peer is a server process and the raw pipes to it.
type peer struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
	ids int
}

func startServer(b *testing.B, name string) *peer {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), role+"="+name)
	cmd.Stderr = os.Stderr
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
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			b.Errorf("the server %s: %v", name, err)
		}
	})
	p := &peer{cmd: cmd, in: bufio.NewWriterSize(in, 1<<20), out: bufio.NewReaderSize(out, 1<<20)}
	p.send(b, `{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	p.flush(b)
	p.receive(b)
	p.send(b, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	p.flush(b)
	return p
}

// load makes n calls, inFlight at a time, and checks every answer.
func (p *peer) load(b *testing.B, n, inFlight, size int) {
	args, err := json.Marshal(echoIn{Message: strings.Repeat("x", size), Count: 3, Tags: []string{"one", "two"}})
	if err != nil {
		b.Fatal(err)
	}
	want := []byte(fmt.Sprintf("got %d bytes, 2 tags, 3", size))
	sent, done := 0, 0
	for done < n {
		for sent < n && sent-done < inFlight {
			p.ids++
			p.send(b, `{"jsonrpc":"2.0","id":`+strconv.Itoa(p.ids)+`,"method":"tools/call","params":{"name":"echo","arguments":`+string(args)+`}}`)
			sent++
		}
		p.flush(b)
		for first := true; done < sent && (first || p.out.Buffered() > 0); first = false {
			if line := p.receive(b); !bytes.Contains(line, want) {
				b.Fatalf("answer: got %.200s, want %s in it", line, want)
			}
			done++
		}
	}
}

func (p *peer) send(b *testing.B, line string) {
	if _, err := p.in.WriteString(line + "\n"); err != nil {
		b.Fatal(err)
	}
}

func (p *peer) flush(b *testing.B) {
	if err := p.in.Flush(); err != nil {
		b.Fatal(err)
	}
}

func (p *peer) receive(b *testing.B) []byte {
	line, err := p.out.ReadSlice('\n')
	if err != nil {
		b.Fatalf("reading an answer: %v", err)
	}
	return line
}
