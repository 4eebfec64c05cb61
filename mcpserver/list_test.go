package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// lists are the four list methods, and where their entries are.
var lists = map[string]string{
	mcp.MethodListTools: "tools", mcp.MethodListResources: "resources",
	mcp.MethodListResourceTemplates: "resourceTemplates", mcp.MethodListPrompts: "prompts",
}

// listed is one page of any list.
type listed struct {
	Names      []string
	NextCursor *string
	TTLMs      *int64
	CacheScope string
}

func (p *peer) page(v mcp.Version, method string, cursor *string) listed {
	p.t.Helper()
	params := "{}"
	if cursor != nil {
		params = fmt.Sprintf(`{"cursor":%q}`, *cursor)
	}
	answer := p.ask(request(v, method, method, params))
	var got struct {
		Result map[string]json.RawMessage
		Error  *mcp.Error
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error != nil {
		p.t.Fatalf("%s: got %s", method, answer)
	}
	var entries []struct{ Name, URI, URITemplate string }
	var l listed
	err := errors.Join(json.Unmarshal(got.Result[lists[method]], &entries), json.Unmarshal([]byte(answer), &struct{ Result *listed }{&l}))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		l.Names = append(l.Names, e.URI+e.URITemplate+e.Name)
	}
	return l
}

func addMany(t *testing.T, s *mcpserver.Server, n int) {
	t.Helper()
	for i := n - 1; i >= 0; i-- { // the order in which they are added does not matter
		name := fmt.Sprintf("n%02d", i)
		err := errors.Join(
			mcpserver.AddFunc(s, &mcp.Tool{Name: name}, nothing),
			mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: name}, says("")),
			mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://" + name, Name: name}, fixed("")),
			mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "test://" + name + "/{x}", Name: name},
				func(context.Context, mcpserver.Vars) (string, error) { return "", nil }),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// emptyServer is one without tools.
func emptyServer(t *testing.T, opts *mcpserver.Options) *mcpserver.Server {
	t.Helper()
	s, _ := newServer(t, opts)
	s.RemoveTools("echo", "fail", "refuse", "panic", "steps", "log", "block", "hang", "who")
	return s
}

// PAGE-01, PAGE-03, PAGE-04, PAGE-05, TOOL-02, CACHE-01, CACHE-08: every list comes in
// pages, in its order, with the same hints on each.
func TestListPages(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 3, CacheFor: time.Minute}})
				addMany(t, s, 7)
				p := serve(t, s)
				p.open(v)
				for method := range lists {
					var names, cursors []string
					var cursor *string
					for range 3 {
						l := p.page(v, method, cursor)
						names, cursor = append(names, l.Names...), l.NextCursor
						if l.NextCursor != nil {
							cursors = append(cursors, *l.NextCursor)
						}
						if hinted := l.TTLMs != nil && *l.TTLMs == 60_000 && l.CacheScope == mcp.CachePublic; hinted != v.Has(mcp.FeatureCacheHints) {
							t.Errorf("%s: hints: got %+v", method, l)
						}
					}
					if len(names) != 7 || !slices.IsSorted(names) || cursor != nil || len(cursors) != 2 {
						t.Errorf("%s: got %v, cursors %v", method, names, cursors)
					}
					testCursors(t, v, p, method, cursors)
				}
				p.expectError(request(v, 1, "tools/list", `{"cursor":7}`), mcp.CodeInvalidParams, "1")
				if got := p.ask(request(v, 2, "tools/list", `{"cursor":null}`)); !strings.Contains(got, `"n00"`) {
					t.Errorf("null for a cursor: got %s", got)
				}
			})
		})
	}
}

// testCursors: PAGE-02, PAGE-05: what is not a cursor of this list is none.
func testCursors(t *testing.T, v mcp.Version, p *peer, method string, cursors []string) {
	good := cursors[0]
	bad := []string{"", "x", "bogus", good + "A", good[1:], good[:len(good)-1], good + "\n", " " + good, good + "=", strings.ToUpper(good),
		base64.RawURLEncoding.EncodeToString([]byte("n03")), strings.Repeat("A", 100_000)}
	for i := range good {
		flipped := []byte(good)
		flipped[i] ^= 1
		bad = append(bad, string(flipped))
	}
	for other := range lists { // of another list
		if other != method {
			bad = append(bad, *p.page(v, other, nil).NextCursor)
		}
	}
	for _, cursor := range bad {
		raw, _ := json.Marshal(cursor)
		p.expectError(request(v, 3, method, `{"cursor":`+string(raw)+`}`), mcp.CodeInvalidParams, "3")
	}
}

// PAGE-05, CACHE-08: cursors hold when entries come and go, also in another instance.
func TestCursorsAreStable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 3}}), emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 3}})
		addMany(t, one, 7)
		addMany(t, two, 7)
		p, q := serve(t, one), serve(t, two)
		p.modern()
		q.modern()
		for method := range lists {
			cursor := p.page(p.version, method, nil).NextCursor
			if got, want := q.page(q.version, method, cursor).Names, p.page(p.version, method, cursor).Names; !slices.Equal(got, want) {
				t.Errorf("%s in another instance: got %v, want %v", method, got, want)
			}
			one.RemoveTools("n00", "n03", "n06")
			one.RemovePrompts("n00", "n03", "n06")
			one.RemoveResources("test://n00", "test://n03", "test://n06")
			one.RemoveTemplates("test://n00/{x}", "test://n03/{x}", "test://n06/{x}", "unknown")
			got := p.page(p.version, method, cursor)
			if len(got.Names) != 2 || !strings.Contains(got.Names[0], "n04") || got.NextCursor != nil {
				t.Errorf("%s after a change: got %+v", method, got)
			}
			addMissing(t, one)
		}
	})
}

// addMissing adds again what the test before has removed.
func addMissing(t *testing.T, s *mcpserver.Server) {
	t.Helper()
	s.RemoveTools("n01", "n02", "n04", "n05")
	s.RemovePrompts("n01", "n02", "n04", "n05")
	s.RemoveResources("test://n01", "test://n02", "test://n04", "test://n05")
	s.RemoveTemplates("test://n01/{x}", "test://n02/{x}", "test://n04/{x}", "test://n05/{x}")
	addMany(t, s, 7)
}

// CAP-07, CAP-08, TOOL-01, RES-01, PRM-01, CMP-01: what was ever added is declared and
// answered, and nothing else.
func TestDeclaresWhatWasAdded(t *testing.T) {
	suggest := func(context.Context, *mcpserver.CompleteRequest) ([]string, error) { return nil, nil }
	adds := []struct {
		add      func(s *mcpserver.Server) error
		methods  []string
		declares func(c mcp.ServerCapabilities, v mcp.Version) bool
	}{
		{func(s *mcpserver.Server) error { return mcpserver.AddFunc(s, &mcp.Tool{Name: "a"}, nothing) },
			[]string{mcp.MethodListTools, mcp.MethodCallTool},
			func(c mcp.ServerCapabilities, _ mcp.Version) bool { return c.Tools != nil && c.Tools.ListChanged }},
		{func(s *mcpserver.Server) error {
			return mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "x:y", Name: "a"}, fixed(""))
		}, []string{mcp.MethodListResources, mcp.MethodListResourceTemplates, mcp.MethodReadResource},
			func(c mcp.ServerCapabilities, _ mcp.Version) bool {
				return c.Resources != nil && c.Resources.ListChanged && c.Resources.Subscribe
			}},
		{func(s *mcpserver.Server) error {
			return mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "a", Arguments: []mcp.PromptArgument{{Name: "x"}}}, says(""))
		}, []string{mcp.MethodListPrompts, mcp.MethodGetPrompt},
			func(c mcp.ServerCapabilities, _ mcp.Version) bool { return c.Prompts != nil && c.Prompts.ListChanged }},
		{func(s *mcpserver.Server) error { return mcpserver.CompletePrompt(s, "a", "x", suggest) },
			[]string{mcp.MethodComplete},
			func(c mcp.ServerCapabilities, v mcp.Version) bool {
				return c.Completions != nil || !v.Has(mcp.FeatureCompletions)
			}},
	}
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := mcpserver.New(mcp.Implementation{Name: "x", Version: "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for i, one := range adds {
					p := serve(t, s)
					p.open(v)
					for _, method := range one.methods {
						p.expectError(request(v, 1, method, "{}"), mcp.CodeMethodNotFound, "1")
					}
					if one.declares(serverCapabilities(t, s, v), v) && !(i == 3 && !v.Has(mcp.FeatureCompletions)) {
						t.Errorf("%s: declared before it is there", one.methods[0])
					}
					if err := one.add(s); err != nil {
						t.Fatal(err)
					}
					if !one.declares(serverCapabilities(t, s, v), v) {
						t.Errorf("%s: not declared", one.methods[0])
					}
					p = serve(t, s)
					p.open(v)
					for _, method := range one.methods {
						if got := p.ask(request(v, 1, method, "{}")); strings.Contains(got, fmt.Sprint(mcp.CodeMethodNotFound)) {
							t.Errorf("%s: got %s", method, got)
						}
					}
				}
				s.RemoveTools("a")
				if c := serverCapabilities(t, s, v); c.Tools == nil {
					t.Error("tools are not declared any more")
				}
				p := serve(t, s)
				p.open(v)
				if got := p.page(v, mcp.MethodListTools, nil); len(got.Names) != 0 { // empty, but there
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// serverCapabilities are what a new client hears.
func serverCapabilities(t *testing.T, s *mcpserver.Server, v mcp.Version) mcp.ServerCapabilities {
	t.Helper()
	p := serve(t, s)
	defer p.in.Close()
	line := request(v, 1, mcp.MethodDiscover, "{}")
	if v.Era() == mcp.EraLegacy {
		line = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, v)
	}
	var got struct {
		Result struct{ Capabilities *mcp.ServerCapabilities }
	}
	if err := json.Unmarshal([]byte(p.ask(line)), &got); err != nil || got.Result.Capabilities == nil {
		t.Fatalf("no capabilities: %v", err)
	}
	return *got.Result.Capabilities
}

// A server may declare what it will have later.
func TestDeclareAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := mcpserver.New(mcp.Implementation{Name: "x", Version: "1"}, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		c := serverCapabilities(t, s, mcp.V2025_11_25)
		if c.Tools == nil || c.Resources == nil || c.Prompts == nil || c.Completions == nil {
			t.Errorf("got %+v", c)
		}
		p := serve(t, s)
		p.modern()
		for method := range lists {
			if got := p.page(p.version, method, nil); got.Names != nil || got.NextCursor != nil {
				t.Errorf("%s: got %+v", method, got)
			}
		}
	})
}

// SECA-47, CACHE-05, CACHE-09: as soon as it may matter who asks, no answer may be shared.
func TestPrivateLists(t *testing.T) {
	pass := func(ctx context.Context, _ *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
		return next(ctx)
	}
	for name, opts := range map[string]*mcpserver.Options{
		"principal":  {Principal: &mcpserver.Principal{ID: "ada"}},
		"hook":       {HTTP: mcpserver.HTTPOptions{Authenticate: func(*http.Request) (*mcpserver.Principal, error) { return nil, nil }}},
		"middleware": {Middleware: []mcpserver.Middleware{pass}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opts.Lists.PageSize, opts.Lists.CacheFor = 1, time.Hour
				s := emptyServer(t, opts)
				addMany(t, s, 3)
				p := serve(t, s)
				p.modern()
				for method := range lists {
					for cursor := (*string)(nil); ; {
						l := p.page(p.version, method, cursor)
						if l.CacheScope != mcp.CachePrivate { // CACHE-08: on all pages
							t.Errorf("%s: got %q", method, l.CacheScope)
						}
						if cursor = l.NextCursor; cursor == nil {
							break
						}
					}
				}
				for _, line := range []string{request(p.version, 1, mcp.MethodDiscover, "{}"), read(p.version, 2, "test://n01")} {
					if got := p.ask(line); !strings.Contains(got, `"cacheScope":"private"`) {
						t.Errorf("got %s", got)
					}
				}
			})
		})
	}
}

// TOOL-03, TOOL-18, ICON-01, JSCH-04: tools without what older revisions do not have,
// and with their schemas as they are.
func TestToolsInEveryRevision(t *testing.T) {
	eachServer(t, func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server) {
		no := false
		schema := json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","x-own":[1],"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"string","$anchor":"c"}}}`)
		err := mcpserver.AddFunc(s, &mcp.Tool{
			Name: "full", Title: "Full", Description: "d", InputSchema: schema, OutputSchema: json.RawMessage(`{"type":"object"}`),
			Annotations: &mcp.ToolAnnotations{Title: "F", ReadOnlyHint: true, OpenWorldHint: &no},
			Icons:       []mcp.Icon{{Src: "https://example.com/i.png"}}, Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskForbidden},
			Meta: mcp.Meta{"com.example/a": json.RawMessage(`1`)},
		}, func(context.Context, json.RawMessage) (map[string]int, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		p.open(v)
		var got struct {
			Result struct{ Tools []map[string]json.RawMessage }
		}
		if err := json.Unmarshal([]byte(p.ask(request(v, 1, mcp.MethodListTools, "{}"))), &got); err != nil || len(got.Result.Tools) != 1 {
			t.Fatalf("got %+v", got)
		}
		want := []string{"description", "inputSchema", "name"}
		for _, one := range []struct {
			member string
			there  bool
		}{
			{"annotations", v.Has(mcp.FeatureToolAnnotations)}, {"title", v.Has(mcp.FeatureTitles)}, {"_meta", v.Has(mcp.FeatureTitles)},
			{"outputSchema", v.Has(mcp.FeatureStructuredContent)}, {"icons", v.Has(mcp.FeatureIcons)}, {"execution", v.Has(mcp.FeatureCoreTasks)},
		} {
			if one.there {
				want = append(want, one.member)
			}
		}
		slices.Sort(want)
		var members []string
		for member := range got.Result.Tools[0] {
			members = append(members, member)
		}
		slices.Sort(members)
		if !slices.Equal(members, want) {
			t.Errorf("got %v, want %v", members, want)
		}
		if in := string(got.Result.Tools[0]["inputSchema"]); in != string(schema) {
			t.Errorf("the input schema: got %s", in)
		}
	})
}

// eachServer runs f in a bubble for each revision, with an empty server and a peer
// that has said nothing.
func eachServer(t *testing.T, f func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, nil)
				f(t, v, serve(t, s), s)
			})
		})
	}
}

// The server describes itself without what older revisions do not have (LIFE-01, LIFE-05).
func TestServerInfoInEveryRevision(t *testing.T) {
	for _, v := range mcp.LegacyVersions() {
		synctest.Test(t, func(t *testing.T) {
			s, err := mcpserver.New(mcp.Implementation{
				Name: "x", Version: "1", Title: "X", Description: "d", WebsiteURL: "https://example.com", Icons: []mcp.Icon{{Src: "data:,"}},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got := serve(t, s).ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, v))
			if strings.Contains(got, `"title"`) != v.Has(mcp.FeatureTitles) {
				t.Errorf("%s: title: got %s", v, got)
			}
			for _, member := range []string{"icons", "description", "websiteUrl"} {
				if strings.Contains(got, `"`+member+`"`) != v.Has(mcp.FeatureIcons) {
					t.Errorf("%s: %s: got %s", v, member, got)
				}
			}
		})
	}
}

// SECA-48, JSCH-01, JSCH-02, JSCH-03, ROB-5: tools with hostile schemas are not added,
// and nothing is fetched for them.
func TestHostileToolSchemas(t *testing.T) {
	doubling := `{"type":"object","allOf":[{"$ref":"#/$defs/l0"}],"$defs":{`
	for i := range 20 {
		doubling += fmt.Sprintf(`"l%d":{"allOf":[{"$ref":"#/$defs/l%d"},{"$ref":"#/$defs/l%d"}]},`, i, i+1, i+1)
	}
	doubling += `"l20":{"type":"object"}}}`
	for name, schema := range map[string]string{
		"self reference": `{"type":"object","$ref":"#"}`,
		"network":        `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/s"}}}`,
		"file":           `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"doubling":       doubling,
		"giant enum":     `{"type":"object","enum":[` + strings.Repeat("1,", 120_000) + `1]}`,
		"pattern":        `{"type":"object","properties":{"a":{"pattern":"((a{100}){100}){100}"}}}`,
		"look-ahead":     `{"type":"object","properties":{"a":{"pattern":"(?=a)b"}}}`,
		"deep":           `{"type":"object","properties":{"a":` + strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat("}", 5000) + `}}`,
		"large":          `{"type":"object","description":"` + strings.Repeat("x", 300_000) + `"}`,
		"dialect":        `{"type":"object","$schema":"https://example.org/mine"}`,
		"duplicate":      `{"type":"object","type":"string"}`,
		"null":           `null`,
	} {
		for _, tool := range []*mcp.Tool{
			{Name: "x", InputSchema: json.RawMessage(schema)},
			{Name: "x", OutputSchema: json.RawMessage(schema)},
		} {
			refused(t, name, func(s *mcpserver.Server) error {
				err := mcpserver.AddFunc(s, tool, func(context.Context, json.RawMessage) (map[string]int, error) { return nil, nil })
				if err != nil && len(err.Error()) > 2000 {
					t.Errorf("%s: the message has %d bytes", name, len(err.Error()))
				}
				return err
			})
		}
	}
}

// TOOL-02: whatever is added and removed meanwhile, a page is whole, in its order, and
// what was there all along is on it.
func TestListsChangeMeanwhile(t *testing.T) {
	s := emptyServer(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 1000}})
	addMany(t, s, 5)
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := range 50 {
				name := fmt.Sprint("w", w, "-", i)
				if err := mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: name}, says("")); err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					s.RemovePrompts(name)
				}
			}
		})
	}
	p := serve(t, s)
	p.modern()
	for range 50 {
		got := p.page(p.version, mcp.MethodListPrompts, nil).Names
		if !slices.IsSorted(got) || len(got) < 5 || got[4] != "n04" {
			t.Errorf("got %v", got)
		}
	}
	writers.Wait()
	if got := p.page(p.version, mcp.MethodListPrompts, nil).Names; len(got) != 55 {
		t.Errorf("in the end: got %d prompts, want 55", len(got))
	}
}
