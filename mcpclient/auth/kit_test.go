package auth_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/seal"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// kit is a world, a store, and one process that is authorized there.
type kit struct {
	*testing.T
	*world
	store store.Vault
	key   []byte
	query string // of the address of the server
	*process
}

// redirectURI is where the browsers of a bubble are sent. No program listens there.
const redirectURI = "http://localhost:3000/callback"

// bubble runs f in virtual time, on a network in memory.
func bubble(t *testing.T, f func(t *testing.T, k *kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Second) }) // virtual: what is asleep in the bubble ends
		k := newKit(t, newWorld())
		k.process = k.another(func(o *auth.Options) { *o = auth.WithClient(*o, k.client()) })
		f(t, k)
	})
}

// loopback returns a kit on this machine's network, where browsers reach the program.
func loopback(t *testing.T) *kit {
	t.Helper()
	return loopbackOn(t, memstore.New(nil))
}

func loopbackOn(t *testing.T, s store.Vault) *kit {
	t.Helper()
	k := newKit(t, newWorld())
	k.store = s
	web := httptest.NewServer(k.world)
	t.Cleanup(web.Close)
	k.base = web.URL
	k.process = k.another(func(o *auth.Options) { o.RedirectURI = "" })
	return k
}

func newKit(t *testing.T, w *world) *kit {
	return &kit{T: t, world: w, store: memstore.New(nil), key: seal.NewKey()}
}

// process is a program that is authorized, and its person.
type process struct {
	k    *kit
	sys  *actors.System
	auth *auth.Authorizer
	log  *syncBuilder
	cfg  mcpclient.OAuth

	mu     sync.Mutex // guards what follows: a person is asked on another goroutine
	asked  []*auth.Request
	person func(ctx context.Context, r *auth.Request) error // nil agrees at once
	trace  func(ev actors.TraceEvent)
	awaits int // requests that have begun to wait for a login
}

// another returns a further process over the same store.
func (k *kit) another(change func(*auth.Options)) *process {
	k.Helper()
	p := &process{k: k, log: new(syncBuilder)}
	log := slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if p.sys, err = actors.NewSystem(&actors.Options{Logger: log, Trace: p.traced}); err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.sys.Shutdown(ctx); err != nil || p.sys.Census().Live() != 0 {
			k.Errorf("Shutdown: %v; %+v left", err, p.sys.Census().Actors)
		}
	})
	o := auth.Options{System: p.sys, Vault: k.store, Keys: [][]byte{k.key}, Authorize: p.ask, RedirectURI: redirectURI}
	change(&o)
	if p.auth, err = auth.New(o); err != nil {
		k.Fatal(err)
	}
	return p
}

func (p *process) traced(ev actors.TraceEvent) {
	p.mu.Lock()
	trace := p.trace
	if auth.Awaits(ev.Message) {
		p.awaits++
	}
	p.mu.Unlock()
	if trace != nil {
		trace(ev)
	}
}

func (p *process) ask(ctx context.Context, r *auth.Request) error {
	p.mu.Lock()
	p.asked = append(p.asked, r)
	person := p.person
	p.mu.Unlock()
	if person == nil {
		return p.agree(ctx, r)
	}
	return person(ctx, r)
}

// is replaces the person.
func (p *process) is(person func(ctx context.Context, r *auth.Request) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.person = person
}

// requests returns what the person was asked.
func (p *process) requests() []*auth.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*auth.Request(nil), p.asked...)
}

func (p *process) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.awaits
}

// visit opens the address of a request, and returns where the browser is sent.
func (p *process) visit(ctx context.Context, r *auth.Request) (string, error) {
	rt := http.RoundTripper(p.k.world)
	if strings.HasPrefix(r.URL, "http:") {
		rt = http.DefaultTransport
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		return "", fmt.Errorf("the authorization server answers %s", resp.Status)
	}
	return resp.Header.Get("Location"), nil
}

// agree logs in, and pastes the address.
func (p *process) agree(ctx context.Context, r *auth.Request) error {
	at, err := p.visit(ctx, r)
	if err != nil {
		return err
	}
	return r.Redirected(ctx, at)
}

// server is the MCP server.
func (p *process) server() *mcpclient.Server {
	return &mcpclient.Server{Name: "world", URL: p.k.base + "/mcp" + p.k.query, OAuth: p.cfg}
}

// credential returns what authorizes the requests to the server.
func (p *process) credential() mcpclient.Auth {
	p.k.Helper()
	c, err := p.auth.For(p.server())
	if err != nil {
		p.k.Fatal(err)
	}
	return c
}

// once sends one tool call, and again if it is to be, as a client does.
func (p *process) once(ctx context.Context, c mcpclient.Auth, tool string) error {
	for refused := 0; ; {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.k.base+"/mcp", strings.NewReader(body))
		if err != nil {
			return err
		}
		if err := c.Authorize(ctx, req); err != nil {
			return err
		}
		resp, err := p.k.RoundTrip(req)
		if err != nil || resp.StatusCode == http.StatusOK {
			return err
		}
		if resp.StatusCode == refused {
			return fmt.Errorf("the server answers %s", resp.Status)
		}
		if again, err := c.Denied(ctx, req, resp.StatusCode, resp.Header); !again {
			return fmt.Errorf("the server answers %s: %w", resp.Status, err)
		}
		refused = resp.StatusCode
	}
}

// call calls a tool, and waits for logins, as a client does.
func (p *process) call(c mcpclient.Auth, tool string) error {
	ctx := p.k.Context()
	for n := 0; ; n++ {
		err := p.once(ctx, c, tool)
		login, ok := errors.AsType[*auth.LoginError](err)
		if !ok || n == 3 {
			return err
		}
		done := make(chan error, 1)
		login.Wait(func(err error) { done <- err })
		if failed := <-done; failed != nil {
			return errors.Join(err, failed)
		}
	}
}

// many makes n calls at once, and returns their errors.
func (p *process) many(c mcpclient.Auth, n int) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = p.call(c, "t") })
	}
	all.Wait()
	return errs
}

// logsInAndRenews makes a call with the token of a login, and one after a minute with a renewed
// token.
func (k *kit) logsInAndRenews() {
	k.Helper()
	c := k.credential()
	k.good(k.call(c, "t"))
	time.Sleep(time.Minute)
	k.good(k.call(c, "t"))
	k.counts("after a login and a renewal", map[string]int{"authorize": 1, "refresh_token": 1})
}

// good checks that the calls have their results.
func (k *kit) good(errs ...error) {
	k.Helper()
	for _, err := range errs {
		if err != nil {
			k.Errorf("a call: got %v", err)
		}
	}
}

// counts compares how often things have happened: "authorize 1 refresh_token 0".
func (k *kit) counts(when string, want map[string]int) {
	k.Helper()
	for what, n := range want {
		if got := k.count(what); got != n {
			k.Errorf("%s: %s happened %d times, want %d", when, what, got, n)
		}
	}
}

type syncBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuilder) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuilder) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// browse logs in with a browser, which is sent back to the program.
func (k *kit) browse(ctx context.Context, r *auth.Request, want int) error {
	at, err := k.visit(ctx, r)
	if err != nil {
		return err
	}
	if status, _, page := k.browser(http.MethodGet, at, ""); status != want {
		k.Errorf("the redirect is answered with %d %q, want %d", status, page, want)
	}
	return nil
}

// browser sends one request to the program that waits for a redirect. No login ends it.
func (k *kit) browser(method, at, host string) (status int, header http.Header, page string) {
	req, err := http.NewRequestWithContext(context.Background(), method, at, http.NoBody)
	if err != nil {
		return 0, nil, err.Error()
	}
	req.Host = cmp.Or(host, req.Host)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, err.Error()
	}
	return resp.StatusCode, resp.Header, string(body)
}
