package clients

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/mcpserver"
)

// childVariable makes the test binary a server: of its stdin and stdout, or of HTTP.
const childVariable = "TROUPE_HOSTILE_SERVER"

// runChild serves until stdin ends.
func runChild(mode string) int {
	debug.SetGCPercent(10) // an eager collector tells better what is held
	p, err := newProgram(&mcpserver.Options{Logger: mcptest.Quiet()})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go p.sample()
	if mode == "stdio" {
		_ = p.server.ServeStdio(context.Background()) // a client that does not read is hung up on
	} else {
		err = serveWeb(p)
	}
	if err := p.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "closing:", err)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		return 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveWeb(p *program) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	web := &http.Server{Handler: p.handler(), ReadHeaderTimeout: 30 * time.Second}
	go func() { _ = web.Serve(l) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// child is a server process.
type child struct {
	in  io.WriteCloser
	out io.Reader
	cmd *exec.Cmd
}

// startChild starts a server that must end in good order when the test does.
func startChild(t testing.TB, mode string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+mode)
	var said strings.Builder
	cmd.Stderr = &said
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
	c := &child{in: in, out: out, cmd: cmd}
	t.Cleanup(func() {
		in.Close()
		ended := make(chan error, 1)
		go func() {
			_, _ = io.Copy(io.Discard, out)
			ended <- cmd.Wait()
		}()
		select {
		case err := <-ended:
			if err != nil || said.Len() > 0 {
				t.Errorf("the server has ended with %v, and said:\n%.30000s", err, said.String())
			}
		case <-afterPatience():
			_ = cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
			<-ended
			t.Errorf("the server does not end when its stdin does:\n%.30000s", said.String())
		}
	})
	return c
}

// startWebChild returns a server process of HTTP.
func startWebChild(t testing.TB) *target {
	t.Helper()
	c := startChild(t, "web")
	line, err := bufio.NewReader(c.out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &target{url: strings.TrimSpace(line)}
}
