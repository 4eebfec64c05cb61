package logins_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/auth"
	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store/memstore"
)

// patience bounds the steps of a test.
const patience = time.Minute

// backend is the argument with which this program is the server behind "troupe serve".
const backend = "-be-a-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == backend {
		s, err := tools(nil)
		if err == nil {
			err = s.ServeStdio(context.Background())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if path, err := troupe(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// troupe builds the program, once.
var troupe = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "troupe")
	if err != nil {
		return "", err
	}
	return peers.BuildTroupe(context.Background(), dir)
})

// tools makes a server whose tool read needs no more than each request does, and write the scope
// tools:write.
func tools(o *mcpserver.Options) (*mcpserver.Server, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "far", Version: "1"}, o)
	if err != nil {
		return nil, err
	}
	does := func(name string) func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) {
		return func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) { return name + ": done", nil }
	}
	var needs []mcpserver.EntryOption
	if o != nil {
		needs = append(needs, mcpserver.Scopes("tools:write"))
	}
	err = errors.Join(mcpserver.AddTool(s, &mcp.Tool{Name: "read"}, does("read")), mcpserver.AddTool(s, &mcp.Tool{Name: "write"}, does("write"), needs...))
	return s, err
}

// issuer is an authorization server.
type issuer struct {
	name   string
	url    string           // of one that is a program of its own
	users  string           // of ours, which is in the process of the server: a file
	asks   *auth.Introspect // how servers ask it about tokens; nil where those are JWTs
	narrow bool             // a client may ask for no more than it has registered for
	renews bool             // it gives out refresh tokens unasked
	brief  func()           // tokens from now on end for servers in seconds, and for clients do not
	lasts  func()           // they last again
	revoke func()           // what it has given out is unknown from now on
}

// oidc starts oidc-provider.
func oidc(t *testing.T, format string) *issuer {
	as := peers.ListenOIDC(t, `{"format":"`+format+`"}`)
	i := &issuer{
		name: "oidc-provider", url: as.URL, narrow: true,
		// Servers heed a token for half a minute longer than it says, so that it ends in 6 seconds.
		// Clients take it for good during the whole test: the Go SDK fails with a token that has expired
		// by its own clock and cannot be renewed.
		brief:  func() { as.Set(map[string]int{"life": 480, "ahead": -504}) },
		lasts:  func() { as.Set(map[string]int{"life": 600, "ahead": 0}) },
		revoke: func() { as.Forget("AccessToken", "RefreshToken", "Grant") },
	}
	if format == "opaque" {
		i.asks = &auth.Introspect{ClientID: "resource-server", ClientSecret: "a secret of the tests"}
	}
	return i
}

// embedded is mcpserver/authserver.
func embedded(t *testing.T) *issuer {
	i := &issuer{name: "authserver", users: filepath.Join(t.TempDir(), "users"), renews: true}
	if err := authserver.SetUser(i.users, peers.Name, peers.Password); err != nil {
		t.Fatal(err)
	}
	return i
}

// within makes the authorization server of a world in its own process.
func (i *issuer) within(w *world) *authserver.Server {
	as, err := authserver.New(w.Context(), authserver.Options{
		Issuer: w.front.web.URL, Resources: []string{w.front.endpoint()}, Scopes: []string{"tools:read", "tools:write"}, Default: []string{"tools:read"},
		Login: authserver.Users(i.users), Store: memstore.New(nil), Keys: [][]byte{make([]byte, 32)},
	})
	if err != nil {
		w.Fatal(err)
	}
	return as
}

// world is a server of ours, its authorization server, and the person who uses it.
type world struct {
	*testing.T
	as     *issuer
	front  *front
	renew  func() // the server forgets what it knows of tokens; nil where it cannot
	person *person
	bound  bool // tokens have to be bound to a key
}

// with returns the world for another test, with the same browser, whose person was asked for
// nothing yet.
func (w *world) with(t *testing.T) *world {
	one := *w
	one.T, one.person = t, newPerson(t)
	one.person.Visitor = w.person.Visitor
	one.front.forget()
	return &one
}

// kind is a kind of server.
type kind struct {
	name   string
	listen func(t *testing.T, as *issuer) *world
}

// kinds are the kinds; the quick tests have the first.
func kinds() []kind {
	all := []kind{{"mcpserver", listenProgram}, {"troupe serve", listenServe}}
	if testing.Short() {
		return all[:1]
	}
	return all
}

// listenProgram starts a program made with mcpserver/auth.
func listenProgram(t *testing.T, as *issuer) *world { return listenChanged(t, as, nil) }

// listenChanged does so with other options, for some revisions; without any for all.
func listenChanged(t *testing.T, as *issuer, change func(*auth.Options), versions ...mcp.Version) *world {
	w := &world{T: t, as: as, front: listenFront(t), person: newPerson(t)}
	var rs atomic.Pointer[auth.ResourceServer]
	mux, from := http.NewServeMux(), auth.Issuer{URL: as.url, Introspect: as.asks}
	if as.users != "" {
		own := as.within(w)
		own.Mount(mux)
		from = own.TokenIssuer()
	}
	w.renew = func() {
		t.Helper()
		o := auth.Options{Resource: w.front.endpoint(), Issuers: []auth.Issuer{from}, Scopes: auth.Scopes{Base: []string{"tools:read"}}, Name: "the far server"}
		if change != nil {
			change(&o)
		}
		s, err := auth.New(o)
		if err != nil {
			t.Fatal(err)
		}
		rs.Store(s)
	}
	w.renew()
	s, err := tools(&mcpserver.Options{Versions: versions, HTTP: mcpserver.HTTPOptions{
		Authenticate: func(r *http.Request) (*mcpserver.Principal, error) { return rs.Load().Authenticate(r) },
		Authorize:    func(p *mcpserver.Principal, scopes []string) error { return rs.Load().Authorize(p, scopes) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/.well-known/oauth-protected-resource", auth.Metadata(rs.Load()))
	mux.Handle("/.well-known/oauth-protected-resource/", auth.Metadata(rs.Load()))
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	w.front.to(t, web.URL)
	return w
}

// listenServe starts "troupe serve" as a gateway.
func listenServe(t *testing.T, as *issuer) *world {
	w := &world{T: t, as: as, front: listenFront(t), person: newPerson(t)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := troupe()
	if err != nil {
		t.Fatal(err)
	}
	p := &peers.Troupe{Program: program, Home: t.TempDir()}
	flags := []string{
		"--expose", "tools", "--names", "plain", "--no-store", "--mcp", "far=" + self + " " + backend, "--drain-timeout", "1s",
	}
	if as.users == "" {
		flags = append(flags, "--auth-issuer", as.url, "--auth-resource", w.front.endpoint(), "--auth-scopes", "tools:read", "--auth-tool", "write=tools:write")
	} else { // by the configuration
		file := filepath.Join(p.Home, "troupe.yaml")
		text := fmt.Sprintf("version: 1\nserve: { auth: { type: oauth, users: %q, resource: %q, scopes: [tools:read], tools: { write: tools:write } } }\n", as.users, w.front.endpoint())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--config", file)
	}
	if as.asks != nil {
		p.Env = []string{"TROUPE_AUTH_SECRET=" + as.asks.ClientSecret}
		flags = append(flags, "--auth-introspect", as.asks.ClientID)
	}
	w.front.to(t, p.Serve(t, flags...))
	return w
}

// front is the address of a server, as clients know it: a proxy that notes what it answers.
type front struct {
	web    *httptest.Server
	server atomic.Pointer[url.URL]

	mu      sync.Mutex // guards what follows, of goroutines of requests
	answers []answer
	token   string   // the last one that was let in
	instead string   // a token that takes the place of all others until it is refused; "" for none
	ended   int      // event streams that the server has ended, and no answer of a call
	broken  int      // event streams that have broken off
	hidden  []string // parts of paths that the server does not have
	asked   []string // the paths so far
}

// answer is one that refuses.
type answer struct {
	status    int
	challenge string
}

func listenFront(t *testing.T) *front {
	f := new(front)
	connections := new(http.Transport) // of its own: servers of other tests that end close those of the default one
	proxy := &httputil.ReverseProxy{
		Transport: connections,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(f.server.Load())
			r.Out.Host = r.In.Host
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.instead != "" && r.In.Header.Get("Authorization") != "" {
				r.Out.Header.Set("Authorization", "Bearer "+f.instead)
			}
		},
		ModifyResponse: f.note,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // a side has gone
	}
	f.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r.URL.Path)
		hidden := slices.ContainsFunc(f.hidden, func(part string) bool { return strings.Contains(r.URL.Path, part) })
		f.mu.Unlock()
		if hidden {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.web.CloseClientConnections()
		f.web.Close()
		connections.CloseIdleConnections()
	})
	return f
}

func (f *front) endpoint() string { return f.web.URL + "/mcp" }

func (f *front) to(t *testing.T, address string) {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f.server.Store(u)
}

// note keeps what an answer says of authorization.
func (f *front) note(r *http.Response) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch scheme, token, _ := strings.Cut(r.Request.Header.Get("Authorization"), " "); {
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		f.answers = append(f.answers, answer{r.StatusCode, r.Header.Get("WWW-Authenticate")})
		if f.hidden != nil {
			r.Header.Set("WWW-Authenticate", "Bearer")
		}
		if r.StatusCode == http.StatusUnauthorized {
			f.instead = ""
		}
	case r.StatusCode < 300 && strings.EqualFold(scheme, "Bearer"):
		f.token = token
	}
	listens := r.Request.Method == http.MethodGet || r.Request.Header.Get("Mcp-Method") == "subscriptions/listen"
	if listens && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		r.Body = &stream{r.Body, f}
	}
	return nil
}

// stream notes its end.
type stream struct {
	io.ReadCloser
	f *front
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.f.mu.Lock()
		defer s.f.mu.Unlock()
		if errors.Is(err, io.EOF) {
			s.f.ended++
		} else {
			s.f.broken++
		}
	}
	return n, err
}

// refusals returns the answers so far that refused with a status.
func (f *front) refusals(status int) (challenges []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.answers {
		if a.status == status {
			challenges = append(challenges, a.challenge)
		}
	}
	return challenges
}

// paths returns what was asked for so far.
func (f *front) paths() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// forget has the refusals so far count no more.
func (f *front) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers, f.asked, f.ended, f.broken = nil, nil, 0, 0
}

// show has clients show another token than they have, until it is refused.
func (f *front) show(token string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead = token
}

// lastToken returns the last token that was let in.
func (f *front) lastToken() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// until waits for what the front has seen.
func (f *front) until(t *testing.T, what string, seen func() bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		done := seen()
		f.mu.Unlock()
		if done {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// The challenges of the server: without a token, with one that is not good, and with one that has
// too few scopes for write.
func (f *front) noToken() string {
	return fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="tools:read"`, f.web.URL)
}

func (f *front) badToken() string {
	return fmt.Sprintf(`Bearer error="invalid_token", resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="tools:read"`, f.web.URL)
}

func (f *front) tooFew() string {
	return fmt.Sprintf(`Bearer error="insufficient_scope", scope="tools:read tools:write", resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, f.web.URL)
}

// person logs in and agrees, for clients whose browsers are sent to back at the end.
type person struct {
	back string
	*peers.Visitor

	mu    sync.Mutex // guards what follows: clients ask on goroutines of their own
	asked [][]string // the scopes of each request
	came  string     // the query of the last answer
}

func newPerson(t *testing.T) *person {
	p := &person{Visitor: peers.NewVisitor()}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.came = r.URL.RawQuery
		fmt.Fprint(w, "you can close this page")
	}))
	t.Cleanup(web.Close)
	p.back = web.URL + "/callback"
	return p
}

// visit opens the address of a request and returns the query of the answer.
func (p *person) visit(ctx context.Context, address string) (came string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	scopes := strings.Fields(u.Query().Get("scope"))
	slices.Sort(scopes)
	p.mu.Lock()
	p.asked, p.came = append(p.asked, scopes), ""
	p.mu.Unlock()
	if _, err := p.Visit(ctx, address); err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.came == "" {
		return "", errors.New("the browser was not sent back")
	}
	return p.came, nil
}

// requests returns the scopes that the person was asked for so far, without what renewals need.
func (p *person) requests() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, scopes := range p.asked {
		all = append(all, strings.Join(slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return s == "offline_access" }), " "))
	}
	return all
}

// tail keeps what a program writes.
type tail struct {
	mu sync.Mutex // guards the buffer, of the goroutine that copies
	bytes.Buffer
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}
