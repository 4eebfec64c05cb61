package expose

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// eraPairs are those of a client and of the servers behind the gateway.
var eraPairs = []struct{ up, down string }{
	{mcpclient.ProtocolLegacy, mcpclient.ProtocolLegacy},
	{mcpclient.ProtocolLegacy, mcpclient.ProtocolModern},
	{mcpclient.ProtocolModern, mcpclient.ProtocolLegacy},
	{mcpclient.ProtocolModern, mcpclient.ProtocolModern},
}

// inEraPairs runs a test with each pair of eras.
func inEraPairs(t *testing.T, f func(t *testing.T, up, down string)) {
	for _, p := range eraPairs {
		t.Run(p.up+" client, "+p.down+" servers", func(t *testing.T) { f(t, p.up, p.down) })
	}
}

// newDown returns a server that can be behind a gateway.
func newDown(t *testing.T, name string, o *mcpserver.Options) *mcpserver.Server {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: name, Version: "1"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// behind is the definition of such a server.
func behind(name, protocol string, s *mcpserver.Server) mcpclient.Server {
	def := mcpclient.InProcess(name, s)
	def.Protocol = protocol
	return def
}

// startGateway returns a front of the servers, which ends with the test.
func startGateway(t *testing.T, o *Options, servers ...mcpclient.Server) *Front {
	t.Helper()
	rt, err := agent.Open(t.Context(), &agent.Options{Servers: servers, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	own := *o
	own.Gateway, own.Logger = true, cmp.Or(o.Logger, slog.New(slog.NewTextHandler(t.Output(), nil)))
	f, err := New(rt, &own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = f.Close()
		_ = rt.Close()
	})
	return f
}

// dialFront returns a client of the front over a pipe.
func dialFront(t *testing.T, f *Front, protocol string, o *mcpclient.Options) *mcpclient.Client {
	t.Helper()
	def := mcpclient.Stream("front", func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = f.Serve(context.Background(), far, far)
		}()
		t.Cleanup(func() {
			_ = near.Close()
			<-served
		})
		return near, nil
	})
	def.Protocol = protocol
	c, err := mcpclient.Dial(t.Context(), def, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// mustTool adds a tool that takes any arguments.
func mustTool(t *testing.T, s *mcpserver.Server, def *mcp.Tool, call func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error)) {
	t.Helper()
	if err := mcpserver.AddTool(s, def, call); err != nil {
		t.Fatal(err)
	}
}

// says returns a handler with one answer.
func says(text string) func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
	return func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}, nil
	}
}

// said returns the text of a result, and whether it is an error.
func said(r *mcp.CallToolResult) string {
	var b strings.Builder
	if r.IsError {
		b.WriteString("error: ")
	}
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			b.WriteString(text.Text)
		}
	}
	return b.String()
}

func toolNames(tools []mcp.Tool) []string {
	var names []string
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}

// What a server says of a tool, and what the tool answers, is what the client gets
// (TOOL-03, TOOL-11, META-01).
func TestGatewayPassesToolsOn(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		one, two := newDown(t, "one", nil), newDown(t, "two", nil)
		def := &mcp.Tool{
			Name: "report", Title: "A report", Description: "Reports.",
			InputSchema:  json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","x-odd":[1]}},"additionalProperties":true}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
			Annotations:  &mcp.ToolAnnotations{Title: "R", ReadOnlyHint: true},
			Icons:        []mcp.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png"}},
			Meta:         mcp.Meta{"example.com/x": json.RawMessage(`{"y":1}`)},
		}
		var mu sync.Mutex
		var got mcp.Meta
		mustTool(t, one, def, func(_ context.Context, req *mcpserver.ToolRequest, args json.RawMessage) (*mcp.CallToolResult, error) {
			mu.Lock()
			got = req.Meta()
			mu.Unlock()
			req.Progress(1, 2, "half")
			req.Log(mcp.LogWarning, "db", "slow")
			return &mcp.CallToolResult{
				Content: mcp.Contents{mcp.Text(string(args))}, StructuredContent: json.RawMessage(`{"n":3}`),
				Meta: mcp.Meta{"example.com/r": json.RawMessage(`"r"`)},
			}, nil
		})
		mustTool(t, one, &mcp.Tool{Name: "same"}, says("one"))
		mustTool(t, two, &mcp.Tool{Name: "same"}, says("two"))
		mustTool(t, two, &mcp.Tool{Name: "fails"}, func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, errors.New("out of paper")
		})
		mustTool(t, two, &mcp.Tool{Name: "refuses"}, func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, (&mcp.Error{Code: 1050, Message: "no paper"}).WithData(map[string]int{"left": 0})
		})
		f := startGateway(t, &Options{Names: NamesPlain}, behind("one", down, one), behind("two", down, two))
		var logged []mcp.LogParams
		c := dialFront(t, f, up, &mcpclient.Options{Observers: mcpclient.Observers{OnNotification: func(_, method string, params json.RawMessage) {
			if p := new(mcp.LogParams); method == mcp.NotificationMessage && json.Unmarshal(params, p) == nil {
				mu.Lock()
				logged = append(logged, *p)
				mu.Unlock()
			}
		}}})

		tools, err := c.ListTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := toolNames(tools), []string{"fails", "one__same", "refuses", "report", "two__same"}; !slices.Equal(got, want) {
			t.Errorf("ListTools: got %q, want %q", got, want)
		}
		for _, tool := range tools {
			if tool.Name == "report" && !reflect.DeepEqual(&tool, def) {
				t.Errorf("ListTools: got %+v, want it as the server has it: %+v", tool, def)
			}
		}
		var progress []string
		res, err := c.CallTool(t.Context(), "report", json.RawMessage(`{"n":1,"more":[true]}`), &mcpclient.CallOptions{
			Progress: func(p mcpclient.Progress) {
				progress = append(progress, fmt.Sprint(p.Progress, " ", *p.Total, " ", p.Message))
			},
			LogLevel: mcp.LogInfo, Meta: mcp.Meta{"example.com/q": json.RawMessage(`7`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if said(res) != `{"n":1,"more":[true]}` || string(res.StructuredContent) != `{"n":3}` || string(res.Meta["example.com/r"]) != `"r"` {
			t.Errorf("CallTool: got %q, %s and _meta %v", said(res), res.StructuredContent, res.Meta)
		}
		if want := []string{"1 2 half"}; !slices.Equal(progress, want) {
			t.Errorf("progress: got %q, want %q", progress, want)
		}
		mu.Lock()
		if string(got["example.com/q"]) != "7" {
			t.Errorf("_meta at the server: got %v, want the client's", got)
		}
		if len(logged) != 1 || logged[0].Level != mcp.LogWarning || logged[0].Logger != "one/db" || string(logged[0].Data) != `"slow"` {
			t.Errorf("log messages: got %+v, want the server's", logged)
		}
		mu.Unlock()

		for name, want := range map[string]string{"one__same": "one", "two__same": "two", "fails": "error: out of paper"} {
			if res, err := c.CallTool(t.Context(), name, nil, nil); err != nil || said(res) != want {
				t.Errorf("CallTool(%q): got %v and error %v, want %q", name, res, err, want)
			}
		}
		_, err = c.CallTool(t.Context(), "refuses", nil, nil)
		if wire, ok := errors.AsType[*mcp.Error](err); !ok || wire.Code != 1050 || wire.Message != "no paper" || string(wire.Data) != `{"left":0}` {
			t.Errorf("CallTool of what refuses: got %v, want the server's own error", err)
		}
		if _, err := c.CallTool(t.Context(), "same", nil, nil); !errors.Is(err, mcp.ErrInvalidParams) {
			t.Errorf("CallTool of an unknown tool: got %v, want -32602", err)
		}
	})
}

// Resources of several servers under one URI are told apart, and what refers to them is
// rewritten with them (RES-01, RES-02, RES-04).
func TestGatewayPassesResourcesOn(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		var defs []mcpclient.Server
		for _, name := range []string{"one", "two"} {
			s := newDown(t, name, nil)
			must(t, mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://both", Name: "both", MIMEType: "text/plain"}, func(context.Context) (string, error) {
				return "both of " + name, nil
			}))
			must(t, mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://" + name, Name: name}, func(context.Context) ([]byte, error) {
				return []byte{0xff, 0}, nil
			}))
			must(t, mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "item://{id}", Name: "item"}, func(_ context.Context, v mcpserver.Vars) (mcp.ResourceContents, error) {
				if v.Get("id") == "none" {
					return mcp.ResourceContents{}, mcpserver.ErrNotFound
				}
				return mcp.ResourceContents{URI: "item://" + v.Get("id"), Text: "item " + v.Get("id") + " of " + name}, nil
			}))
			must(t, mcpserver.CompleteTemplate(s, "item://{id}", "id", func(context.Context, *mcpserver.CompleteRequest) ([]string, error) {
				return []string{name + "1", name + "2"}, nil
			}))
			mustTool(t, s, &mcp.Tool{Name: "link"}, func(context.Context, *mcpserver.ToolRequest, json.RawMessage) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: mcp.Contents{
					&mcp.ResourceLink{URI: "test://both", Name: "both"},
					&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: "item://1", Text: "x"}},
				}}, nil
			})
			defs = append(defs, behind(name, down, s))
		}
		f := startGateway(t, &Options{}, defs...)
		c := dialFront(t, f, up, nil)
		resources, err := c.ListResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var uris []string
		for _, r := range resources {
			uris = append(uris, r.URI)
		}
		if want := []string{"test://both", "test://one", "test://two", "troupe+two:test://both"}; !slices.Equal(uris, want) {
			t.Errorf("ListResources: got %q, want %q", uris, want)
		}
		for uri, want := range map[string]string{
			"test://both": "both of one", "troupe+two:test://both": "both of two",
			"item://1": "item 1 of one", "troupe+two:item://1": "item 1 of two",
			"troupe+one:item://1": "item 1 of one", // not listed so, and yet it says whose it is
		} {
			res, err := c.ReadResource(t.Context(), uri, nil)
			if err != nil || len(res.Contents) != 1 || res.Contents[0].Text != want || res.Contents[0].URI != uri {
				t.Errorf("ReadResource(%q): got %+v and error %v, want %q", uri, res, err, want)
			}
		}
		if res, err := c.ReadResource(t.Context(), "test://two", nil); err != nil || string(res.Contents[0].Blob) != "\xff\x00" {
			t.Errorf("ReadResource of a blob: got %+v and error %v", res, err)
		}
		for _, uri := range []string{"test://none", "item://none", "troupe+two:item://none", "troupe+three:item://1"} {
			if _, err := c.ReadResource(t.Context(), uri, nil); !errors.Is(err, mcpclient.ErrNotFound) {
				t.Errorf("ReadResource(%q): got error %v, want that it is not there", uri, err)
			}
		}
		res, err := c.CallTool(t.Context(), "two__link", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		link, embedded := res.Content[0].(*mcp.ResourceLink).URI, res.Content[1].(*mcp.EmbeddedResource).Resource.URI
		if link != "troupe+two:test://both" || embedded != "troupe+two:item://1" {
			t.Errorf("URIs in a result: got %q and %q, want those that are read at server two", link, embedded)
		}
		for template, want := range map[string][]string{"item://{id}": {"one1", "one2"}, "troupe+two:item://{id}": {"two1", "two2"}} {
			got, err := c.Complete(t.Context(), &mcp.CompleteParams{
				Ref: mcp.CompletionRef{Type: mcp.RefResource, URI: template}, Argument: mcp.CompletionArgument{Name: "id", Value: "x"}})
			if err != nil || !slices.Equal(got.Values, want) {
				t.Errorf("Complete(%q): got %v and error %v, want %q", template, got, err, want)
			}
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Prompts, their arguments and completions (PRM-01, PRM-03, CMP-01).
func TestGatewayPassesPromptsOn(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		s := newDown(t, "one", nil)
		must(t, mcpserver.AddPrompt(s, &mcp.Prompt{Name: "greet", Title: "G", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}, {Name: "how"}}},
			func(_ context.Context, _ *mcpserver.PromptRequest, args map[string]string) (string, error) {
				if args["who"] == "nobody" {
					return "", mcp.Errorf(mcp.CodeInvalidParams, "there is nobody")
				}
				return fmt.Sprintf("greet %s %s", args["who"], args["how"]), nil
			}))
		must(t, mcpserver.CompletePrompt(s, "greet", "how", func(_ context.Context, req *mcpserver.CompleteRequest) ([]string, error) {
			return []string{req.Value() + "ly", req.Chosen()["who"]}, nil
		}))
		f := startGateway(t, &Options{}, behind("one", down, s))
		c := dialFront(t, f, up, nil)
		prompts, err := c.ListPrompts(t.Context())
		if err != nil || len(prompts) != 1 || prompts[0].Name != "one__greet" || prompts[0].Title != "G" || len(prompts[0].Arguments) != 2 {
			t.Fatalf("ListPrompts: got %+v and error %v", prompts, err)
		}
		res, err := c.GetPrompt(t.Context(), "one__greet", map[string]string{"who": "Ada", "how": "warmly"}, nil)
		if err != nil || len(res.Messages) != 1 || res.Messages[0].Content.(*mcp.TextContent).Text != "greet Ada warmly" {
			t.Errorf("GetPrompt: got %+v and error %v", res, err)
		}
		for _, args := range []map[string]string{nil, {"who": "nobody"}} {
			if _, err := c.GetPrompt(t.Context(), "one__greet", args, nil); !errors.Is(err, mcp.ErrInvalidParams) {
				t.Errorf("GetPrompt with %v: got error %v, want -32602", args, err)
			}
		}
		got, err := c.Complete(t.Context(), &mcp.CompleteParams{
			Ref: mcp.CompletionRef{Type: mcp.RefPrompt, Name: "one__greet"}, Argument: mcp.CompletionArgument{Name: "how", Value: "warm"},
			Context: &mcp.CompletionContext{Arguments: map[string]string{"who": "Ada"}}})
		if err != nil || !slices.Equal(got.Values, []string{"warmly", "Ada"}) {
			t.Errorf("Complete: got %v and error %v", got, err)
		}
	})
}

// eventually waits for what is told without being asked.
func eventually(t *testing.T, what string, told <-chan string, want string) {
	t.Helper()
	for {
		select {
		case got := <-told:
			if got == want {
				return
			}
		case <-t.Context().Done():
			t.Fatalf("%s: %q was not told", what, want)
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: %q was not told in time", what, want)
		}
	}
}

// Changes of a server's lists reach the client in its own way (TOOL-13, RES-06, PRM-05).
func TestGatewayPassesChangesOn(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		s := newDown(t, "one", &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}})
		mustTool(t, s, &mcp.Tool{Name: "first"}, says("first"))
		f := startGateway(t, &Options{}, behind("one", down, s))
		told := make(chan string, 100)
		c := dialFront(t, f, up, &mcpclient.Options{
			OnToolsChanged: func() { told <- "tools" }, OnResourcesChanged: func() { told <- "resources" }, OnPromptsChanged: func() { told <- "prompts" },
		})
		read := func() (names []string) {
			tools, err := c.ListTools(t.Context())
			must(t, err)
			resources, err := c.ListResources(t.Context())
			must(t, err)
			prompts, err := c.ListPrompts(t.Context())
			must(t, err)
			for _, r := range resources {
				names = append(names, r.URI)
			}
			for _, p := range prompts {
				names = append(names, p.Name)
			}
			return append(names, toolNames(tools)...)
		}
		if got, want := read(), []string{"one__first"}; !slices.Equal(got, want) {
			t.Fatalf("lists at first: got %q, want %q", got, want)
		}
		if up == mcpclient.ProtocolModern { // what changes before is told to nobody
			sub, err := c.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true}, func(mcpclient.Notice) {})
			must(t, err)
			defer sub.Close()
		}
		mustTool(t, s, &mcp.Tool{Name: "second"}, says("second"))
		s.RemoveTools("first")
		eventually(t, "tools", told, "tools")
		must(t, mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://new", Name: "new"}, func(context.Context) (string, error) { return "", nil }))
		eventually(t, "resources", told, "resources")
		must(t, mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "new"}, func(context.Context, map[string]string) (string, error) { return "", nil }))
		eventually(t, "prompts", told, "prompts")
		if got, want := read(), []string{"test://new", "one__new", "one__second"}; !slices.Equal(got, want) {
			t.Errorf("lists after the changes: got %q, want %q", got, want)
		}
	})
}

// A subscription reaches the server once, whoever subscribes how often, and is taken back
// with the last (RES-05, SUB-01).
func TestGatewaySubscribes(t *testing.T) {
	inEraPairs(t, func(t *testing.T, up, down string) {
		watches := make(chan string, 100)
		var defs []mcpclient.Server
		var servers []*mcpserver.Server
		for _, name := range []string{"one", "two"} {
			s := newDown(t, name, &mcpserver.Options{Events: mcpserver.Events{OnWatched: func(uri string, on bool) { watches <- fmt.Sprint(name, " ", uri, " ", on) }}})
			must(t, mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://both", Name: "both"}, func(context.Context) (string, error) { return "", nil }))
			defs, servers = append(defs, behind(name, down, s)), append(servers, s)
		}
		f := startGateway(t, &Options{}, defs...)
		c := dialFront(t, f, up, nil)
		updates := make(chan string, 100)
		first, err := c.Subscribe(t.Context(), "troupe+two:test://both", func(uri string) { updates <- uri })
		must(t, err)
		eventually(t, "the subscription at the server", watches, "two test://both true")
		servers[0].ResourceUpdated("test://both") // another one, that nobody watches
		servers[1].ResourceUpdated("test://both")
		eventually(t, "updates", updates, "troupe+two:test://both")
		servers[1].ResourceUpdated("test://both/part")
		eventually(t, "updates of a part", updates, "troupe+two:test://both/part")
		must(t, first.Close())
		eventually(t, "the end of the subscription at the server", watches, "two test://both false")
		close(updates)
		for uri := range updates {
			if uri == "test://both" {
				t.Errorf("told of %q, which is the other server's", uri)
			}
		}
	})
}
