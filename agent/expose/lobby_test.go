package expose_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// callAs sends a request of 2026-07-28 for a tool.
func (f *front) callAs(t *testing.T, tool, caps string, headers ...string) *httpAnswer {
	t.Helper()
	w := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":`+caps+`}}}`,
		append([]string{"Mcp-Protocol-Version", string(mcp.V2026_07_28), "Mcp-Method", "tools/call", "Mcp-Name", tool}, headers...)...)
	return &httpAnswer{w.Code, w.Body.String()}
}

type httpAnswer struct {
	status int
	body   string
}

// SHM-01, SECA-7: a session id means nothing in 2026-07-28. Whoever sends one has the
// things of its principal, and never those of all who do.
func TestModernWithSession(t *testing.T) {
	f := newFront(t, "2026-07-28", func(_ *agent.Options, fo *expose.Options) {
		fo.Server.HTTP.Authenticate = func(r *http.Request) (*mcpserver.Principal, error) {
			return &mcpserver.Principal{ID: r.Header.Get("X-User")}, nil
		}
	})
	for i, user := range []string{"ada", "bob"} {
		if got := f.callAs(t, "down__progress", `{}`, "X-User", user, "Mcp-Session-Id", "stale"); got.status != http.StatusOK || !strings.Contains(got.body, `"text":"done"`) {
			t.Errorf("%s: got %+v, want done", user, got)
		}
		if n := f.Clients(); n != i+1 {
			t.Errorf("clients after %s: got %d, want %d", user, n, i+1)
		}
	}
	_, session := f.initialize(t, "X-User", "ada")
	if got := f.callAs(t, "down__progress", `{}`, "X-User", "ada", "Mcp-Session-Id", session); !strings.Contains(got.body, `"text":"done"`) {
		t.Errorf("with the id of a session: got %+v, want done", got)
	}
}

// Who is being let in while the front closes is refused or ended, too.
func TestCloseWhileClientsCome(t *testing.T) {
	f := alone(t, nil)
	var wg sync.WaitGroup
	there := make(chan struct{}, 1)
	for range 4 {
		wg.Go(func() {
			for {
				code, _ := f.initialize(t)
				if code != http.StatusOK {
					return
				}
				select {
				case there <- struct{}{}:
				default:
				}
			}
		})
	}
	<-there
	if err := f.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
	wg.Wait()
	if n := f.Clients(); n != 0 {
		t.Errorf("clients: got %d, want 0", n)
	}
}

// A question of a run that the client answers with an error, or nonsense, is declined
// where nobody else is there to answer it: nothing waits for ever.
func TestNonsense(t *testing.T) {
	for name, answer := range map[string]string{
		"an error":                   `"error":{"code":-32603,"message":"broken"}`,
		"a choice that there is not": `"result":{"action":"accept","content":{"decision":"maybe"}}`,
		"no content":                 `"result":{"action":"accept"}`,
		"no action":                  `"result":{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, "modern", func(ro *agent.Options, _ *expose.Options) { ro.Approve = agent.AskAlways })
			ours, theirs := net.Pipe()
			over := make(chan error, 1)
			go func() { over <- f.Serve(context.WithoutCancel(t.Context()), theirs, theirs) }()
			say := func(line string) {
				if _, err := io.WriteString(ours, line+"\n"); err != nil {
					t.Errorf("writing: %v", err)
				}
			}
			say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`)
			in := bufio.NewScanner(ours)
			for done := false; !done && in.Scan(); {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if err := json.Unmarshal(in.Bytes(), &m); err != nil {
					t.Fatal(err)
				}
				switch {
				case m.Method == mcp.MethodElicit:
					say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`)
				case string(m.ID) == "1":
					say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"helper","arguments":{"prompt":"progress"}}}`)
				case string(m.ID) == "2" && m.Method == "":
					if !strings.Contains(in.Text(), "declined") {
						t.Errorf("helper: got %s, want that it is declined", in.Text())
					}
					done = true
				}
			}
			if err := errors.Join(in.Err(), ours.Close()); err != nil {
				t.Error(err)
			}
			<-over
			if n := f.down.count("progress"); n != 0 {
				t.Errorf("calls: got %d, want 0", n)
			}
		})
	}
}
