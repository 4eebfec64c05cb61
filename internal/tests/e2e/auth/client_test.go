package auth_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// world is an MCP server, its authorization server, and the file in which our programs keep what
// they are given.
type world struct {
	*testing.T
	as     *peers.OIDC
	server server
	file   string
	key    []byte
}

func newWorld(t *testing.T, as *peers.OIDC, s server) *world {
	w := &world{T: t, as: as, server: s, file: filepath.Join(t.TempDir(), "store.db"), key: make([]byte, 32)}
	_, _ = rand.Read(w.key) // it never fails
	return w
}

// copy returns a world whose programs have what those of this one have kept so far.
func (w *world) copy() *world {
	w.Helper()
	other := *w
	other.file = filepath.Join(w.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(w.file + suffix)
		if err == nil {
			err = os.WriteFile(other.file+suffix, data, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.Fatal(err)
		}
	}
	return &other
}

// program is one program of ours, and its person.
type program struct {
	w       *world
	auth    *auth.Authorizer
	host    *mcpclient.Host
	client  *mcpclient.Client // of the server, which is connected to when it is first needed
	person  *peers.Visitor
	changed chan struct{}  // the list of tools has changed
	asking  sync.WaitGroup // a call may go on before the person has seen the last page

	mu    sync.Mutex // guards what follows: a person is asked on another goroutine
	asked []*auth.Request
	visit func(ctx context.Context, r *auth.Request) error
}

// patience bounds the steps of a test.
const patience = time.Minute

// start starts a program, with a handle of its own of the store.
func (w *world) start(change ...func(*auth.Options, *mcpclient.Server)) *program {
	w.Helper()
	p := &program{w: w, person: peers.NewVisitor(), changed: make(chan struct{}, 1)}
	p.visit = p.agree
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := sqlite.Open(w.file, nil)
	if err != nil {
		w.Fatal(err)
	}
	o := auth.Options{Vault: s, Keys: [][]byte{w.key}, Logger: log, Authorize: p.ask, Patience: patience}
	far := mcpclient.Server{Name: "far", URL: w.server.endpoint()}
	for _, f := range change {
		f(&o, &far)
	}
	if p.auth, err = auth.New(o); err != nil {
		w.Fatal(err)
	}
	h := &mcpclient.HostOptions{OnEvent: func(e mcpclient.Event) {
		if e.ToolsChanged {
			select {
			case p.changed <- struct{}{}:
			default:
			}
		}
	}}
	h.Authorizer, h.Logger, h.ProbeTimeout = p.auth, log, patience
	if p.host, err = mcpclient.NewHost(nil, []mcpclient.Server{far}, h); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := errors.Join(p.host.Close(), p.auth.Close(), s.Close()); err != nil {
			w.Errorf("ending a program: %v", err)
		}
	})
	if p.client, err = p.host.Client(far.Name); err != nil {
		w.Fatal(err)
	}
	return p
}

func (p *program) ask(ctx context.Context, r *auth.Request) error {
	p.asking.Add(1)
	defer p.asking.Done()
	p.mu.Lock()
	p.asked = append(p.asked, r)
	visit := p.visit
	p.mu.Unlock()
	return visit(ctx, r)
}

// visits replaces the person.
func (p *program) visits(f func(ctx context.Context, r *auth.Request) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.visit = f
}

// agree logs in and agrees.
func (p *program) agree(ctx context.Context, r *auth.Request) error {
	page, err := p.person.Visit(context.WithoutCancel(ctx), r.URL) // the login ends before the last page is shown
	if err == nil && !strings.Contains(page, "The program has your answer") {
		p.w.Errorf("the browser ends at the page %s", page)
	}
	return err
}

// requests returns what the person was asked.
func (p *program) requests() []*auth.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*auth.Request(nil), p.asked...)
}

// call calls a tool.
func (p *program) call(tool string) error {
	ctx, cancel := context.WithTimeout(p.w.Context(), patience)
	defer cancel()
	res, err := p.client.CallTool(ctx, tool, nil, nil)
	if err == nil && res.Content.Text() != tool+": done" {
		err = errors.New(tool + " answers " + res.Content.Text())
	}
	return err
}

// good calls a tool that has to answer.
func (p *program) good(tool string) {
	p.w.Helper()
	if err := p.call(tool); err != nil {
		p.w.Fatalf("calling %s: %v", tool, err)
	}
}

// asks checks how often the person was asked.
func (p *program) asks(when string, want int) {
	p.w.Helper()
	p.asking.Wait()
	if got := len(p.requests()); got != want {
		p.w.Errorf("%s: the person was asked %d times, want %d", when, got, want)
	}
}

// seen counts the requests to an authorization server that f chooses.
func seen(as *peers.OIDC, f func(r *peers.OIDCRequest) bool) (n int) {
	for _, r := range as.Seen() {
		if f(&r) {
			n++
		}
	}
	return n
}

func registration(r *peers.OIDCRequest) bool { return r.Route == "registration" && r.Status == 201 }
func renewal(r *peers.OIDCRequest) bool      { return r.Grant == "refresh_token" && r.Status == 200 }
func refusedRenewal(r *peers.OIDCRequest) bool {
	return r.Grant == "refresh_token" && r.Status != 200
}

// renewals checks how often tokens were renewed.
func (w *world) renewals(when string, good, refused int) {
	w.Helper()
	if n, bad := seen(w.as, renewal), seen(w.as, refusedRenewal); n != good || bad != refused {
		w.Errorf("%s: %d renewals have succeeded and %d have not, want %d and %d", when, n, bad, good, refused)
	}
}
