package benchmarks

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// BenchmarkClientStdio is a tools/call to a server process, the floor of one.
// cpu-µs/op is the CPU time of the client alone.
func BenchmarkClientStdio(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 60}, {"64KiB", 64 << 10}} {
		in := echoIn{Message: strings.Repeat("x", size.bytes), Count: 3, Tags: []string{"one", "two"}}
		want := in.answer()
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s/callers=%d/floor", size.name, callers), func(b *testing.B) {
				c := startFloorClient(b)
				measure(b, callers, func() error { return c.call(in, want) })
			})
			b.Run(fmt.Sprintf("%s/callers=%d/troupe", size.name, callers), func(b *testing.B) {
				c := dialFloor(b)
				measure(b, callers, func() error { return callEcho(b.Context(), c, in, want) })
			})
		}
	}
}

// dialFloor connects a client with a floor server.
func dialFloor(b *testing.B) *mcpclient.Client {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	server, name := mcpclient.Command(exe, "-test.run=^$"), "floor"
	server.Env = map[string]*string{role: &name}
	server.Protocol = mcpclient.ProtocolLegacy
	c, err := mcpclient.Dial(b.Context(), server, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	return c
}

// callEcho calls the tool echo and checks the answer.
func callEcho(ctx context.Context, c *mcpclient.Client, in echoIn, want string) error {
	args, err := json.Marshal(&in)
	if err != nil {
		return err
	}
	return callEncoded(ctx, c, args, want)
}

// callEncoded calls the tool echo with arguments that are JSON already.
func callEncoded(ctx context.Context, c *mcpclient.Client, args json.RawMessage, want string) error {
	res, err := c.CallTool(ctx, "echo", args, nil)
	if err != nil {
		return err
	}
	return check(res.Content.Text(), want)
}

// floorClient is the least that a client can do: one encode and one decode by
// encoding/json, two mutexes, a map and channels. It has no limits, no supervision
// and no cancelling.
type floorClient struct {
	writing sync.Mutex // guards out: a write may wait until answers are read
	out     *bufio.Writer
	mu      sync.Mutex
	last    int
	calls   map[string]chan floorResult
}

func startFloorClient(b *testing.B) *floorClient {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^$")
	cmd.Env = append(os.Environ(), role+"=floor")
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
	c := &floorClient{out: bufio.NewWriter(in), calls: make(map[string]chan floorResult)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.read(out)
	}()
	b.Cleanup(func() {
		in.Close()
		<-done
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	})
	return c
}

func (c *floorClient) read(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var res floorResponse
		if json.Unmarshal(line, &res) != nil {
			return
		}
		c.mu.Lock()
		call := c.calls[string(res.ID)]
		delete(c.calls, string(res.ID))
		c.mu.Unlock()
		call <- res.Result
	}
}

func (c *floorClient) call(in echoIn, want string) error {
	answer := make(chan floorResult, 1)
	c.mu.Lock()
	c.last++
	id := strconv.Itoa(c.last)
	c.calls[id] = answer
	c.mu.Unlock()
	req := floorRequest{JSONRPC: "2.0", ID: json.RawMessage(id), Method: mcp.MethodCallTool}
	req.Params.Name, req.Params.Arguments = "echo", in
	data, err := json.Marshal(&req)
	if err != nil {
		return err
	}
	c.writing.Lock()
	c.out.Write(data)
	c.out.WriteByte('\n')
	err = c.out.Flush()
	c.writing.Unlock()
	if err != nil {
		return err
	}
	return check((<-answer).Content[0].Text, want)
}
