package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// startProtected starts an MCP server that wants a token, for each request or only for calls, and
// its authorization server, which agrees to everything at once. Its address is $PROTECTED.
func startProtected(ts *testscript.TestScript, neg bool, args []string) {
	calls := slices.Equal(args, []string{"calls"})
	if neg || len(args) != 0 && !calls {
		ts.Fatalf("usage: protected [calls]")
	}
	p, end, err := newProtected(calls)
	ts.Check(err)
	ts.Defer(end)
	ts.Setenv("PROTECTED", p.base+"/mcp")
	ts.Setenv("BROWSER", "browse")
}

func newProtected(calls bool) (p *protected, end func(), err error) {
	p = &protected{calls: calls, challenges: map[string]string{}, tokens: map[string]bool{}, life: 3600}
	srv := httptest.NewUnstartedServer(nil)
	p.base = "http://" + srv.Listener.Addr().String()
	if srv.Config.Handler, err = p.handler(); err != nil {
		return nil, nil, err
	}
	srv.Start()
	return p, func() { srv.CloseClientConnections(); srv.Close() }, nil
}

// protected is both servers.
type protected struct {
	base  string
	calls bool // only these want a token

	mu         sync.Mutex // guards the fields below
	challenges map[string]string
	tokens     map[string]bool
	pending    int           // answers for a device code before the token
	life       int           // of tokens, in seconds
	late       time.Duration // that the clock is
}

func (p *protected) handler() (http.Handler, error) {
	s, err := mcpserver.New(mcp.Implementation{Name: "protected", Version: "1"}, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: p.authenticate}})
	if err != nil {
		return nil, err
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "whoami"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		return "you are ada", nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) { p.post(w, r, s.Handler()) })
	document := func(path string, doc map[string]any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, doc) })
	}
	document("/.well-known/oauth-protected-resource/mcp", map[string]any{"resource": p.base + "/mcp", "authorization_servers": []string{p.base}, "scopes_supported": []string{"read"}})
	metadata := map[string]any{
		"issuer": p.base, "authorization_endpoint": p.base + "/authorize", "token_endpoint": p.base + "/token",
		"registration_endpoint": p.base + "/register", "revocation_endpoint": p.base + "/revoke", "device_authorization_endpoint": p.base + "/device",
		"authorization_response_iss_parameter_supported": true,
		"code_challenge_methods_supported":               []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Header().Set("Date", time.Now().Add(-p.late).UTC().Format(http.TimeFormat))
		answer(w, http.StatusOK, metadata)
	})
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusCreated, map[string]any{"client_id": "registered", "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("POST /device", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.pending = 1
		answer(w, http.StatusOK, map[string]any{"device_code": "device-0", "user_code": "ABCD-EFGH", "verification_uri": p.base + "/d", "expires_in": 600, "interval": 1})
	})
	mux.HandleFunc("POST /revoke", func(_ http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.tokens, r.FormValue("token"))
	})
	return mux, err
}

func answer(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// post notes which requests are calls.
func (p *protected) post(w http.ResponseWriter, r *http.Request, next http.Handler) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if p.calls && !bytes.Contains(body, []byte(mcp.MethodCallTool)) {
		r.Header.Set("Authorization", "free")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	next.ServeHTTP(w, r)
}

func (p *protected) authenticate(r *http.Request) (*mcpserver.Principal, error) {
	if p.calls && r.Header.Get("Authorization") == "free" {
		return &mcpserver.Principal{ID: "ada"}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tokens[r.Header.Get("Authorization")] {
		return &mcpserver.Principal{ID: "ada"}, nil
	}
	return nil, &mcpserver.AuthError{
		Status: http.StatusUnauthorized, Challenge: fmt.Sprintf("Bearer resource_metadata=%q", p.base+"/.well-known/oauth-protected-resource/mcp"),
		Err: errors.New("no token"),
	}
}

func (p *protected) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	code := fmt.Sprint("code-", len(p.challenges))
	p.challenges[code] = q.Get("code_challenge")
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.base}}.Encode(), http.StatusFound)
}

func (p *protected) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	byDevice := r.FormValue("device_code") == "device-0"
	if p.pending--; byDevice && p.pending >= 0 {
		answer(w, http.StatusBadRequest, map[string]any{"error": "authorization_pending"})
		return
	}
	if !byDevice && p.challenges[r.FormValue("code")] != base64.RawURLEncoding.EncodeToString(sum[:]) {
		answer(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	token := fmt.Sprint("token-", len(p.tokens))
	p.tokens["Bearer "+token] = true
	answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": p.life, "scope": "read"})
}

// TestPaste: with --paste, on a machine without a browser, the address that the browser was sent
// to is pasted, and checked: its state and its issuer. A signal ends the wait (AUTH-08,
// SECA-18, ROB-7).
func TestPaste(t *testing.T) {
	t.Parallel()
	p, end, err := newProtected(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	for name, test := range map[string]struct {
		change func(back url.Values)
		code   int
		want   string
	}{
		"right":          {func(url.Values) {}, env.ExitOK, "far: logged in, by " + p.base},
		"another issuer": {func(back url.Values) { back.Set("iss", p.base+"/") }, env.ExitLogin, "it is of another issuer"},
		"no issuer":      {func(back url.Values) { back.Del("iss") }, env.ExitLogin, "the redirect does not say of which"},
		"nothing":        {nil, env.ExitLogin, "no address was pasted"},
		"a signal":       {nil, env.ExitInterrupt, "interrupt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := newHome(t).command("mcp", "login", "far", "--mcp", "far="+p.base+"/mcp", "--paste")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			read, write := io.Pipe()
			var shown strings.Builder
			cmd.Stdout, cmd.Stderr = write, write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				for lines := bufio.NewScanner(read); lines.Scan(); {
					fmt.Fprintln(&shown, lines.Text())
					at, ok := strings.CutPrefix(lines.Text(), "  "+p.base+"/authorize?")
					switch {
					case !ok:
					case name == "a signal":
						_ = cmd.Process.Signal(os.Interrupt)
					case test.change == nil:
						in.Close()
					default:
						resp, err := http.DefaultTransport.RoundTrip(httptest.NewRequest(http.MethodGet, p.base+"/authorize?"+at, nil))
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
						back, err := resp.Location()
						if err != nil {
							t.Error(err)
							return
						}
						query := back.Query()
						test.change(query)
						fmt.Fprintf(in, "\nfoo\n%s\n  %s?%s \n", strings.Replace(back.String(), "state=", "state=x", 1), "http://127.0.0.1/callback", query.Encode())
					}
				}
			}()
			err = cmd.Wait()
			write.Close()
			<-over
			if cmd.ProcessState.ExitCode() != test.code || !strings.Contains(shown.String(), test.want) {
				t.Errorf("got the exit code %d and %v, want %d and %q:\n%s", cmd.ProcessState.ExitCode(), err, test.code, test.want, shown.String())
			}
			if n := strings.Count(shown.String(), "That is not the address"); test.change != nil && n != 2 {
				t.Errorf("%d addresses are not the one, want 2:\n%s", n, shown.String())
			}
		})
	}
}

// TestLoginStates: mcp ls and doctor say how it stands with logins, and doctor warns of an end
// without a renewal, of a clock that is off, of a key that others may read, and of tokens that
// no server is named for.
func TestLoginStates(t *testing.T) {
	t.Parallel()
	p, end, err := newProtected(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	h := newHome(t)
	h.env = []string{"BROWSER=browse", "TZ=UTC"}
	url := p.base + "/mcp"
	file := h.config(map[string]any{
		"far": map[string]any{"url": url}, "off": map[string]any{"url": url, "oauth": false}, "local": map[string]any{"command": "effects"},
		"fixed":   map[string]any{"url": url, "headers": map[string]string{"authorization": "Bearer x"}},
		"machine": map[string]any{"url": url + "?m=1", "oauth": map[string]any{"clientId": "m", "clientSecret": "s", "grant": "client_credentials", "resource": "none"}},
		"other":   map[string]any{"url": url + "?other=1"},
	})
	says := func(command string, want ...string) {
		t.Helper()
		out := h.run(append(strings.Fields(command), "--mcp-config", file)...)
		for _, w := range want {
			if !regexp.MustCompile("(?m)" + w).MatchString(out.stdout) {
				t.Errorf("%s says not %q:\n%s%s", command, w, out.stdout, out.stderr)
			}
		}
	}
	says("mcp ls", `^far +named +no +- `, `^off +named +no +off `, `^local +named +no +- `, `^fixed +named +no +fixed token `, `^machine +named +no +no person needed `)
	says("doctor", `^note +login machine: oauth.resource is "none"`)
	h.must("mcp", "login", "far", "--mcp-config", file)
	says("mcp ls", `^far +named +no +logged in until 20.. *`, `^other +named +no +- `)
	says("mcp ls --json", `"state": "logged in"`, `"issuer": "`+p.base)
	says("doctor", `^ok +login: the key of the tokens is /.*/key$`, `^ok +login far: logged in until 20.*, by http://127`)
	h.must("mcp", "logout", "far", "--mcp-config", file)
	says("mcp ls", `^far +named +no +login needed `)
	p.mu.Lock()
	p.life, p.late = 1, 5*time.Minute
	p.mu.Unlock()
	h.must("mcp", "login", "far", "--mcp-config", file)
	waitFor(t, "the end of the token", func() bool { return strings.Contains(h.must("mcp", "ls", "--mcp-config", file), "login needed") })
	says("doctor", `^note +login far: the login has ended at 20`, `to mend it: troupe mcp login far$`, `^note +login far: the clock of http://127.* differ by (5m|4m59)`)
	if err := os.Chmod(h.path("state/troupe/key"), 0o644); err != nil {
		t.Fatal(err)
	}
	says("doctor", `^FAIL +login: the tokens cannot be opened: others may read the key file`, `chmod 600`)
	says("mcp ls", `^far +named +no +- `)
}

// browse is a browser that shows one page.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err == nil {
		_, err = io.Copy(os.Stdout, resp.Body)
		resp.Body.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
