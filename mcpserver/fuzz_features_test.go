package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// PAGE-05: any cursor gives a page that there is, or -32602.
func FuzzCursor(f *testing.F) {
	s, _ := newServer(f, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 2}})
	if err := errors.Join(addPrompts(s), addResources(s)); err != nil {
		f.Fatal(err)
	}
	p := serve(f, s)
	p.modern()
	valid := map[string]map[string]string{} // by method and cursor: the page
	for method := range lists {
		valid[method] = map[string]string{}
		for cursor := (*string)(nil); ; {
			l := p.page(p.version, method, cursor)
			if cursor != nil {
				valid[method][*cursor] = fmt.Sprint(l.Names)
			}
			if cursor = l.NextCursor; cursor == nil {
				break
			}
			f.Add(*cursor)
		}
	}
	f.Add("")
	f.Add("\n")
	f.Add(strings.Repeat("A", 40_000))
	f.Fuzz(func(t *testing.T, cursor string) {
		p.t = t
		raw, err := json.Marshal(cursor)
		if err != nil || json.Unmarshal(raw, &cursor) != nil {
			t.Skip()
		}
		for method := range lists {
			line := request(p.version, 1, method, `{"cursor":`+string(raw)+`}`)
			want, ok := valid[method][cursor]
			if !ok {
				p.expectError(line, mcp.CodeInvalidParams, "1")
				continue
			}
			if got := fmt.Sprint(p.page(p.version, method, &cursor).Names); got != want {
				t.Errorf("%s with %q: got %s, want %s", method, cursor, got, want)
			}
		}
	})
}

// SECA-55: a name is data, whatever is in it: it finds the thing of just that name, or
// nothing.
func FuzzNames(f *testing.F) {
	s, _ := newServer(f, nil)
	if err := errors.Join(addPrompts(s), addResources(s), addCompletions(s)); err != nil {
		f.Fatal(err)
	}
	s.RemoveTools("block", "hang", "panic") // they wait, or are loud
	for _, name := range []string{"echo", "ECHO", "echo\x00", "echo' OR '1'='1", "%", "_cho", `echo"; DROP TABLE tools; --`, "ech*", "\\u0065cho", "",
		"test://text", "test://users/1%27%20OR%201", "simple", "NEAR(a b)", "../echo", "${echo}"} {
		f.Add(name)
	}
	p := serve(f, s)
	p.modern()
	tools := map[string]bool{"echo": true, "fail": true, "refuse": true, "steps": true, "log": true, "who": true}
	f.Fuzz(func(t *testing.T, name string) {
		p.t = t
		raw, err := json.Marshal(name)
		if err != nil || json.Unmarshal(raw, &name) != nil {
			t.Skip()
		}
		if answer := p.ask(request(p.version, 1, mcp.MethodCallTool, fmt.Sprintf(`{"name":%s}`, raw))); !tools[name] {
			p.wantError("tools/call "+name, answer, mcp.CodeInvalidParams, "1")
		}
		for _, line := range []string{
			request(p.version, 1, mcp.MethodGetPrompt, fmt.Sprintf(`{"name":"greet","arguments":{"name":%s}}`, raw)),
			request(p.version, 1, mcp.MethodGetPrompt, fmt.Sprintf(`{"name":%s}`, raw)),
			request(p.version, 1, mcp.MethodReadResource, fmt.Sprintf(`{"uri":%s}`, raw)),
			request(p.version, 1, mcp.MethodComplete, fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":%s}}`, raw)),
			request(p.version, 1, mcp.MethodComplete, fmt.Sprintf(`{"ref":{"type":"ref/resource","uri":%s},"argument":{"name":"id","value":"x"}}`, raw)),
		} {
			if answer := p.ask(line); !strings.Contains(answer, `"id":1`) {
				t.Errorf("%s: got %s", line, answer)
			}
		}
	})
}

// SECA-10: templates and the URIs for them come together, or do not, without harm.
func FuzzTemplate(f *testing.F) {
	f.Add("{a}", "x:b")
	f.Add("{/a*}{?b*}{#c}", "x:/1/2?b=3#4")
	f.Add("{+a}{b:3}", "x:abc")
	f.Add("{a", "x")
	s, _ := newServer(f, &mcpserver.Options{Lists: mcpserver.ListOptions{DeclareAll: true}})
	p := serve(f, s)
	p.modern()
	f.Fuzz(func(t *testing.T, template, uri string) {
		p.t = t
		template = "x:" + template
		raw, jsonErr := json.Marshal(uri)
		if _, err := uritemplate.Parse(template); err != nil || jsonErr != nil {
			t.Skip() // the server would remember it
		}
		err := mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: template, Name: "x"},
			func(_ context.Context, vars mcpserver.Vars) (string, error) {
				for name := range vars {
					vars.Get(name)
					vars.List(name)
				}
				return "found", nil
			})
		defer s.RemoveTemplates(template)
		if err != nil {
			t.Errorf("adding %q: %v", template, err)
		}
		if answer := p.ask(request(p.version, 1, mcp.MethodReadResource, `{"uri":`+string(raw)+`}`)); !strings.Contains(answer, `"id":1`) {
			t.Errorf("%q, %q: got %s", template, uri, answer)
		}
	})
}
