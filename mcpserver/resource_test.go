package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// fixed returns a handler of resources that returns a value.
func fixed[Out mcpserver.ResourceOut](value Out) func(context.Context) (Out, error) {
	return func(context.Context) (Out, error) { return value, nil }
}

// addResources adds resources and templates of every kind.
func addResources(s *mcpserver.Server) error {
	size, half := int64(5), 0.5
	return errors.Join(
		mcpserver.AddResourceFunc(s, &mcp.Resource{
			URI: "test://text", Name: "text", Title: "A text", Description: "It says hello.", MIMEType: "text/plain", Size: &size,
			Annotations: &mcp.Annotations{Audience: []mcp.Role{mcp.RoleUser}, Priority: &half, LastModified: "2026-01-02T03:04:05Z"},
			Icons:       []mcp.Icon{{Src: "https://example.com/i.png", MIMEType: "image/png", Sizes: []string{"48x48"}, Theme: "dark"}},
			Meta:        mcp.Meta{"com.example/a": json.RawMessage(`1`)},
		}, fixed("hello")),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://blob", Name: "blob", MIMEType: "image/png"}, fixed([]byte{0xff, 0, 1})),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://empty", Name: "empty"}, fixed([]byte(nil))),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://binary", Name: "binary"}, fixed("\xff\xfe")),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://folder", Name: "folder", MIMEType: "inode/directory"}, fixed([]mcp.ResourceContents{
			{URI: "test://folder/a", MIMEType: "text/plain", Text: "a"}, {URI: "test://folder/b", Blob: []byte("b"), Meta: mcp.Meta{"com.example/b": json.RawMessage(`2`)}},
		})),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://none", Name: "none"}, fixed([]mcp.ResourceContents{})),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://nil", Name: "nil"}, fixed[*mcp.ReadResourceResult](nil)),
		mcpserver.AddResource(s, &mcp.Resource{URI: "test://who", Name: "who"}, func(_ context.Context, req *mcpserver.ResourceRequest) (string, error) {
			return fmt.Sprint(req.URI(), " ", req.Client().Version, " ", req.Vars() == nil), nil
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://gone", Name: "gone"}, func(context.Context) (string, error) {
			return "", fmt.Errorf("opening it: %w", fs.ErrNotExist)
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://secret", Name: "secret"}, func(context.Context) (string, error) {
			return "", errors.New("the password is hunter2")
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://refused", Name: "refused"}, func(context.Context) (string, error) {
			return "", mcp.Errorf(1234, "not for you")
		}),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "test://cached", Name: "cached"}, func(context.Context) (*mcp.ReadResourceResult, error) {
			ttl := int64(1000)
			return &mcp.ReadResourceResult{
				Contents: []mcp.ResourceContents{{Text: "x"}}, TTLMs: &ttl, CacheScope: mcp.CachePublic,
				Meta: mcp.Meta{"com.example/c": json.RawMessage(`3`)},
			}, nil
		}),
		mcpserver.AddTemplate(s, &mcp.ResourceTemplate{URITemplate: "test://users/{id}", Name: "users", MIMEType: "application/json"},
			func(_ context.Context, req *mcpserver.ResourceRequest, vars mcpserver.Vars) (string, error) {
				if vars.Get("id") == "0" {
					return "", mcpserver.ErrNotFound
				}
				return fmt.Sprintf(`{"id":%q,"uri":%q}`, vars.Get("id"), req.URI()), nil
			}),
		mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "test://users/me{?x,tags*}", Name: "me"},
			func(_ context.Context, vars mcpserver.Vars) (string, error) {
				return fmt.Sprint("me ", vars.Get("x"), vars.List("tags"), vars.Get("none"), vars.List("none")), nil
			}),
		mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "test://{+rest}", Name: "rest"},
			func(_ context.Context, vars mcpserver.Vars) (string, error) { return "rest " + vars.Get("rest"), nil }),
		mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "file:///etc/{+path}", Name: "etc"},
			func(_ context.Context, vars mcpserver.Vars) (string, error) { return "etc " + vars.Get("path"), nil }),
	)
}

func withResources(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, opts)
				if err := addResources(s); err != nil {
					t.Fatal(err)
				}
				p := serve(t, s)
				p.open(v)
				synctest.Wait() // it has initialized, so that changes are told in their time
				f(t, v, p, s)
			})
		})
	}
}

// read returns resources/read.
func read(v mcp.Version, id any, uri string) string {
	return request(v, id, mcp.MethodReadResource, fmt.Sprintf(`{"uri":%q}`, uri))
}

// readResult reads and decodes a resource.
func (p *peer) readResult(v mcp.Version, uri string) mcp.ReadResourceResult {
	p.t.Helper()
	answer := p.ask(read(v, uri, uri))
	var got struct {
		Result mcp.ReadResourceResult
		Error  *mcp.Error
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Error != nil {
		p.t.Fatalf("reading %q: got %s", uri, clip(answer))
	}
	return got.Result
}

// RES-03, RES-08: text and blobs, several contents, and what is filled in.
func TestReadResource(t *testing.T) {
	withResources(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		tests := map[string][]mcp.ResourceContents{
			"test://text":                   {{URI: "test://text", MIMEType: "text/plain", Text: "hello"}},
			"test://blob":                   {{URI: "test://blob", MIMEType: "image/png", Blob: []byte{0xff, 0, 1}}},
			"test://empty":                  {{URI: "test://empty", Blob: []byte{}}},
			"test://binary":                 {{URI: "test://binary", Blob: []byte{0xff, 0xfe}}},
			"test://folder":                 {{URI: "test://folder/a", MIMEType: "text/plain", Text: "a"}, {URI: "test://folder/b", MIMEType: "inode/directory", Blob: []byte("b")}},
			"test://none":                   {},
			"test://who":                    {{URI: "test://who", Text: "test://who " + string(v) + " true"}},
			"test://users/7":                {{URI: "test://users/7", MIMEType: "application/json", Text: `{"id":"7","uri":"test://users/7"}`}},
			"test://users/a%2Fb":            {{URI: "test://users/a%2Fb", MIMEType: "application/json", Text: `{"id":"a/b","uri":"test://users/a%2Fb"}`}},
			"test://users/ü":                {{URI: "test://users/ü", MIMEType: "application/json", Text: `{"id":"ü","uri":"test://users/ü"}`}},
			"test://users/me":               {{URI: "test://users/me", Text: "me [][]"}},
			"test://users/me?x=1":           {{URI: "test://users/me?x=1", Text: "me 1[][]"}},
			"test://users/x/y?z=..":         {{URI: "test://users/x/y?z=..", Text: "rest users/x/y?z=.."}},
			"file:///etc/a/b":               {{URI: "file:///etc/a/b", Text: "etc a/b"}},
			"test://users/me?tags=a&tags=b": {{URI: "test://users/me?tags=a&tags=b", Text: "me [a b][]"}},
		}
		for uri, want := range tests {
			got := p.readResult(v, uri).Contents
			for i := range got {
				if got[i].Meta != nil && !v.Has(mcp.FeatureTitles) {
					t.Errorf("%s: %s has no _meta in contents, got %v", uri, v, got[i].Meta)
				}
				got[i].Meta = nil
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", uri, got, want)
			}
		}
		if got := p.ask(read(v, 1, "test://blob")); !strings.Contains(got, `"blob":"/wAB"`) { // base64 with padding where needed
			t.Errorf("a blob: got %s", got)
		}
	})
}

// RES-04: what is missing is missing in the way of the revision, and never empty.
// BASE-17: 2026-07-28 never sees -32002. LOG-06: other errors say nothing.
func TestResourceErrors(t *testing.T) {
	withResources(t, nil, func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server) {
		s.RemoveTemplates("test://{+rest}")
		notFound := int64(mcp.CodeResourceNotFound)
		if v.Era() == mcp.EraModern {
			notFound = mcp.CodeInvalidParams
		}
		for _, uri := range []string{"test://missing", "test://gone", "test://users/0", "other:x", "test://users/a/b", "urn:x:y"} {
			e := p.expectError(read(v, 1, uri), notFound, "1")
			if got, ok := e.ResourceNotFound(); !ok || got != uri {
				t.Errorf("%s: got data %s", uri, e.Data)
			}
		}
		for _, params := range []string{
			`{}`, `{"uri":""}`, `{"uri":7}`, `{"uri":null}`, `{"uri":["test://text"]}`, `{"uri":"no scheme"}`, `{"uri":"1x://a"}`,
			`{"uri":"test://a b"}`, `{"uri":"test://%zz"}`, `{"uri":"test://a%"}`, `{"uri":"test://a\u0000"}`, `{"uri":"test://{id}"}`,
			fmt.Sprintf(`{"uri":"test://users/%s"}`, strings.Repeat("a", uritemplate.MaxURI)),
		} {
			p.expectError(request(v, 2, mcp.MethodReadResource, params), mcp.CodeInvalidParams, "2") // RES-08
		}
		for _, uri := range []string{"test://secret", "test://nil"} {
			if e := p.expectError(read(v, 3, uri), mcp.CodeInternal, "3"); e.Message != "internal error" {
				t.Errorf("%s: got %q", uri, e.Message)
			}
		}
		p.expectError(read(v, 4, "test://refused"), 1234, "4")
	})
}

// SECA-46, RES-08: a URI that climbs, or that means another host or another path than
// it seems to, reaches no handler.
func TestClimbingURIs(t *testing.T) {
	withResources(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		for _, uri := range []string{
			"file:///etc/..", "file:///etc/../shadow", "file:///etc/%2e%2e/shadow", "file:///etc/.%2E/shadow", "file:///etc/./shadow",
			"file:///etc/a/../../b", "file:///etc/a%2f..%2fb", "file:///etc/a%2Fb", "file:///etc/a%5Cb", "file:///etc/..%5c..%5cb",
			"file:///etc/a%00b", "test://users/..", "test://users/%2e%2e", "test://users/..%2F..%2Fetc", "test://x/../y", "test://x/..%5Cy",
			"test://users/%2e", "FILE:///etc/../x",
		} {
			code := int64(mcp.CodeResourceNotFound)
			if v.Era() == mcp.EraModern {
				code = mcp.CodeInvalidParams
			}
			p.expectError(read(v, uri, uri), code, fmt.Sprintf("%q", uri))
		}
		for _, uri := range []string{"file:///etc/\\..", "file:///etc/a|b", "file:///etc/<a>"} {
			p.expectError(read(v, 1, uri), mcp.CodeInvalidParams, "1")
		}
	})
}

// SECA-46: a host in a file URI is another machine's.
func TestFileURIsWithHosts(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		err := mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "file://{+all}", Name: "all"},
			func(_ context.Context, vars mcpserver.Vars) (string, error) { return vars.Get("all"), nil })
		if err != nil {
			t.Fatal(err)
		}
		p.modern()
		for _, uri := range []string{"file://evil.example/etc/passwd", "file://localhost/etc/passwd", "file://127.0.0.1/c$", "file://host"} {
			p.expectError(read(p.version, 1, uri), mcp.CodeInvalidParams, "1")
		}
		if got := p.readResult(p.version, "file:///etc/hosts"); got.Contents[0].Text != "/etc/hosts" {
			t.Errorf("without a host: got %+v", got)
		}
	})
}

// SECA-10: URIs and templates that would take long to match.
func TestLongURIs(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, s *mcpserver.Server, p *peer, _ *gate) {
		for i, template := range []string{"x://{+a}{/b*}{?c*}", "x://{/a*}{/b*}{/c*}{/d*}", "x://{a*}{b*}{c*}", "x://{?a*}{&b*}"} {
			err := mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: template, Name: fmt.Sprint(i)},
				func(context.Context, mcpserver.Vars) (string, error) { return "found", nil })
			if err != nil {
				t.Fatal(err)
			}
		}
		p.modern()
		for _, part := range []string{"/a", "a,", "?a=b&", "%41"} {
			uri := "x://" + strings.Repeat(part, 100_000/len(part))
			p.expectError(read(p.version, 1, uri), mcp.CodeInvalidParams, "1")
			start := time.Now() // virtual: only a wait would move it
			p.ask(read(p.version, 2, uri[:uritemplate.MaxURI-uritemplate.MaxURI%len(part)-len(part)+len("x://")]))
			if took := time.Since(start); took != 0 {
				t.Errorf("%q: took %v", part, took)
			}
		}
	})
	for _, template := range []string{strings.Repeat("{+a}", 25_000), "x://{" + strings.Repeat("a,", 100) + "b}"} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(t, nil)
			err := mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: template, Name: "x"},
				func(context.Context, mcpserver.Vars) (string, error) { return "", nil })
			if !errors.Is(err, uritemplate.ErrTooLong) {
				t.Errorf("a template of %d bytes: got %v", len(template), err)
			}
		})
	}
}

// RES-01, RES-02, RES-09, RES-10, ICON-01: the lists, in their order, whole in the
// newest revision, and without what older ones do not have.
func TestListResources(t *testing.T) {
	withResources(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		var got struct{ Result mcp.ListResourcesResult }
		if err := json.Unmarshal([]byte(p.ask(request(v, 1, mcp.MethodListResources, "{}"))), &got); err != nil {
			t.Fatal(err)
		}
		var uris []string
		for _, r := range got.Result.Resources {
			uris = append(uris, r.URI)
		}
		if len(uris) != 12 || !slices.IsSorted(uris) {
			t.Errorf("resources: got %v", uris)
		}
		text := got.Result.Resources[slices.Index(uris, "test://text")]
		if text.Name != "text" || text.Description == "" || text.MIMEType != "text/plain" || *text.Size != 5 || *text.Annotations.Priority != 0.5 {
			t.Errorf("got %+v", text)
		}
		titles, icons := v.Has(mcp.FeatureTitles), v.Has(mcp.FeatureIcons)
		if (text.Title != "") != titles || (text.Meta != nil) != titles || (text.Annotations.LastModified != "") != titles || (text.Icons != nil) != icons {
			t.Errorf("members of %s: got %+v %+v", v, text, text.Annotations)
		}
		answer := p.ask(request(v, 2, mcp.MethodListResourceTemplates, "{}"))
		var templates struct {
			Result mcp.ListResourceTemplatesResult
		}
		if err := json.Unmarshal([]byte(answer), &templates); err != nil {
			t.Fatal(err)
		}
		uris = nil
		for _, r := range templates.Result.ResourceTemplates {
			uris = append(uris, r.URITemplate)
		}
		if want := []string{"file:///etc/{+path}", "test://users/me{?x,tags*}", "test://users/{id}", "test://{+rest}"}; !slices.Equal(uris, want) {
			t.Errorf("templates: got %v, want %v", uris, want)
		}
	})
}

// CACHE-01: what reading returns says how long it may be kept. SECA-47: it is private
// unless the handler says otherwise.
func TestReadCacheHints(t *testing.T) {
	withResources(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		answer := p.ask(read(v, 1, "test://cached"))
		hinted := strings.Contains(answer, `"ttlMs":1000`) && strings.Contains(answer, `"cacheScope":"public"`)
		if hinted != v.Has(mcp.FeatureCacheHints) || !strings.Contains(answer, `"com.example/c":3`) {
			t.Errorf("got %s", answer)
		}
		answer = p.ask(read(v, 2, "test://text"))
		hinted = strings.Contains(answer, `"ttlMs":0`) && strings.Contains(answer, `"cacheScope":"private"`)
		if hinted != v.Has(mcp.FeatureCacheHints) || strings.Contains(answer, "serverInfo") != (v.Era() == mcp.EraModern) { // META-06
			t.Errorf("got %s", answer)
		}
	})
}

func TestAddResourceErrors(t *testing.T) {
	tooMuch, negative := 1.5, int64(-1)
	resources := map[string]*mcp.Resource{
		"nil": nil, "no URI": {Name: "x"}, "no name": {URI: "x:y"}, "no scheme": {URI: "/etc/passwd", Name: "x"},
		"bad URI": {URI: "x:a b", Name: "x"}, "taken": {URI: "test://text", Name: "x"},
		"icon":     {URI: "x:y", Name: "x", Icons: []mcp.Icon{{Src: "javascript:alert(1)"}}}, // ICON-01
		"theme":    {URI: "x:y", Name: "x", Icons: []mcp.Icon{{Src: "data:image/png;base64,", Theme: "pink"}}},
		"priority": {URI: "x:y", Name: "x", Annotations: &mcp.Annotations{Priority: &tooMuch}}, // RES-10
		"audience": {URI: "x:y", Name: "x", Annotations: &mcp.Annotations{Audience: []mcp.Role{"system"}}},
		"time":     {URI: "x:y", Name: "x", Annotations: &mcp.Annotations{LastModified: "yesterday"}},
		"size":     {URI: "x:y", Name: "x", Size: &negative},
	}
	for name, r := range resources {
		refused(t, name, func(s *mcpserver.Server) error { return mcpserver.AddResourceFunc(s, r, fixed("")) })
	}
	templates := map[string]*mcp.ResourceTemplate{
		"nil": nil, "no template": {Name: "x"}, "no name": {URITemplate: "x:{y}"}, "brace": {URITemplate: "x:{y", Name: "x"},
		"no fixed scheme": {URITemplate: "{scheme}:y", Name: "x"}, "no scheme": {URITemplate: "/x/{y}", Name: "x"},
		"taken": {URITemplate: "test://users/{id}", Name: "x"},
	}
	for name, r := range templates {
		refused(t, name, func(s *mcpserver.Server) error {
			return mcpserver.AddTemplateFunc(s, r, func(context.Context, mcpserver.Vars) (string, error) { return "", nil })
		})
	}
}

// refused checks that adding fails.
func refused(t *testing.T, name string, add func(*mcpserver.Server) error) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(t, nil)
			if err := errors.Join(addResources(s), addPrompts(s)); err != nil {
				t.Fatal(err)
			}
			err := add(s)
			if err == nil {
				t.Fatal("got no error")
			}
			if name == "taken" && !errors.Is(err, mcpserver.ErrExists) {
				t.Errorf("got %v, want ErrExists", err)
			}
		})
	})
}
