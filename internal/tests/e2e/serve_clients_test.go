package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
)

// severalClients: clients of one front, over HTTP, each with a server of its own behind
// it that is one definition in the configuration. Each sees the questions of its own
// calls and nobody else's, and its model and its roots are what its server gets
// (SECA-34). Of 2026-07-28 there are two, who are one principal.
func severalClients(t *testing.T, b builds) {
	t.Parallel()
	client := peers.Require(t, peers.PairClient)
	const calls = 5
	for _, down := range thinned([]mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28}, 1) {
		t.Run(string(down), func(t *testing.T) {
			join(t)
			troupe := &peers.Troupe{Program: b.troupe, Home: t.TempDir()}
			url := troupe.Serve(t, "--expose", "tools", "--no-store", "--server-protocol", string(down), "--mcp", "fixture="+b.fixture+" -stdio")
			ctx, cancel := context.WithTimeout(t.Context(), Patience)
			defer cancel()
			var all []*pair
			for _, who := range []struct{ sdk, revision, name string }{
				{"v1", "2025-11-25", "Ada"}, {"v2", "2025-11-25", "Bob"}, {"v2", "2026-07-28", "Cleo"}, {"v2", "2026-07-28", "Dan"},
			} {
				line := append(client[:len(client):len(client)], who.sdk, who.revision, who.name, fmt.Sprint(calls), "http", url+"/mcp")
				all = append(all, startPair(ctx, t, who.name, line))
			}
			for _, p := range all {
				if line, err := p.out.ReadString('\n'); line != "ready\n" {
					t.Fatalf("%s: got %q, %v\n%s", p.name, line, err, p.errs.Bytes())
				}
			}
			for _, p := range all {
				if _, err := io.WriteString(p.in, "go\n"); err != nil {
					t.Fatal(err)
				}
				p.in.Close()
			}
			for _, p := range all {
				said, _ := p.out.ReadBytes('\n')
				err := p.cmd.Wait()
				var got map[string]any
				if bad := mcp.Unmarshal(said, &got); bad != nil || err != nil {
					t.Errorf("%s: %v, %v\n%s", p.name, bad, err, p.errs.Bytes())
					continue
				}
				var asked []string
				for i := range calls {
					asked = append(asked, fmt.Sprintf("fixture asks: %s %d?", p.name, i))
				}
				slices.Sort(asked)
				compare(t, got, map[string]any{
					"asked":   strings.Join(asked, "; "),
					"forms":   fmt.Sprintf(`User response: action=accept, content={"email":"%s@example.com","username":"%s"}`, p.name, p.name),
					"samples": "LLM response: I am " + p.name, "roots": "Roots: file:///" + p.name,
				})
			}
		})
	}
}

// pair is one of several clients.
type pair struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

func startPair(ctx context.Context, t *testing.T, name string, line []string) *pair {
	t.Helper()
	p := &pair{name: name, cmd: exec.CommandContext(ctx, line[0], line[1:]...)}
	p.cmd.Env, p.cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, &p.errs
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}
