package connect_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// planted is a part of every secret of the fake provider: it must be seen nowhere.
const planted = "pl4nted"

// The hosts of the test.
const (
	ours   = "https://api.example.com"
	theirs = "https://hub.example"
	base   = ours + "/connect"
)

// internet is a network of handlers, by host. Requests are carried out where they are made.
type internet map[string]http.Handler

func (n internet) RoundTrip(r *http.Request) (*http.Response, error) {
	h := n[r.URL.Host]
	if h == nil {
		return nil, fmt.Errorf("no such host: %s", r.URL.Host)
	}
	in := r.Clone(r.Context())
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "192.0.2.1:1"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, in)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// hub is a provider: an authorization server with PKCE, iss and rotation, and its API.
type hub struct {
	mu               sync.Mutex
	n                int
	codes            map[string]url.Values // of the authorization request
	tokens           map[string]string     // access: scope
	refresh          map[string]string     // refresh: scope
	refreshed, calls int
	user             string
	life             int    // of tokens, in seconds; 0 is unlimited
	noRefresh        bool   // gives none
	grants           string // instead of the scope that was asked for
	revoked          []string
	slow             time.Duration // a refresh takes
	down             bool
}

func newHub() *hub {
	return &hub{codes: map[string]url.Values{}, tokens: map[string]string{}, refresh: map[string]string{}, user: "alice-at-hub"}
}

func (h *hub) secret(kind string) string {
	h.n++
	return fmt.Sprintf("%s-%s-%d", kind, planted, h.n)
}

// approve is what the person's click at the provider does: it returns where the browser goes.
func (h *hub) approve(authorize string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	u, _ := url.Parse(authorize)
	q := u.Query()
	code := h.secret("code")
	h.codes[code] = q
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {theirs}}.Encode()
}

func (h *hub) give(w http.ResponseWriter, scope string) {
	access := h.secret("access")
	h.tokens[access] = scope
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "scope": scope}
	if h.life > 0 {
		answer["expires_in"] = h.life
	}
	if !h.noRefresh {
		fresh := h.secret("refresh")
		h.refresh[fresh] = scope
		answer["refresh_token"] = fresh
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	bearer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	bad := func(code string) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q}`, code)
	}
	switch r.URL.Path {
	case "/token":
		r.ParseForm()
		if h.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if id, secret, _ := r.BasicAuth(); id != "app" || secret != "app-"+planted {
			bad("invalid_client")
			return
		}
		switch r.PostForm.Get("grant_type") {
		case "authorization_code":
			q, ok := h.codes[r.PostForm.Get("code")]
			delete(h.codes, r.PostForm.Get("code"))
			if !ok || challenge(r.PostForm.Get("code_verifier")) != q.Get("code_challenge") || r.PostForm.Get("redirect_uri") != q.Get("redirect_uri") {
				bad("invalid_grant")
				return
			}
			scope := q.Get("scope")
			if h.grants != "" {
				scope = h.grants
			}
			h.give(w, scope)
		case "refresh_token":
			if h.slow > 0 {
				h.mu.Unlock()
				time.Sleep(h.slow)
				h.mu.Lock()
			}
			scope, ok := h.refresh[r.PostForm.Get("refresh_token")]
			if !ok {
				bad("invalid_grant")
				return
			}
			delete(h.refresh, r.PostForm.Get("refresh_token")) // rotation
			h.refreshed++
			h.give(w, scope)
		}
	case "/revoke":
		r.ParseForm()
		h.revoked = append(h.revoked, r.PostForm.Get("token"))
	case "/me":
		if _, ok := h.tokens[bearer]; !ok && bearer != "key-"+planted {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"login":%q}`, h.user)
	case "/away":
		http.Redirect(w, r, "https://files.example/", http.StatusFound)
	default:
		if _, ok := h.tokens[bearer]; !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.calls++
		fmt.Fprint(w, "the data")
	}
}

// expire ends all access tokens, and the refresh tokens if they are to end too.
func (h *hub) expire(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.tokens)
	if all {
		clear(h.refresh)
	}
}

// world is a server with accounts, in one or several instances, and its provider.
type world struct {
	t     *testing.T
	net   internet
	hub   *hub
	store *memstore.Store
	keys  [][]byte
	log   *bytes.Buffer // of all
	seen  *bytes.Buffer // what browsers and clients have seen
	mu    sync.Mutex
}

var (
	alice = &mcpserver.Principal{ID: "idp/alice", Issuer: "https://idp.example", Subject: "alice"}
	bob   = &mcpserver.Principal{ID: "idp/bob", Issuer: "https://idp.example", Subject: "bob"}
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, net: internet{}, hub: newHub(), store: memstore.New(nil), keys: [][]byte{bytes.Repeat([]byte{7}, 32)}, log: new(bytes.Buffer), seen: new(bytes.Buffer)}
	w.net["hub.example"] = w.hub
	w.net["files.example"] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to another host")
		}
	})
	t.Cleanup(func() {
		for what, b := range map[string]*bytes.Buffer{"the log": w.log, "what browsers and clients see": w.seen} {
			if i := bytes.Index(b.Bytes(), []byte(planted)); i >= 0 {
				t.Errorf("%s shows a secret: …%s", what, b.Bytes()[max(0, i-200):i+20])
			}
		}
	})
	return w
}

// lockedWriter lets several instances write one log.
type lockedWriter struct{ w *world }

func (l lockedWriter) Write(p []byte) (int, error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.w.log.Write(p)
}

// byCookie is the login of the test: a cookie with the name of the person.
var byCookie = connect.LoginFunc(func(r *http.Request) (string, string, bool) {
	c, err := r.Cookie("login")
	if err != nil {
		return "", "", false
	}
	return "https://idp.example", c.Value, true
})

// instance is one process of the server.
type instance struct {
	*mcpserver.Server
	cn *connect.Connector
}

func (w *world) options() connect.Options {
	return connect.Options{
		Base: base, Name: "Example", Store: w.store, Keys: w.keys, Login: byCookie, Logger: slog.New(slog.NewTextHandler(lockedWriter{w}, &slog.HandlerOptions{Level: slog.LevelDebug})),
		HTTP: &http.Client{Transport: w.net, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, Transport: w.net,
		Providers: []connect.Provider{
			connect.OAuth("hub", connect.OAuthConfig{
				Title: "Hub", ClientID: "app", ClientSecret: "app-" + planted, Issuer: theirs, AuthorizeURL: theirs + "/authorize", TokenURL: theirs + "/token",
				RevokeURL: theirs + "/revoke", API: []string{theirs}, AccountURL: theirs + "/me", AccountField: "login",
			}),
			connect.APIKey("keys", connect.APIKeyConfig{Title: "Keys Inc", Help: "see your settings", API: []string{theirs}, AccountURL: theirs + "/me", AccountField: "login"}),
		},
	}
}

// start starts an instance whose pages are at the host.
func (w *world) start(host string, principal *mcpserver.Principal, change func(*connect.Options)) *instance {
	w.t.Helper()
	opts := w.options()
	if change != nil {
		change(&opts)
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "example", Version: "1"}, &mcpserver.Options{Principal: principal, Records: w.store, Logger: opts.Logger})
	if err != nil {
		w.t.Fatal(err)
	}
	cn, err := connect.New(s, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := cn.Close(); err != nil {
			w.t.Error(err)
		}
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	type in struct {
		Provider string   `json:"provider"`
		Scopes   []string `json:"scopes,omitempty"`
		Path     string   `json:"path,omitempty"`
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "use"}, func(ctx context.Context, req *mcpserver.ToolRequest, v in) (string, error) {
		client, err := cn.Client(ctx, req, v.Provider, v.Scopes...)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, theirs+"/"+v.Path, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return strings.TrimSpace(resp.Status + " " + string(text)), err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "both"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		if err := cn.Connect(ctx, req, connect.Want{Provider: "hub", Scopes: []string{"read"}}, connect.Want{Provider: "keys"}); err != nil {
			return "", err
		}
		return "both", nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if host != "" {
		w.net[host] = cn
	}
	return &instance{s, cn}
}

// peer is a client that speaks lines.
type peer struct {
	w     *world
	v     mcp.Version
	caps  string
	in    io.Writer
	lines chan string
	id    int
}

const withPages = `{"elicitation":{"form":{},"url":{}}}`

// dial connects a client to an instance.
func (w *world) dial(s *mcpserver.Server, v mcp.Version, caps string) *peer {
	w.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &peer{w: w, v: v, caps: caps, in: inW, lines: make(chan string, 1000)}
	go func() { _ = s.Serve(w.t.Context(), inR, outW) }()
	go func() {
		for lines := bufio.NewScanner(outR); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	w.t.Cleanup(func() { inW.Close(); outR.Close() })
	if v.Era() == mcp.EraLegacy {
		p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"peer","version":"1"}}}`, v, caps))
		p.receive()
		p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return p
}

func (p *peer) send(line string) {
	p.w.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.w.t.Fatal(err)
	}
}

// message is what a client gets, as far as the tests look at it.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result *struct {
		Content       []struct{ Text string }
		IsError       bool
		ResultType    string
		InputRequests map[string]struct{ Params json.RawMessage }
		RequestState  string
	}
	Error *mcp.Error
	raw   string
}

func (p *peer) receive() (m message) {
	p.w.t.Helper()
	select {
	case line := <-p.lines:
		fmt.Fprintln(p.w.seen, line)
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			p.w.t.Fatalf("%s: %v", line, err)
		}
		m.raw = line
	case <-time.After(2 * time.Hour):
		p.w.t.Fatal("no message came")
	}
	return m
}

func (p *peer) quiet() {
	p.w.t.Helper()
	synctest.Wait()
	select {
	case line := <-p.lines:
		p.w.t.Errorf("got %s, want nothing", line)
	default:
	}
}

// call sends a tool call; extra are more members of its params, with a comma first.
func (p *peer) call(tool, arguments, extra string) {
	p.w.t.Helper()
	p.id++
	meta := ""
	if p.v.Era() == mcp.EraModern {
		meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s,"io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"}}`, p.caps)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s%s}}`, p.id, tool, arguments, extra, meta))
}

// note is what the owner of an account is told behind a result.
func (m message) note() string {
	if m.Result == nil || len(m.Result.Content) < 2 || !strings.HasPrefix(m.Result.Content[1].Text, "Note for the user: ") {
		return ""
	}
	return m.Result.Content[1].Text
}

// text is what the model reads of a result.
func (m message) text() string {
	switch {
	case m.Result != nil && len(m.Result.Content) == 1 && m.Result.IsError:
		return "isError " + m.Result.Content[0].Text
	case m.Result != nil && (len(m.Result.Content) == 1 || m.note() != ""):
		return m.Result.Content[0].Text
	}
	return m.raw
}

// ask calls and returns the address of the page that the client is sent to, having agreed to
// it.
func (p *peer) ask(arguments string) (page string) {
	p.w.t.Helper()
	p.call("use", arguments, "")
	m := p.receive()
	if p.v.Era() == mcp.EraModern {
		if m.Result == nil || len(m.Result.InputRequests) != 1 {
			p.w.t.Fatalf("got %s, want one question", m.raw)
		}
		for key, one := range m.Result.InputRequests {
			page = urlOf(p.w.t, one.Params)
			state, _ := json.Marshal(m.Result.RequestState)
			p.call("use", arguments, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept"}},"requestState":%s`, key, state))
		}
		return page
	}
	if m.Method != mcp.MethodElicit {
		p.w.t.Fatalf("got %s, want a question", m.raw)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, m.ID))
	return urlOf(p.w.t, m.Params)
}

// answer is the result of the call; the notice of the end of a page may come before or after.
func (p *peer) answer() string {
	p.w.t.Helper()
	m := p.receive()
	if m.Method == mcp.NotificationElicitationComplete {
		return p.receive().text()
	}
	if p.v == mcp.V2025_11_25 {
		synctest.Wait()
		for len(p.lines) > 0 {
			p.receive()
		}
	}
	return m.text()
}

func urlOf(t *testing.T, params json.RawMessage) string {
	t.Helper()
	var e mcp.ElicitParams
	if err := json.Unmarshal(params, &e); err != nil || e.Mode != mcp.ElicitURL {
		t.Fatalf("got %s, want a page", params)
	}
	return e.URL
}

// browser is that of a person, who may be logged in at ours.
type browser struct {
	w    *world
	http *http.Client
	page string // the last one
	code int
	head http.Header
	at   string // its address
}

func (w *world) browser(person string) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if person != "" {
		u, _ := url.Parse(ours)
		jar.SetCookies(u, []*http.Cookie{{Name: "login", Value: person, Path: "/"}})
	}
	return &browser{w: w, http: &http.Client{Transport: w.net, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// do sends a request and returns where the browser is sent on; "" if a page is shown.
func (b *browser) do(r *http.Request) (location string) {
	b.w.t.Helper()
	resp, err := b.http.Do(r)
	if err != nil {
		b.w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	b.page, b.code, b.head, b.at = string(raw), resp.StatusCode, resp.Header, r.URL.String()
	fmt.Fprintln(b.w.seen, b.page, resp.Header.Get("Location"))
	return resp.Header.Get("Location")
}

func (b *browser) get(address string) string {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.w.t.Fatal(err)
	}
	return b.do(r)
}

// post sends a form, as a browser does whose page it is.
func (b *browser) post(address, site string, form url.Values) string {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	return b.do(r)
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// token is that of the form on the page.
func (b *browser) token() string {
	b.w.t.Helper()
	found := tokenField.FindStringSubmatch(b.page)
	if found == nil {
		b.w.t.Fatalf("%s (%d) has no form:\n%s", b.at, b.code, b.page)
	}
	return found[1]
}

// consent reads the page and goes on to the provider, whose address it returns.
func (b *browser) consent(page string) (authorize string) {
	b.w.t.Helper()
	b.get(page)
	to := b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}})
	if b.code != http.StatusSeeOther || !strings.HasPrefix(to, theirs+"/authorize?") {
		b.w.t.Fatalf("the form led to %q (%d):\n%s", to, b.code, b.page)
	}
	return to
}

// connect does all that a person has to do.
func (b *browser) connect(page string) {
	b.w.t.Helper()
	b.get(b.w.hub.approve(b.consent(page)))
	if b.code != http.StatusOK || !strings.Contains(b.page, `id="account">alice-at-hub<`) {
		b.w.t.Fatalf("the account is not connected (%d):\n%s", b.code, b.page)
	}
}

// want checks the last page.
func (b *browser) want(what string, code int, has string) {
	b.w.t.Helper()
	if b.code != code || !strings.Contains(b.page, has) {
		b.w.t.Errorf("%s: got %d\n%s\nwant %d and %q", what, b.code, b.page, code, has)
	}
}

// accounts lists the sealed rows.
func (w *world) accounts() []store.Sealed {
	w.t.Helper()
	all, err := w.store.AllSealed(w.t.Context(), "account", "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}
