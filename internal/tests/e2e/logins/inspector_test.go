package logins_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// The MCP Inspector, without its window, uses tools with a token that it is given, in both eras,
// and is refused without one and with one that has too few scopes (AUTH-03, AUTH-04).
func TestInspector(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short, which make check does not use: each request starts a program")
	}
	t.Parallel() // with the others, which wait
	line := peers.RequireInspector(t)
	w := listenServe(t, oidc(t, "jwt"))
	c := openSDK(w, mcp.V2025_11_25)
	w.calls(c, "read")
	few := w.front.lastToken()
	w.calls(c, "write")
	enough := w.front.lastToken()
	for _, tt := range []struct {
		name, era, token, tool string
		status                 int // that refuses; 0 for none
	}{
		{"modern", "modern", enough, "write", 0},
		{"legacy", "legacy", enough, "write", 0},
		{"no token", "modern", "", "read", 401},
		{"too few scopes", "modern", few, "write", 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.front.forget()
			args := append(line[:len(line):len(line)], "--protocol-era", tt.era, "--format", "json", "--quiet", "--server-url", w.front.endpoint(),
				"--method", "tools/call", "--tool-name", tt.tool)
			if tt.token != "" {
				args = append(args, "--header", "Authorization: Bearer "+tt.token)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			home := t.TempDir()
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, home
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if worked := err == nil && strings.Contains(string(out), tt.tool+": done"); worked != (tt.status == 0) {
				t.Errorf("got %.1000s, %v\n%s", out, err, errs.String())
			}
			if tt.status != 0 && len(w.front.refusals(tt.status)) == 0 {
				t.Errorf("no request was refused with %d", tt.status)
			}
		})
	}
}
