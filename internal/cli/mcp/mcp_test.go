package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcpclient"
)

func TestJoinExits(t *testing.T) {
	failed, denied := env.ExitWith(env.ExitFailed, errors.New("failed")), env.ExitWith(env.ExitDenied, errors.New("denied"))
	tests := []struct {
		errs []error
		want int
	}{
		{nil, env.ExitOK},
		{[]error{nil, nil}, env.ExitOK},
		{[]error{nil, denied}, env.ExitDenied},
		{[]error{denied, nil, denied}, env.ExitDenied},
		{[]error{failed, denied}, env.ExitUnreachable},
	}
	for _, tt := range tests {
		if got := env.ExitCode(joinExits(tt.errs)); got != tt.want {
			t.Errorf("joinExits(%v): got the exit code %d, want %d", tt.errs, got, tt.want)
		}
	}
}

func TestCallArgs(t *testing.T) {
	one := []mcpclient.Server{{Name: "files"}}
	two := []mcpclient.Server{{Name: "files"}, {Name: "notes"}}
	tests := []struct {
		all    []mcpclient.Server
		args   string
		server string
		tool   string
		err    string
	}{
		{one, "read", "files", "read", ""},
		{one, "files read", "files", "read", ""},
		{one, "files", "files", "files", ""}, // one server: the word is the tool
		{two, "notes add {}", "notes", "add", ""},
		{two, "note add", "", "", `did you mean "notes"?`},
		{two, "notes", "", "", "give a tool"},
		{one, "read []", "", "", "no JSON object"},
		{nil, "read", "", "", "no server is configured"},
	}
	for _, tt := range tests {
		server, tool, _, err := callArgs(tt.all, strings.Fields(tt.args))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || env.ExitCode(err) != env.ExitUsage {
				t.Errorf("callArgs(%q): got error %v, want a usage error with %q", tt.args, err, tt.err)
			}
			continue
		}
		if err != nil || server.Name != tt.server || tool != tt.tool {
			t.Errorf("callArgs(%q): got %s of %s, %v, want %s of %s", tt.args, tool, server.Name, err, tt.tool, tt.server)
		}
	}
}

// Secrets that a flag has no separator for are not repeated.
func TestPairs(t *testing.T) {
	got, err := pairs("--header", "NAME: VALUE", ":", []string{"A: b:c", " D :e "})
	if err != nil || got["A"] != "b:c" || got["D"] != "e" {
		t.Errorf("pairs: got %q, %v", got, err)
	}
	if _, err := pairs("--env", "NAME=VALUE", "=", []string{"s3cret"}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("pairs without a separator: got %v", err)
	}
}

func TestFixOf(t *testing.T) {
	local, remote := &mcpclient.Server{Name: "files", Command: "filesd"}, &mcpclient.Server{Name: "docs", URL: "https://docs.example/mcp"}
	tests := []struct {
		err  error
		def  *mcpclient.Server
		want string
	}{
		{env.ExitWith(env.ExitDenied, errors.New("not approved")), local, "troupe mcp approve files"},
		{fmt.Errorf("starting: %w", exec.ErrNotFound), local, "install filesd"},
		{fs.ErrPermission, local, "chmod +x filesd"},
		{env.ErrTimeout, local, "--timeout 5m"},
		{context.DeadlineExceeded, remote, "address is right"},
		{mcpclient.ErrAuthRequired, remote, "Authorization: Bearer"},
		{errors.New("refused"), remote, "https://docs.example/mcp can be reached"},
	}
	for _, tt := range tests {
		if got := FixOf(tt.err, tt.def); !strings.Contains(got, tt.want) {
			t.Errorf("FixOf(%v): got %q, want %q in it", tt.err, got, tt.want)
		}
	}
}
