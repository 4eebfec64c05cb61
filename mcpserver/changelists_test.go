package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

func relayTool(t *testing.T, s *mcpserver.Server, name, description string) {
	t.Helper()
	def := &mcp.Tool{Name: name, Description: description, InputSchema: json.RawMessage(`{"type":"object"}`)}
	err := mcpserver.RelayTool(s, def, func(context.Context, *mcpserver.ToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("ok")}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// PAGE-01: a list of thousands comes in one page, as clients that read only the first page
// need it, and pages end before they are longer than a client takes.
func TestPagesByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := mcp.V2025_11_25
		s := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}})
		addMany(t, s, 1000)
		p := serve(t, s)
		p.open(v)
		if l := p.page(v, mcp.MethodListTools, nil); len(l.Names) != 1000 || l.NextCursor != nil {
			t.Errorf("first page: got %d tools and cursor %v, want all 1000", len(l.Names), l.NextCursor)
		}

		const most = 50_000
		small := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true, PageBytes: most}})
		long := strings.Repeat("x", 9_000)
		for i := range 20 {
			relayTool(t, small, fmt.Sprintf("n%02d", i), long)
		}
		relayTool(t, small, "n20", strings.Repeat("y", 2*most)) // longer than a page, alone
		q := serve(t, small)
		q.open(v)
		var names []string
		var sizes []int
		for cursor := ""; ; {
			params := "{}"
			if cursor != "" {
				params = fmt.Sprintf(`{"cursor":%q}`, cursor)
			}
			raw := q.ask(request(v, 1, mcp.MethodListTools, params))
			var m struct{ Result mcp.ListToolsResult }
			if err := json.Unmarshal([]byte(raw), &m); err != nil {
				t.Fatal(err)
			}
			for i := range m.Result.Tools {
				names = append(names, m.Result.Tools[i].Name)
			}
			if sizes = append(sizes, len(raw)); len(raw) > most+200 && len(m.Result.Tools) > 1 {
				t.Errorf("a page of %d tools has %d bytes, want %d at most", len(m.Result.Tools), len(raw), most)
			}
			if m.Result.NextCursor == nil {
				break
			}
			cursor = *m.Result.NextCursor
		}
		if len(names) != 21 || len(sizes) != 5 {
			t.Errorf("got %d tools on pages of %d bytes, want 21 on 5 pages", len(names), sizes)
		}
	})
}

// TOOL-02, TOOL-13: many changes at once are one change: no client sees half of it.
func TestChangeLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := mcp.V2025_11_25
		s := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}})
		relayTool(t, s, "old", "")
		p := serve(t, s)
		p.open(v)
		s.ChangeLists(func() {
			for i := range 50 {
				relayTool(t, s, fmt.Sprintf("n%02d", i), "")
				time.Sleep(100 * time.Millisecond)
				if l := p.page(v, mcp.MethodListTools, nil); len(l.Names) != 1 {
					t.Fatalf("within a change: got %d tools, want the 1 of before", len(l.Names))
				}
				s.ChangeLists(func() { s.RemoveTools("old") })
			}
			p.silent()
		})
		if l := p.page(v, mcp.MethodListTools, nil); len(l.Names) != 50 {
			t.Errorf("after the change: got %d tools, want 50", len(l.Names))
		}
		p.wants(notice(mcp.NotificationToolsChanged))
		time.Sleep(time.Minute)
		p.silent()
		s.ChangeLists(func() {}) // nothing
		time.Sleep(time.Minute)
		p.silent()
	})
}

// A client is told of a list at most once in each pace, of the last change always, and of
// other lists and resources without delay.
func TestNoticePace(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := hub(t, &mcpserver.Options{Lists: mcpserver.ListOptions{NoticePace: time.Second}})
				p := serve(t, s)
				p.open(v)
				if v.Era() == mcp.EraModern {
					p.send(request(v, "l", mcp.MethodListen, `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`))
					p.receive()
				}
				synctest.Wait()
				begun := time.Now()
				for time.Since(begun) < 10*time.Second {
					s.Changed(0)
					time.Sleep(50 * time.Millisecond)
				}
				last := time.Now()
				if n := len(p.lines); n < 9 || n > 11 {
					t.Errorf("told %d times within 10 s, want about 10", n)
				}
				for len(p.lines) > 0 {
					p.receive()
				}
				p.receive() // the last change
				if late := time.Since(last); late > 1100*time.Millisecond {
					t.Errorf("the last change was told after %v, want 1 s at most", late)
				}
				time.Sleep(time.Minute)
				p.silent()
				s.Changed(0)
				time.Sleep(50 * time.Millisecond)
				p.receive() // after a quiet time it is told at once
				s.Changed(0)
				s.Changed(1) // another list
				time.Sleep(50 * time.Millisecond)
				if got := p.receive(); !strings.Contains(got, mcp.NotificationPromptsChanged) {
					t.Errorf("another list: got %s", got)
				}
				time.Sleep(time.Second)
				p.receive()
				p.silent()
			})
		})
	}
}

// QuietUntilListed: a client hears of no change of a list that it was not given, and then
// of the changes after it.
func TestQuietUntilListed(t *testing.T) {
	for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true, QuietUntilListed: true}})
				p := serve(t, s)
				p.open(v)
				if v.Era() == mcp.EraModern {
					p.send(request(v, "l", mcp.MethodListen, `{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}`))
					p.receive()
				}
				for i := range 20 {
					relayTool(t, s, fmt.Sprintf("n%02d", i), "")
					time.Sleep(time.Second)
				}
				p.silent()
				if l := p.page(v, mcp.MethodListTools, nil); len(l.Names) != 20 {
					t.Errorf("got %d tools, want 20", len(l.Names))
				}
				time.Sleep(time.Minute)
				p.silent() // it has them all
				relayTool(t, s, "late", "")
				time.Sleep(time.Second)
				if got := p.receive(); !strings.Contains(got, mcp.NotificationToolsChanged) {
					t.Errorf("after the list: got %s", got)
				}
				p.silent()
			})
		})
	}
}
