package auth_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// The program troupe logs in at a server, calls its tools, renews, and logs out, and commands that
// lack a login end with exit code 7 (AUTH-15, AUTH-44).
func TestProgram(t *testing.T) {
	troupe := peers.RequireTroupe(t)
	both(t, func(t *testing.T, w *world) {
		p := &peers.Troupe{Program: troupe, Home: t.TempDir(), Env: []string{"BROWSER=false"}}
		far := "--mcp=far=" + w.server.endpoint()
		run := func(code int, want string, args ...string) {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			out, err := p.Run(ctx, append(args, far)...)
			got := 0
			if failed, ok := errors.AsType[*exec.ExitError](err); ok {
				got = failed.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if got != code || !strings.Contains(string(out), want) {
				t.Fatalf("troupe %s: exit code %d, want %d; stdout:\n%swant %q; %v", strings.Join(args, " "), got, code, out, want, err)
			}
		}
		run(7, "", "mcp", "call", "far", "read")
		login(t, p, "mcp", "login", "far", far)
		run(0, "far works", "mcp", "test", "far")
		run(0, "read: done", "mcp", "call", "far", "read")
		w.expire()
		run(0, "read: done", "mcp", "call", "far", "read")
		w.renewals("after a call with an old token", 1, 0)
		run(7, "", "mcp", "call", "far", "write")
		run(0, "logged in already", "mcp", "login", "far")
		run(0, "logged out", "mcp", "logout", "far")
		run(7, "", "mcp", "call", "far", "read")
		if n := seen(w.as, func(r *peers.OIDCRequest) bool { return r.Route == "revocation" && r.Status == 200 }); n == 0 {
			t.Error("no token was revoked")
		}
		if n := seen(w.as, registration); n != 1 {
			t.Errorf("the program was registered %d times, want once", n)
		}
	})
}

var address = regexp.MustCompile(`^  (http://127\.0\.0\.1:\d+/auth\?\S+)`)

// login runs a login to its end. A person opens the address that it writes.
func login(t *testing.T, p *peers.Troupe, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	line := p.Line(args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = p.Home
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &said))
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			if _, err := peers.NewVisitor().Visit(ctx, m[1]); err != nil {
				t.Errorf("the person: %v", err)
				cancel()
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("troupe %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
}
