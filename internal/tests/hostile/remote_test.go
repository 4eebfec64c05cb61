package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// openRemote starts a server as a process of its own also where it listens, so that
// its memory is not ours.
func openRemote(t testing.TB, w way, script string) mcpclient.Server {
	t.Helper()
	if w.name == "stdio" {
		return openStdio(t, script, w.version)
	}
	kind := strings.Fields(w.name)[len(strings.Fields(w.name))-1]
	socket := filepath.Join(t.TempDir(), "s")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"="+strings.Join([]string{script, string(w.version), kind, socket}, " "))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	s := mcpclient.Server{Name: "peer", URL: strings.TrimSpace(url), Protocol: pin(w.version), Transport: mcpclient.TransportHTTP}
	switch kind {
	case "sse":
		s.Transport = mcpclient.TransportSSE
	case "stream":
		s = mcpclient.Stream("peer", func(ctx context.Context) (io.ReadWriteCloser, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		})
		s.Protocol = pin(w.version)
	}
	return s
}

// servePeer is a server's process: script, revision, and how it listens until its
// standard input ends.
func servePeer(args []string) {
	p := newPolite(args[0], mcp.Version(args[1]))
	if len(args) == 2 {
		serveLines(os.Stdin, os.Stdout, p)
		return
	}
	var h http.Handler
	switch args[2] {
	case "json":
		h = &web{p: p, json: true}
	case "sse":
		h = &oldWeb{p: p, sessions: map[string]*oldSession{}}
	case "stream":
		l, err := net.Listen("unix", args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { serveLines(c, c, p); c.Close() }()
			}
		}()
		fmt.Println(args[3])
	default:
		h = &web{p: p}
	}
	if h != nil {
		fmt.Println(httptest.NewServer(h).URL)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}
