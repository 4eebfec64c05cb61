package expose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// rawServer is a server that answers each method with a text, and what it has no answer
// for with an error: no server of ours would say such things.
func rawServer(t *testing.T, name string, answers map[string]func(id, params string) string) mcpclient.Server {
	t.Helper()
	def := mcpclient.Stream(name, func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer far.Close()
			dec := json.NewDecoder(far)
			for {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
					Params json.RawMessage `json:"params"`
				}
				if dec.Decode(&m) != nil {
					return
				}
				if len(m.ID) == 0 {
					continue
				}
				out := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`, m.ID)
				if f := answers[m.Method]; f != nil {
					out = f(string(m.ID), string(m.Params))
				}
				if out == "" {
					continue // it never answers
				}
				if _, err := io.WriteString(far, out+"\n"); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() {
			_ = near.Close()
			<-served
		})
		return near, nil
	})
	def.Protocol = mcpclient.ProtocolLegacy
	return def
}

// result is an answer that is always the same.
func result(text string) func(id, params string) string {
	text = strings.ReplaceAll(text, "\n", "")
	return func(id, _ string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + text + `}` }
}

const greets = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{}},"serverInfo":{"name":"raw","version":"1"}}`

// What a server lists that a strict client would choke on is left out, or goes without
// the part that is wrong: the rest of it, and of the others, is there (ROB-3, SECA-48).
func TestGatewayLeavesOutWhatIsBad(t *testing.T) {
	good := newDown(t, "good", nil)
	mustTool(t, good, &mcp.Tool{Name: "fine"}, says("fine"))
	tools := `{"tools":[
		{"name":"ok","inputSchema":{"type":"object"}},
		{"name":"ok","inputSchema":{"type":"object"},"description":"again"},
		{"name":"bad pattern","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}},
		{"name":"self","inputSchema":{"$ref":"#"}},
		{"name":"no object","inputSchema":{"type":"string"}},
		{"name":"output","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"a":{"pattern":"("}}}},
		{"name":"icons","inputSchema":{"type":"object"},"icons":[{"src":"javascript:alert(1)"}]},
		{"name":"tasks","inputSchema":{"type":"object"},"execution":{"taskSupport":"perhaps"}},
		{"name":"ödd näme/with:all\n","inputSchema":{"type":"object"}},
		{"name":"","inputSchema":{"type":"object"}},
		{"name":"` + strings.Repeat("x", 1000) + `","inputSchema":{"type":"object"}}]}`
	resources := `{"resources":[
		{"uri":"test://ok","name":"ok"},
		{"uri":"no scheme at all","name":"n"},
		{"uri":"relative","name":"relative"},
		{"uri":"test://with space","name":"s"},
		{"uri":"troupe://runs/1","name":"a run"},
		{"uri":"test://priority","name":"p","annotations":{"priority":7}},
		{"uri":"test://size","name":"z","size":-1}]}`
	templates := `{"resourceTemplates":[
		{"uriTemplate":"test://{id}","name":"ok"},
		{"uriTemplate":"{+any}","name":"any"},
		{"uriTemplate":"test://{","name":"broken"}]}`
	prompts := `{"prompts":[
		{"name":"ok"},{"name":"odd\u0000name"},
		{"name":"twice","arguments":[{"name":"a"},{"name":"a"}]},
		{"name":"` + strings.Repeat("y", 1000) + `"}]}`
	bad := rawServer(t, "bad", map[string]func(string, string) string{
		mcp.MethodInitialize: result(greets), mcp.MethodListTools: result(tools), mcp.MethodListResources: result(resources),
		mcp.MethodListResourceTemplates: result(templates), mcp.MethodListPrompts: result(prompts),
		mcp.MethodCallTool: func(id, params string) string {
			return result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, params))(id, params)
		},
	})
	f := startGateway(t, &Options{}, bad, behind("good", "", good))
	c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)

	all, err := c.ListTools(t.Context())
	must(t, err)
	var names []string
	for _, tool := range all {
		names = append(names, strings.TrimRight(tool.Name, "0123456789abcdef"))
		if tool.Icons != nil || tool.OutputSchema != nil || tool.Execution != nil {
			t.Errorf("ListTools: %q still has what is bad: %+v", tool.Name, tool)
		}
	}
	want := []string{"bad___dd_n_me_with_all__", "bad__bad_pattern_", "bad__icons", "bad__ok", "bad__output", "bad__sel", "bad__tasks",
		"bad__" + strings.Repeat("x", 50) + "_", "good__fin"}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("ListTools: got %q, want %q", names, want)
	}
	for _, tool := range all { // the server is called by its own name for it
		if strings.HasPrefix(tool.Name, "bad___dd") {
			res, err := c.CallTool(t.Context(), tool.Name, nil, nil)
			if err != nil || !strings.Contains(said(res), `"name":"ödd näme/with:all\n"`) {
				t.Errorf("CallTool of an odd name: got %v and error %v", res, err)
			}
		}
	}
	var uris []string
	listed, err := c.ListResources(t.Context())
	must(t, err)
	for _, r := range listed {
		uris = append(uris, r.URI)
	}
	patterns, err := c.ListResourceTemplates(t.Context())
	must(t, err)
	for _, p := range patterns {
		uris = append(uris, p.URITemplate)
	}
	if want := []string{
		"test://ok", "test://priority", "test://size", "troupe+bad:relative", "troupe+bad:troupe://runs/1", "test://{id}", "troupe+bad:{+any}",
	}; !slices.Equal(uris, want) {
		t.Errorf("resources and templates: got %q, want %q", uris, want)
	}
	asked, err := c.ListPrompts(t.Context())
	must(t, err)
	if len(asked) != 3 {
		t.Errorf("ListPrompts: got %d prompts, want those three that can be shown: %+v", len(asked), asked)
	}
}

// A server that fails keeps its last good list, and one that never answers does not hold
// up the others (ROB-2).
func TestGatewayKeepsTheLastGoodList(t *testing.T) {
	var fails atomic.Bool
	list := `{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}`
	flaky := rawServer(t, "flaky", map[string]func(string, string) string{
		mcp.MethodInitialize: result(greets), mcp.MethodListResources: result(`{"resources":[]}`), mcp.MethodListPrompts: result(`{"prompts":[]}`),
		mcp.MethodListTools: func(id, params string) string {
			if fails.Load() {
				return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"not now"}}`
			}
			return result(list)(id, params)
		},
		mcp.MethodCallTool: func(id, params string) string { // and it says that its tools have changed
			return `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n" + result(`{"content":[]}`)(id, params)
		},
	})
	good := newDown(t, "good", nil)
	mustTool(t, good, &mcp.Tool{Name: "fine"}, says("fine"))
	f := startGateway(t, &Options{}, flaky, behind("good", "", good))
	told := make(chan string, 100)
	c := dialFront(t, f, mcpclient.ProtocolLegacy, &mcpclient.Options{OnToolsChanged: func() { told <- "tools" }})
	names := func() []string {
		tools, err := c.ListTools(t.Context())
		must(t, err)
		return toolNames(tools)
	}
	if got, want := names(), []string{"flaky__old", "good__fine"}; !slices.Equal(got, want) {
		t.Fatalf("ListTools: got %q, want %q", got, want)
	}
	fails.Store(true)
	_, err := c.CallTool(t.Context(), "flaky__old", nil, nil)
	must(t, err)
	mustTool(t, good, &mcp.Tool{Name: "more"}, says("more"))
	eventually(t, "the other server's change", told, "tools")
	for got := names(); !slices.Contains(got, "good__more"); got = names() { // what was told first may have been the beginning
		eventually(t, "the other server's change", told, "tools")
	}
	if got, want := names(), []string{"flaky__old", "good__fine", "good__more"}; !slices.Equal(got, want) {
		t.Errorf("ListTools while a server fails: got %q, want %q", got, want)
	}
}

// A legacy server's -32042 reaches a client that has not declared pages, as it would
// without us; one that cannot know it is told in words (URL-40, URL-42).
func TestGatewayPassesPagesNeededOn(t *testing.T) {
	data := `{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://example.com/pay","message":"Pay first"}]}`
	def := rawServer(t, "shop", map[string]func(string, string) string{
		mcp.MethodInitialize: result(greets), mcp.MethodListResources: result(`{"resources":[]}`), mcp.MethodListPrompts: result(`{"prompts":[]}`),
		mcp.MethodListTools: result(`{"tools":[{"name":"buy","inputSchema":{"type":"object"}}]}`),
		mcp.MethodCallTool: func(id, _ string) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32042,"message":"a page is needed","data":` + data + `}}`
		},
	})
	f := startGateway(t, &Options{}, def)
	c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)
	_, err := c.CallTool(t.Context(), "shop__buy", nil, nil)
	wire, ok := errors.AsType[*mcp.Error](err)
	if !ok || wire.Code != mcp.CodeURLElicitationRequired {
		t.Fatalf("CallTool of a legacy client: got %v, want -32042", err)
	}
	if pages, ok := wire.URLElicitations(); !ok || len(pages) != 1 || pages[0].URL != "https://example.com/pay" {
		t.Errorf("CallTool of a legacy client: got data %s, want the server's", wire.Data)
	}
	c = dialFront(t, f, mcpclient.ProtocolModern, nil)
	res, err := c.CallTool(t.Context(), "shop__buy", nil, nil)
	if err != nil || !res.IsError || !strings.Contains(said(res), "https://example.com/pay") {
		t.Errorf("CallTool of a client of 2026-07-28: got %v and error %v, want a text with the page", res, err)
	}
}

// A tool that a server runs as a task is called by clients that have tasks, and by those
// that have none (TASK-05).
func TestGatewayCallsTasks(t *testing.T) {
	s := newDown(t, "slow", &mcpserver.Options{Tasks: &mcpserver.TaskOptions{}})
	mustTool(t, s, &mcp.Tool{Name: "must", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskRequired}}, says("done"))
	mustTool(t, s, &mcp.Tool{Name: "may", Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}}, says("done"))
	mustTool(t, s, &mcp.Tool{Name: "not"}, says("done"))
	f := startGateway(t, &Options{Names: NamesPlain}, behind("slow", mcpclient.ProtocolLegacy, s))
	for _, protocol := range []string{mcpclient.ProtocolLegacy, mcpclient.ProtocolModern} {
		c := dialFront(t, f, protocol, nil)
		for _, name := range []string{"must", "may", "not"} {
			if res, err := c.CallTool(t.Context(), name, nil, nil); err != nil || said(res) != "done" {
				t.Errorf("CallTool(%q) of a %s client: got %v and error %v", name, protocol, res, err)
			}
		}
	}
	c := dialFront(t, f, mcpclient.ProtocolLegacy, nil)
	for _, name := range []string{"must", "may"} {
		task, err := c.CallToolTask(t.Context(), name, nil, nil)
		if err != nil {
			t.Errorf("CallToolTask(%q): %v", name, err)
			continue
		}
		if res, err := task.Wait(t.Context()); err != nil || said(res) != "done" {
			t.Errorf("the task of %q: got %v and error %v", name, res, err)
		}
	}
}

// A level that the client sets is the servers' level, and in 2026-07-28 that of a request
// is (LOG-03, LOG-05).
func TestGatewaySetsLevels(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		levels := make(chan string, 10)
		s := newDown(t, "one", &mcpserver.Options{Events: mcpserver.Events{OnLogLevel: func(_ *mcpserver.Peer, l mcp.LogLevel) { levels <- string(l) }}})
		mustTool(t, s, &mcp.Tool{Name: "log"}, func(_ context.Context, req *mcpserver.ToolRequest, _ json.RawMessage) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(string(req.LogLevel()))}}, nil
		})
		f := startGateway(t, &Options{Names: NamesPlain}, behind("one", down, s))
		c := dialFront(t, f, up, nil)
		if up == mcpclient.ProtocolLegacy {
			_, err := c.ListTools(t.Context())
			must(t, err)
			must(t, c.SetLogLevel(t.Context(), mcp.LogError))
			if down == mcpclient.ProtocolLegacy {
				eventually(t, "the level", levels, "error")
			}
		}
		res, err := c.CallTool(t.Context(), "log", nil, &mcpclient.CallOptions{LogLevel: mcp.LogError})
		if err != nil || said(res) != "error" {
			t.Errorf("the level at the server: got %v and error %v, want error", res, err)
		}
	})
}
