package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// nasty are what models, servers and people may write to be taken for more than text.
var nasty = []string{
	hostile,
	`javascript:alert(1)`, "jAvAsCrIpT:alert(1)", "java\tscript:alert(1)", `data:text/html,<script>alert(1)</script>`, `vbscript:x`, `//evil.example/x`, `https://evil.example/`,
	`[a link](javascript:alert(1)) ![x](data:image/svg+xml,<svg/onload=alert(1)>)`,
	`<svg onload=alert(1)><script>alert(1)</script></svg>`, `"><svg/onload=alert(1)>`, `' onmouseover=alert(1) x='`, `{{.}}</textarea><iframe src=x>`,
}

// ours are the elements that our templates have.
var ours = strings.Fields("html head meta title link script body a header strong nav form button main p h1 h2 h3 h4 ul ol li dl dt dd table thead tbody tr th td time code pre blockquote " +
	"span br details summary label input select option textarea fieldset legend div svg g rect text path line polyline circle title desc defs figure figcaption small section article aside footer caption datalist")

// markup reports what of a page is not ours: an element, a handler of an event, or a link that leads off the console.
func markup(page string) (bad []string) {
	for z := html.NewTokenizer(strings.NewReader(page)); z.Next() != html.ErrorToken; {
		t := z.Token()
		if t.Type != html.StartTagToken && t.Type != html.SelfClosingTagToken {
			continue
		}
		if !slices.Contains(ours, t.Data) {
			bad = append(bad, t.String())
		}
		for _, a := range t.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc", a.Key == "http-equiv":
				bad = append(bad, t.String())
			case slices.Contains([]string{"href", "src", "action", "formaction", "xlink:href"}, a.Key):
				if a.Val != "" && a.Val[0] != '#' && a.Val[0] != '?' && (a.Val[0] != '/' || strings.HasPrefix(a.Val, "//")) {
					bad = append(bad, t.String())
				}
			}
		}
	}
	return bad
}

// TestNothingIsMarkup: whatever a model, a server or a person writes, into whatever is shown, is text: no link leads
// off the console, no element and no handler comes from it (SECA-34).
func TestNothingIsMarkup(t *testing.T) {
	for _, text := range nasty {
		d := newDesk(t, nil)
		ctx := t.Context()
		name := strings.Map(func(r rune) rune {
			if r < ' ' {
				return '_'
			}
			return r
		}, text)
		id := name[:min(len(name), store.MaxJobID)]
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		arguments := json.RawMessage(`{"x":` + string(quoted) + `}`)
		job, err := d.store.AddJob(ctx, store.Job{ID: id, Agent: name, Batch: name, Key: text, Prompt: text, Input: arguments, Hook: text, Schedule: name})
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := d.store.ClaimJobs(ctx, id, 1, time.Hour, []string{name})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		run := claimed[0].Run
		d.record(run, "", []runlog.Entry{
			{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: name, Model: text, Input: []llm.Message{llm.User(text)}}},
			{Type: store.ToolIntent, Key: "k", Body: &runlog.ToolIntent{Tool: text, Server: text, CallID: "k", Arguments: arguments}}, sent("k", ""),
			{Type: store.ToolResult, Key: "k", Body: &runlog.ToolResult{Tool: text, Server: text, CallID: "k", Made: true, Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(text)}}}},
			{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Message: llm.Assistant(text), Finish: llm.FinishStop}},
		})
		d.open(store.Ask{ID: id, Run: run, Kind: runlog.AskKind, Tool: text, Server: text, Origin: text}, runlog.ApprovalPayload{Server: text, Tool: text, Arguments: arguments})
		d.open(store.Ask{ID: "page", Run: run, Kind: runlog.AskURL, Server: text}, &mcpclient.Ask{Kind: mcpclient.AskURL, Server: text, Message: text, URL: &mcpclient.URLView{URL: text, Host: text, Domain: text, Warnings: []string{text}}})
		if _, err := d.store.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: job.ID, Epoch: claimed[0].Epoch}, Owner: id, State: store.JobFailed, Error: text,
			Result: json.RawMessage(`{"text":` + string(quoted) + `}`)}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.store.PutSchedule(ctx, store.Schedule{Name: id, Cron: text, Zone: text, Agent: name, Prompt: text}); err != nil {
			t.Fatal(err)
		}
		q := url.QueryEscape(text)
		for _, path := range []string{"/", "/inbox/" + url.PathEscape(id), "/inbox/page", "/runs", "/runs/" + url.PathEscape(run), "/jobs", "/jobs/" + url.PathEscape(id), "/schedules", "/workers",
			"/runs?agent=" + q, "/jobs?agent=" + q + "&batch=" + q + "&schedule=" + q, "/login?ticket=" + q, "/" + url.PathEscape(text)} {
			status, page := d.get(d.browser, path)
			if status == http.StatusInternalServerError {
				t.Errorf("%q: %s answers %d", text, path, status)
			}
			if bad := markup(page); bad != nil {
				t.Errorf("%q: %s has %q", text, path, bad)
			}
		}
		// What a form gives back is text, too.
		for _, path := range []string{"/jobs", "/schedules"} {
			_, page := d.post(d.browser, path, url.Values{"do": {"add"}, "prompt": {text}, "begin": {text}, "cron": {text}, "name": {text}, "zone": {text}, "agent": {text}, "key": {text}, "timeout": {text}, "attempts": {text}})
			if bad := markup(page); bad != nil {
				t.Errorf("%q: POST %s has %q", text, path, bad)
			}
		}
	}
}

// routes are the POST routes of the console, as its source has them: a new one is tested by being there.
func routes(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`HandleFunc\("POST ([^"]+)", (?:c\.page\((\w+), )?`).FindAllStringSubmatch(string(source), -1) {
			all[found[1]] = found[2]
		}
	}
	if len(all) < 6 {
		t.Fatalf("found the routes %v only", all)
	}
	return all
}

var wildcard = regexp.MustCompile(`\{[^}]+\}`)

// TestEveryPost: a POST of another site changes nothing on any route, and neither does one of a visitor who lacks the role;
// without a login there is none at all.
func TestEveryPost(t *testing.T) {
	role := console.Viewer
	d := newDesk(t, func(o *console.Options) {
		o.Visitor = func(*http.Request) (string, console.Role) { return "eve", role }
		o.Hosts = []string{"console.example"}
	})
	post := func(path string, header ...string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("do=cancel"))
		r.Host = "console.example"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		d.console.ServeHTTP(w, r)
		return w.Code
	}
	needs := map[string]console.Role{"Viewer": console.Viewer, "Answerer": console.Answerer, "Operator": console.Operator, "": console.Stranger}
	for route, name := range routes(t) {
		path := wildcard.ReplaceAllString(route, "none")
		role = console.Operator
		for what, header := range map[string][]string{
			"another site":          {"Sec-Fetch-Site", "cross-site"},
			"another site's origin": {"Origin", "https://evil.example"},
			"a sandboxed page":      {"Origin", "null"},
			"the same site":         {"Sec-Fetch-Site", "same-site"},
		} {
			if got := post(path, header...); got != http.StatusForbidden {
				t.Errorf("POST %s of %s: got %d, want 403", route, what, got)
			}
		}
		if got := func() int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil)
			r.Host = "rebound.example"
			w := httptest.NewRecorder()
			d.console.ServeHTTP(w, r)
			return w.Code
		}(); got != http.StatusMisdirectedRequest {
			t.Errorf("POST %s by another name: got %d, want 421", route, got)
		}
		need, ok := needs[name]
		if !ok {
			t.Fatalf("POST %s needs the role %q, which the test does not know", route, name)
		}
		for role = console.Stranger; role < console.Operator; role++ {
			got := post(path, "Sec-Fetch-Site", "same-origin")
			if role < need && got != http.StatusForbidden && got != http.StatusUnauthorized {
				t.Errorf("POST %s as role %d: got %d, want 403 or 401", route, role, got)
			}
			if role >= need && name != "" && (got == http.StatusForbidden || got == http.StatusUnauthorized) {
				t.Errorf("POST %s as role %d: got %d, want it to be let in", route, role, got)
			}
		}
	}
}

// TestStreamOfAnotherOrigin: a page of another site cannot read the event stream: without the cookie, which it does not
// send, it is refused, no answer permits another origin to read it, and by another name it is refused with the cookie.
func TestStreamOfAnotherOrigin(t *testing.T) {
	d := newDesk(t, nil)
	for what, change := range map[string]func(*http.Request){
		"without the cookie": func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
		"by another name":    func(r *http.Request) { r.Host = "evil.example" },
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, d.server.URL+"/live?inbox", nil)
		r.Host = strings.TrimPrefix(d.server.URL, "http://")
		change(r)
		w := httptest.NewRecorder()
		d.console.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized && w.Code != http.StatusMisdirectedRequest || w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Cross-Origin-Resource-Policy") != "same-origin" {
			t.Errorf("%s: got %d with %v", what, w.Code, w.Header())
		}
	}
}
