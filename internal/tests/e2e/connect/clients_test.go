package connect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient"
)

// gateway starts "troupe serve" in front of the server, with Alice's token, and returns its URL.
func (w *world) gateway(program string, args ...string) string {
	w.Helper()
	troupe := &peers.Troupe{Program: program, Home: w.TempDir()}
	config := filepath.Join(troupe.Home, "servers.json")
	text := fmt.Sprintf(`{"mcpServers":{"repos":{"url":%q,"headers":{"Authorization":"Bearer alice-token"}}}}`, w.at+"/mcp")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return troupe.Serve(w.T, append([]string{"--expose", "tools", "--names", "plain", "--no-store", "--mcp-config", config}, args...)...) + "/mcp"
}

// A person connects an account in a real browser because of a client of a gateway: the page is the
// server's own, the account belongs to the gateway's user there, and the link of another person is refused.
func TestGateway(t *testing.T) {
	chromium.Require(t)
	program := peers.RequireTroupe(t)
	for _, tt := range []struct{ client, server string }{{"2026-07-28", "auto"}, {"2025-11-25", "auto"}, {"2025-11-25", "2025-11-25"}} {
		t.Run(tt.client+" to "+tt.server, func(t *testing.T) {
			w := newWorld(t)
			at := w.gateway(program, "--server-protocol", tt.server)
			c := w.call(mcpclient.Server{Name: "gateway", URL: at, Protocol: tt.client})
			if !strings.HasPrefix(c.page, w.at+"/connect/start/") {
				t.Errorf("the page is %s", c.page)
			}
			alice, bob := w.person("alice"), w.person("bob")
			bob.do(chromedp.Navigate(c.page))
			bob.want(notYours)
			c.waits()
			alice.connect(c.page)
			if got := c.says(); got != repos {
				t.Errorf("the tool says %q", got)
			}
			got, err := c.client.CallTool(t.Context(), "my_repos", nil, nil)
			if err != nil || got.Content.Text() != repos {
				t.Errorf("the second call: got %v, %v", got, err)
			}
		})
	}
}

// said is what a foreign client says: the page that its user is to open, or what the tool says.
type said struct {
	Page    string
	Message string
	Text    string
	IsError bool
}

// foreign is a client of another's make.
type foreign struct {
	w    *world
	call func()
	said chan said
}

func (f *foreign) next() said {
	f.w.Helper()
	select {
	case s := <-f.said:
		return s
	case <-time.After(patience):
		f.w.Fatal("the client says nothing")
		return said{}
	}
}

// typescript starts a client on an SDK for TypeScript.
func (w *world) typescript(version, revision, kind, at, token string) *foreign {
	w.Helper()
	line := peers.Require(w.T, peers.ConnectClient, version, revision, kind, "http", at, token)
	cmd := exec.CommandContext(context.WithoutCancel(w.Context()), line[0], line[1:]...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	in, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	errs := new(bytes.Buffer)
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	f := &foreign{w: w, said: make(chan said, 16), call: func() {
		if _, err := io.WriteString(in, "call\n"); err != nil {
			w.Error(err)
		}
	}}
	read := make(chan struct{})
	go func() { // ends with the process
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var s said
			if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
				s.Text = lines.Text()
			}
			f.said <- s
		}
	}()
	w.Cleanup(func() {
		in.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		<-read
		if err := cmd.Wait(); err != nil || w.Failed() {
			w.Errorf("the client: %v\n%s", err, errs)
		}
	})
	return f
}

// bearer adds a token.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if b != "" {
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// gosdk starts a client on the official SDK for Go.
func (w *world) gosdk(kind, at, token string) *foreign {
	w.Helper()
	f := &foreign{w: w, said: make(chan said, 16)}
	opts := &sdk.ClientOptions{}
	if kind == "url" {
		var once sync.Map
		opts.Capabilities = &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{URL: &sdk.URLElicitationCapabilities{}}}
		opts.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if _, before := once.LoadOrStore(r.Params.URL, true); !before {
				f.said <- said{Page: r.Params.URL, Message: r.Params.Message}
			}
			return &sdk.ElicitResult{Action: "accept"}, nil
		}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "sdk-client", Version: "1"}, opts)
	session, err := c.Connect(w.Context(), &sdk.StreamableClientTransport{Endpoint: at, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { session.Close() })
	f.call = func() {
		go func() {
			got, err := session.CallTool(w.Context(), &sdk.CallToolParams{Name: "my_repos", Arguments: map[string]any{}})
			if err != nil {
				f.said <- said{Text: err.Error(), IsError: true}
				return
			}
			var text []string
			for _, c := range got.Content {
				if t, ok := c.(*sdk.TextContent); ok {
					text = append(text, t.Text)
				}
			}
			f.said <- said{Text: strings.Join(text, "\n"), IsError: got.IsError}
		}()
	}
	return f
}

// URL-42: clients of others, directly and through a gateway: one that can send its user to a page
// does, and waits; one that cannot gets the address in an error that says what to do.
func TestForeignClients(t *testing.T) {
	chromium.Require(t)
	program := peers.RequireTroupe(t)
	clients := []struct{ name, sdk, revision string }{
		{"go-sdk", "go", ""}, {"TypeScript v1", "v1", "2025-11-25"}, {"TypeScript v2", "v2", "2025-11-25"}, {"TypeScript v2 modern", "v2", "2026-07-28"},
	}
	for _, way := range []string{"direct", "gateway"} {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t)
			at, token := w.at+"/mcp", "alice-token"
			if way == "gateway" {
				at, token = w.gateway(program), ""
			}
			for _, tt := range clients {
				for _, kind := range []string{"url", "none"} {
					t.Run(tt.name+" "+kind, func(t *testing.T) {
						w := &world{T: t, at: w.at, service: w.service}
						alice := w.person("alice")
						var f *foreign
						if tt.sdk == "go" {
							f = w.gosdk(kind, at, token)
						} else {
							f = w.typescript(tt.sdk, tt.revision, kind, at, token)
						}
						f.call()
						first := f.next()
						page := first.Page
						if kind == "none" {
							var told bool
							if _, page, told = strings.Cut(first.Text, "Open this page, then call again: "); !told || !first.IsError {
								t.Fatalf("the tool says %+v", first)
							}
						} else if !strings.Contains(first.Message, "Connect your Hub account with Repos (repo).") {
							t.Errorf("the client is asked %q", first.Message)
						}
						if !strings.HasPrefix(page, w.at+"/connect/start/") {
							t.Fatalf("the page is %q of %+v", page, first)
						}
						alice.connect(strings.TrimSpace(page))
						if kind == "none" {
							f.call()
						}
						got := f.next()
						if text, note := cutNote(got.Text); text != repos || note == "" || got.IsError {
							t.Errorf("the tool says %+v", got)
						}
						alice.disconnect()
					})
				}
			}
		})
	}
}
