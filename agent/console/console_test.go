package console_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// desk is a console, and a browser that has logged in.
type desk struct {
	t       *testing.T
	store   *memstore.Store
	console *console.Console
	server  *httptest.Server
	browser *http.Client
	woken   int
}

func newDesk(t *testing.T, change func(*console.Options)) *desk {
	t.Helper()
	d := &desk{t: t, store: memstore.New(nil)}
	o := &console.Options{Store: d.store, Name: "ada", Wake: func() { d.woken++ }, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(o)
	}
	c, err := console.New(o)
	if err != nil {
		t.Fatal(err)
	}
	d.console, d.server = c, httptest.NewServer(c)
	t.Cleanup(d.server.Close)
	if o.Login == nil && o.Visitor == nil {
		d.browser = d.newBrowser()
	}
	return d
}

// newBrowser returns a browser that has opened a login link.
func (d *desk) newBrowser() *http.Client {
	d.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	b := &http.Client{Jar: jar}
	link, err := url.Parse(d.console.LoginPath())
	if err != nil {
		d.t.Fatal(err)
	}
	if status, _ := d.post(b, "/login", url.Values{"ticket": {link.Query().Get("ticket")}}); status != http.StatusOK {
		d.t.Fatalf("the login link answers %d", status)
	}
	return b
}

func (d *desk) do(b *http.Client, req *http.Request) (int, string) {
	d.t.Helper()
	res, err := b.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func (d *desk) get(b *http.Client, path string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.server.URL+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.do(b, req)
}

func (d *desk) post(b *http.Client, path string, form url.Values) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return d.do(b, req)
}

// hostile is what models, servers and people may write.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(1)>"'><a href="javascript:alert(1)">x</a>`

// newRun records a run with a call in it.
func (d *desk) newRun(id string) {
	d.t.Helper()
	var events []store.Event
	for i, e := range []runlog.Entry{
		{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "clerk", Model: "m", Input: []llm.Message{llm.User(hostile)}}},
		{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: 1}},
		{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Message: llm.Assistant(hostile), Finish: llm.FinishStop}},
		{Type: store.ToolIntent, Key: "k", Body: &runlog.ToolIntent{Tool: hostile, Server: hostile, Arguments: json.RawMessage(`{"x":"</pre><script>"}`)}},
		{Type: store.ToolResult, Key: "k", Body: &runlog.ToolResult{Tool: hostile, Made: true, Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(hostile)}}}},
	} {
		e.Time = time.Now().Add(time.Duration(i) * time.Millisecond)
		ev, err := e.Encode()
		if err != nil {
			d.t.Fatal(err)
		}
		events = append(events, ev)
	}
	if _, err := d.store.Create(d.t.Context(), store.Run{ID: id, Agent: "clerk", Title: hostile, InputHash: "h"}, "w", time.Hour, events...); err != nil {
		d.t.Fatal(err)
	}
}

// open puts a question; the hash is that of its payload.
func (d *desk) open(a store.Ask, payload any) {
	d.t.Helper()
	raw, err := jsonx.Marshal(payload)
	if err != nil {
		d.t.Fatal(err)
	}
	canonical, err := jsonx.Canonical(raw)
	if err != nil {
		d.t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	a.Payload, a.Hash = raw, "sha256:"+hex.EncodeToString(sum[:])
	if q, ok := payload.(*mcpclient.Ask); ok {
		if a.Hash, err = q.ContentHash(); err != nil {
			d.t.Fatal(err)
		}
		q.Hash = a.Hash
		if a.Payload, err = jsonx.Marshal(q); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := d.store.OpenAsk(d.t.Context(), a); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) openCall(id string) {
	d.open(store.Ask{ID: id, Run: "r", Kind: runlog.AskKind, Tool: "bank__pay", Server: "bank", Origin: "bank-server"},
		runlog.ApprovalPayload{Server: "bank", Tool: "bank__pay", Arguments: json.RawMessage(`{"to":"<b>eve</b>"}`), Tainted: true})
}

var hidden = regexp.MustCompile(`name="hash" value="([^"]*)"`)

// visit makes a request without a network; the path may begin with a host other than "c".
func visit(c *console.Console, method, path string, form url.Values) (int, string) {
	if strings.HasPrefix(path, "/") {
		path = "c" + path
	}
	req := httptest.NewRequest(method, "https://"+path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	c.ServeHTTP(out, req)
	return out.Code, out.Body.String()
}

// hash is what a page binds an answer to.
func hash(t *testing.T, page string) string {
	t.Helper()
	found := hidden.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no form:\n%s", page)
	}
	return html.UnescapeString(found[1])
}

// TestAnswers: each kind of question is shown, and an answer decides it, once and by its hash.
func TestAnswers(t *testing.T) {
	form := &mcpclient.Ask{Kind: mcpclient.AskForm, Server: "bank", Message: "Who?", Form: &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(
		`{"type":"object","properties":{"name":{"type":"string","minLength":2},"age":{"type":"integer","default":7},"ok":{"type":"boolean"},
		 "tone":{"type":"string","enum":["dry","warm"]},"days":{"type":"array","items":{"type":"string","enum":["mon","tue"]},"default":["mon"]}},"required":["name","tone"]}`)}}
	page := &mcpclient.Ask{Kind: mcpclient.AskPage, Server: "bank", Message: "Sign in", URL: &mcpclient.URLView{URL: "https://bank.example/in", Host: "bank.example", Domain: "bank.example"}}
	call := runlog.ApprovalPayload{Server: "bank", Tool: "bank__pay", Arguments: json.RawMessage(`{"to":"eve"}`)}
	limit := runlog.LimitPayload{Account: "main", Limit: "tokens", Max: "100", Spent: "90", More: "50"}
	stuck := runlog.JobPayload{Job: "night", Why: "its model's provider is away", Provider: "openai", Class: "auth", Since: time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)}
	outcome := runlog.OutcomePayload{Server: "bank", Tool: "bank__pay", Arguments: json.RawMessage(`{}`), Key: "k", Sent: time.Now()}
	tests := []struct {
		name    string
		kind    string
		payload any
		shows   string
		send    url.Values
		wrong   string // the answer is refused with this, and the question waits
		status  store.AskStatus
		scope   string
		answer  string
	}{
		{"a call", runlog.AskKind, call, "&#34;to&#34;: &#34;eve&#34;", url.Values{"do": {"accept"}}, "", store.AskAccepted, "once", ""},
		{"a call, for the run", runlog.AskKind, call, "bank__pay", url.Values{"do": {"accept"}, "scope": {"run"}}, "", store.AskAccepted, "run", ""},
		{"a call, declined", runlog.AskKind, call, "bank__pay", url.Values{"do": {"decline"}, "reason": {"no"}}, "", store.AskDeclined, "", `{"reason":"no"}`},
		{"a limit", runlog.AskLimit, limit, "50 more", url.Values{"more": {"20"}}, "", store.AskAccepted, "once", `{"more":"20"}`},
		{"a limit, no amount", runlog.AskLimit, limit, "tokens", url.Values{"more": {"-1"}}, "want an amount", store.AskPending, "", ""},
		{"a job goes on", runlog.AskJob, stuck, "provider openai is away (auth) since 2026-01-31T08:00:00Z", url.Values{"do": {"accept"}}, "", store.AskAccepted, "once", ""},
		{"a job ends", runlog.AskJob, stuck, `href="/jobs/night"`, url.Values{"do": {"decline"}}, "", store.AskDeclined, "", ""},
		{"an outcome", runlog.AskOutcome, outcome, "has ended", url.Values{"outcome": {"happened"}, "result": {"paid"}}, "", store.AskAccepted, "once", `"result":"paid"`},
		{"an outcome, none chosen", runlog.AskOutcome, outcome, "has ended", url.Values{}, "is none of", store.AskPending, "", ""},
		{"a page", runlog.AskPage, page, "<strong>bank.example</strong>", url.Values{"page": {"open"}}, "", store.AskAccepted, "once", `{"page":"open"}`},
		{"a page, given up", runlog.AskPage, page, "bank.example", url.Values{"do": {"decline"}}, "", store.AskDeclined, "", `{"page":"cancel"}`},
		{"a form", runlog.AskForm, form, `value="7"`, url.Values{"field.name": {"Ada"}, "field.age": {"36"}, "field.ok": {"yes"}, "field.tone": {"dry"}, "field.days": {"mon", "tue"}}, "",
			store.AskAccepted, "once", `{"age":36,"days":["mon","tue"],"name":"Ada","ok":true,"tone":"dry"}`},
		{"a form, none of the days", runlog.AskForm, form, "checked", url.Values{"field.name": {"Ada"}, "field.tone": {"warm"}}, "", store.AskAccepted, "once", `"days":[]`},
		{"a form, too short", runlog.AskForm, form, "Who?", url.Values{"field.name": {"A"}, "field.tone": {"dry"}, "field.age": {"x"}}, "It must be a whole number", store.AskPending, "", ""},
		{"a form, a value that is no option", runlog.AskForm, form, "Who?", url.Values{"field.name": {"Ada"}, "field.tone": {"loud"}}, "has no option", store.AskPending, "", ""},
		{"a form, declined", runlog.AskForm, form, "Who?", url.Values{"do": {"decline"}}, "", store.AskDeclined, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDesk(t, nil)
			d.newRun("r")
			d.open(store.Ask{ID: "a", Run: "r", Kind: tt.kind, Server: "bank", Origin: "bank-server"}, tt.payload)
			_, list := d.get(d.browser, "/")
			if !strings.Contains(list, `href="/inbox/a"`) {
				t.Errorf("the inbox does not list it:\n%s", list)
			}
			status, page := d.get(d.browser, "/inbox/a")
			if status != http.StatusOK || !strings.Contains(page, tt.shows) {
				t.Errorf("the page (%d) does not say %q:\n%s", status, tt.shows, page)
			}
			tt.send.Set("hash", hash(t, page))
			status, page = d.post(d.browser, "/inbox/a", tt.send)
			if tt.wrong != "" && (status != http.StatusUnprocessableEntity || !strings.Contains(page, tt.wrong)) || tt.wrong == "" && status != http.StatusOK {
				t.Errorf("the answer (%d) does not say %q:\n%s", status, tt.wrong, page)
			}
			a, err := d.store.Ask(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if a.Status != tt.status || a.Scope != tt.scope || !strings.Contains(string(a.Answer), tt.answer) {
				t.Errorf("decided %s %q %s, want %s %q %s", a.Status, a.Scope, a.Answer, tt.status, tt.scope, tt.answer)
			}
			if decided := tt.status != store.AskPending; decided && (a.By != "console:ada" || d.woken != 1) || !decided && d.woken != 0 {
				t.Errorf("by %q, woken %d times", a.By, d.woken)
			}
		})
	}
}

// TestTwoBrowsers: of two people who answer one question one wins, and the other is told.
func TestTwoBrowsers(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	d.openCall("a")
	other := d.newBrowser()
	_, page := d.get(other, "/inbox/a")
	send := url.Values{"hash": {hash(t, page)}, "do": {"accept"}}
	if status, _ := d.post(d.browser, "/inbox/a", send); status != http.StatusOK {
		t.Fatalf("the first answer: %d", status)
	}
	status, page := d.post(other, "/inbox/a", url.Values{"hash": send["hash"], "do": {"decline"}})
	if status != http.StatusConflict || !strings.Contains(page, "your answer does not count") || !strings.Contains(page, "accepted by console:ada") {
		t.Errorf("the second answer: %d\n%s", status, page)
	}
}

// TestChangedQuestion: an answer to another question than the one that waits decides nothing (SECA-41).
func TestChangedQuestion(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	d.openCall("a")
	status, page := d.post(d.browser, "/inbox/a", url.Values{"hash": {"sha256:another"}, "do": {"accept"}})
	if a, err := d.store.Ask(t.Context(), "a"); err != nil || a.Status != store.AskPending || status != http.StatusConflict || !strings.Contains(page, "another one than the page showed") {
		t.Errorf("%s, %v, %d:\n%s", a.Status, err, status, page)
	}
}

// SECA-37, SECA-41: what is hidden in a question, or turns the order of its letters, is spelled out where
// a person decides.
func TestHiddenText(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	const text = "pay\u200b Bob\u202e adA yap"
	d.open(store.Ask{ID: "a", Run: "r", Kind: runlog.AskForm, Server: "bank"}, &mcpclient.Ask{Kind: mcpclient.AskForm, Server: "bank", Message: text,
		Form: &mcp.ElicitParams{RequestedSchema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","title":"A\u202eB","description":"C\u200bD"}}}`)}})
	d.open(store.Ask{ID: "b", Run: "r", Kind: runlog.AskSampling, Server: "bank"}, &mcpclient.Ask{Kind: mcpclient.AskSampling, Server: "bank",
		Sampling: &mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text(text)}}}}})
	for path, want := range map[string]string{"/": "pay<U+200B> Bob<U+202E>", "/inbox/a": "A<U+202E>B", "/inbox/b": "pay<U+200B> Bob<U+202E>"} {
		if _, page := d.get(d.browser, path); strings.ContainsAny(page, "\u200b\u202e") || !strings.Contains(html.UnescapeString(page), want) {
			t.Errorf("%s does not spell out what is hidden, want %q:\n%s", path, want, page)
		}
	}
}

// TestHostileText: what models and servers write is text on each page (SECA-34).
func TestHostileText(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	d.openCall("a")
	d.open(store.Ask{ID: "b", Run: "r", Kind: runlog.AskForm, Server: hostile, Origin: hostile}, &mcpclient.Ask{Kind: mcpclient.AskForm, Server: hostile, Message: hostile,
		Form: &mcp.ElicitParams{RequestedSchema: json.RawMessage(`{"type":"object","properties":{"a\"><script>":{"type":"string","title":"<script>","default":"\"><script>"}}}`)}})
	for _, path := range []string{"/", "/inbox/a", "/inbox/b", "/runs", "/runs/r", "/login?ticket=%22%3E%3Cscript%3E", "/runs?agent=%22%3E%3Cscript%3E"} {
		_, page := d.get(d.browser, path)
		page = strings.ReplaceAll(page, `<script src="/assets/`, "")
		for _, bad := range []string{"<script", "<img", `href="javascript:`, "<b>eve"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s has %q:\n%s", path, bad, page)
			}
		}
	}
}

// TestWhoGetsIn: only a browser that has opened a login link gets in, by a name of this machine,
// from a page of the console.
func TestWhoGetsIn(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	d.openCall("a")
	_, page := d.get(d.browser, "/inbox/a")
	accept := url.Values{"hash": {hash(t, page)}, "do": {"accept"}}
	link, err := url.Parse(d.console.LoginPath())
	if err != nil {
		t.Fatal(err)
	}
	ticket := url.Values{"ticket": {link.Query().Get("ticket")}}
	stranger := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request := func(method, path, host string, form url.Values, header ...string) *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), method, d.server.URL+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		if host != "" {
			req.Host = host
		}
		return req
	}
	tests := []struct {
		name    string
		browser *http.Client
		req     *http.Request
		want    int
	}{
		{"a stranger looks", stranger, request("GET", "/", "", nil), 401},
		{"a stranger answers", stranger, request("POST", "/inbox/a", "", accept), 401},
		{"a stranger follows", stranger, request("GET", "/live?inbox", "", nil), 401},
		{"a cookie of one's own", stranger, request("GET", "/", "", nil, "Cookie", "troupe-console-"+d.server.URL[strings.LastIndex(d.server.URL, ":")+1:]+"=mine"), 401},
		{"a link that was guessed", stranger, request("POST", "/login", "", url.Values{"ticket": {"AAAA"}}), 401},
		{"a link", stranger, request("POST", "/login", "", ticket), 303},
		{"the link again", stranger, request("POST", "/login", "", ticket), 401},
		{"another site's form", d.browser, request("POST", "/inbox/a", "", accept, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"), 403},
		{"another origin's form, an old browser", d.browser, request("POST", "/inbox/a", "", accept, "Origin", "http://evil.example"), 403},
		{"another name, rebound", d.browser, request("GET", "/", "evil.example:80", nil), 421},
		{"a name that looks like this machine's", d.browser, request("GET", "/", "localhost.evil.example", nil), 421},
		{"a page that does not exist", d.browser, request("GET", "/nothing", "", nil), 404},
		{"a run that does not exist", d.browser, request("GET", "/runs/nothing", "", nil), 404},
		{"a method that no page has", d.browser, request("DELETE", "/inbox/a", "", nil), 404},
	}
	for _, tt := range tests {
		if status, page := d.do(tt.browser, tt.req); status != tt.want {
			t.Errorf("%s: got %d, want %d:\n%s", tt.name, status, tt.want, page)
		}
	}
	if a, err := d.store.Ask(t.Context(), "a"); err != nil || a.Status != store.AskPending {
		t.Errorf("the question is %s, %v", a.Status, err)
	}
	if status, _ := d.post(d.browser, "/logout", nil); status != http.StatusOK {
		t.Errorf("logout: %d", status)
	}
	if status, _ := d.get(d.browser, "/"); status != http.StatusUnauthorized {
		t.Errorf("after the logout: %d", status)
	}
}

// TestRoles: a viewer looks, and does not answer; by a name that Hosts has not, there is nothing to see.
func TestRoles(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	d.openCall("a")
	role := console.Viewer
	c, err := console.New(&console.Options{Store: d.store, Hosts: []string{"console.example"},
		Visitor: func(*http.Request) (string, console.Role) { return "eve", role }})
	if err != nil {
		t.Fatal(err)
	}
	get := func(method, host, path string, form url.Values) (int, string) {
		return visit(c, method, host+path, form)
	}
	_, page := d.get(d.browser, "/inbox/a")
	accept := url.Values{"hash": {hash(t, page)}, "do": {"accept"}}
	if status, page := get("GET", "console.example", "/inbox/a", nil); status != http.StatusOK || strings.Contains(page, "<button name") {
		t.Errorf("a viewer looks: %d\n%s", status, page)
	}
	if status, _ := get("POST", "console.example", "/inbox/a", accept); status != http.StatusForbidden {
		t.Errorf("a viewer answers: %d", status)
	}
	if status, _ := get("GET", "127.0.0.1", "/", nil); status != http.StatusMisdirectedRequest {
		t.Errorf("another name: %d", status)
	}
	role = console.Stranger
	if status, _ := get("GET", "console.example", "/", nil); status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", status)
	}
	role = console.Answerer
	if status, _ := get("POST", "console.example", "/inbox/a", accept); status != http.StatusSeeOther {
		t.Errorf("an answer: %d", status)
	}
	if a, err := d.store.Ask(t.Context(), "a"); err != nil || a.By != "console:eve" {
		t.Errorf("it was decided by %q, %v", a.By, err)
	}
	if _, err := console.New(&console.Options{Store: d.store, Visitor: func(*http.Request) (string, console.Role) { return "", console.Viewer }}); err == nil {
		t.Error("a console with logins of its own needs no hosts")
	}
}

// TestLive: a page that follows the inbox is told of a new question, and of a decision; the page of a question
// also of a decision that came before it began to follow.
func TestLive(t *testing.T) {
	d := newDesk(t, nil)
	d.newRun("r")
	follow := func(what string) (next func()) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.server.URL+"/live?"+what, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := d.browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		lines := bufio.NewScanner(res.Body)
		lines.Scan() // it has begun
		return func() {
			t.Helper()
			for lines.Scan() {
				if lines.Text() == "event: changed" {
					return
				}
			}
			t.Fatalf("the stream has ended: %v", lines.Err())
		}
	}
	next := follow("inbox")
	d.openCall("a")
	next()
	_, page := d.get(d.browser, "/inbox/a")
	if _, err := d.store.SettleAsk(t.Context(), "a", store.Decision{Status: store.AskDeclined}); err != nil {
		t.Fatal(err)
	}
	next()
	_, rest, _ := strings.Cut(page, `data-follow="/live?`)
	what, _, _ := strings.Cut(rest, `"`)
	follow(html.UnescapeString(what))()
}

// SECA-9: one viewer has a share of the places for event streams, and not those of others; a place is
// given back with its stream.
func TestLiveShares(t *testing.T) {
	c, err := console.New(&console.Options{Store: memstore.New(nil), Hosts: []string{"localhost"}, Logger: slog.New(slog.DiscardHandler), Visitor: func(r *http.Request) (string, console.Role) {
		return r.Header.Get("Viewer"), console.Viewer
	}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		client := memhttp.Serve(t, c)
		open := func(viewer string) *http.Response {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/live?inbox", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Viewer", viewer)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			return resp
		}
		var have []*http.Response
		for range 40 {
			if resp := open("mallory"); resp.StatusCode == http.StatusOK {
				have = append(have, resp)
			}
		}
		if len(have) != 16 {
			t.Errorf("one viewer has %d streams, want 16", len(have))
		}
		if got := open("ada").StatusCode; got != http.StatusOK {
			t.Errorf("another viewer: got %d", got)
		}
		have[0].Body.Close()
		time.Sleep(time.Minute) // the console notices it
		synctest.Wait()
		if got := open("mallory").StatusCode; got != http.StatusOK {
			t.Errorf("after one was closed: got %d", got)
		}
		if got := open("mallory").StatusCode; got != http.StatusServiceUnavailable {
			t.Errorf("and one more: got %d", got)
		}
	})
}
