package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// TestServer: the fixture can be made and is what it says, without the suite. TOOL-02,
// LIST-01: what it lists is described, and in the same order each time.
func TestServer(t *testing.T) {
	s, err := newServer(&mcpserver.Options{Tasks: &mcpserver.TaskOptions{Tools: taskPolicies}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	in := strings.NewReader(strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":3,"method":"prompts/list","params":{` + meta + `}}`,
		`{"jsonrpc":"2.0","id":4,"method":"resources/list","params":{` + meta + `}}`,
	}, "\n") + "\n")
	var out closing
	if err := s.Serve(t.Context(), in, &out); err != nil {
		t.Fatal(err)
	}
	var lists [][]string
	for line := range strings.Lines(out.String()) {
		var m struct {
			Result struct {
				Tools     []described `json:"tools"`
				Prompts   []described `json:"prompts"`
				Resources []described `json:"resources"`
			} `json:"result"`
		}
		if err := mcp.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var names []string
		for _, one := range slices.Concat(m.Result.Tools, m.Result.Prompts, m.Result.Resources) {
			if names = append(names, one.Name); one.Description == "" {
				t.Errorf("%s has no description", one.Name)
			}
		}
		if len(names) == 0 {
			t.Errorf("a list is empty: %s", line)
		}
		lists = append(lists, names)
	}
	if len(lists) != 4 || !slices.Equal(lists[0], lists[1]) {
		t.Errorf("lists: got %q, want 4 of which the first two are the same", lists)
	}
}

type described struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// closing is a buffer that can be closed.
type closing struct{ strings.Builder }

var _ io.WriteCloser = (*closing)(nil)

func (*closing) Close() error { return nil }
