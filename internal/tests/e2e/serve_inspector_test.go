package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// inspector: the MCP Inspector lists and calls what there is, over stdio and HTTP, in both
// eras.
func inspector(t *testing.T, b builds) {
	t.Parallel()
	line := peers.RequireInspector(t)
	tests := []struct {
		name string
		args []string
		want []string // parts of the result
	}{
		{"tools", []string{"--method", "tools/list"}, []string{`"name":"helper"`, `"name":"fixture__greet"`, `"outputSchema"`}},
		{"an agent", []string{"--method", "tools/call", "--tool-name", "helper", "--tool-arg", `prompt=use fixture__greet {"name":"Ada"}`},
			[]string{`"text":"Hello, Ada!"`, `"dev.troupe/run"`}},
		{"structured", []string{"--method", "tools/call", "--tool-name", "counter", "--tool-arg", "to=7"}, []string{`"structuredContent":{"sum":42}`}},
		{"resources", []string{"--method", "resources/list"}, []string{`"uri":"test://static-text"`}},
		{"templates", []string{"--method", "resources/templates/list"}, []string{`"uriTemplate":"troupe://runs/{id}"`}},
		{"prompts", []string{"--method", "prompts/list"}, []string{`"name":"helper"`, `"name":"fixture__test_simple_prompt"`}},
		{"a prompt", []string{"--method", "prompts/get", "--prompt-name", "helper"}, []string{`"text":"Do as you are told."`}},
	}
	for _, era := range thinned([]string{"modern", "legacy"}, 1) {
		for _, transport := range thinned([]string{"http", "stdio"}, 1) {
			t.Run(era+" "+transport, func(t *testing.T) {
				join(t)
				troupe, flags := NewTroupe(t, b.troupe, map[string][]string{"fixture": {b.fixture, "-stdio"}})
				flags = append(flags, "--expose", "agents,tools")
				to := target(t, troupe, transport, flags)
				for i, tt := range tests {
					if i > 1 && (era == "legacy" || transport == "stdio") {
						break // each is a program that starts
					}
					args := append(line[:len(line):len(line)], "--protocol-era", era, "--format", "json", "--quiet")
					args = append(args, tt.args...)
					if transport == "http" {
						args = append(args, "--server-url", to[0])
					} else {
						args = append(append(args, "--"), to...)
					}
					out := inspect(t, troupe.Home, args)
					for _, want := range tt.want {
						if !strings.Contains(out, want) {
							t.Errorf("%s: got %.2000s, want %s in it", tt.name, out, want)
						}
					}
				}
			})
		}
	}
}

// inspect runs the Inspector to its end, and returns what it prints, without spaces
// between values.
func inspect(t *testing.T, home string, line []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}, home
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%q: %v\n%s", line[3:], err, errs.String())
		return ""
	}
	var value any
	if err := mcp.Unmarshal(out, &value); err != nil {
		t.Errorf("%q: %v in %.2000s", line[3:], err, out)
	}
	return string(out)
}
