package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/troupe-dev/troupe/internal/tests/peers"
)

// server is an MCP server that demands tokens. Its tool read wants the scope tools:read, and
// write wants tools:write too.
type server interface {
	endpoint() string
	trust(issuer string) // and no other
	cut()                // ends the event streams
	opened() int         // event streams so far
	grow()               // adds a tool
}

// kind is a kind of MCP server. One that is open lets handshakes pass without a token.
type kind struct {
	name   string
	format string // of the tokens that it can check
	open   bool
	listen func(t *testing.T, as *peers.OIDC, open bool) server
}

var servers = []kind{
	{"go-sdk legacy", "jwt", false, func(t *testing.T, as *peers.OIDC, open bool) server { return listenSDK(t, as, false, open) }},
	{"go-sdk modern", "jwt", false, func(t *testing.T, as *peers.OIDC, open bool) server { return listenSDK(t, as, true, open) }},
	{"typescript v2", "opaque", false, listenTypeScript},
}

// each runs a test with an authorization server and each kind of MCP server.
func each(t *testing.T, f func(t *testing.T, w *world)) {
	for _, s := range servers {
		s.run(t, f)
	}
}

// both does so for the Go SDK with sessions and the other SDK: what the authorization server does
// is not different in the third.
func both(t *testing.T, f func(t *testing.T, w *world)) {
	servers[0].run(t, f)
	servers[2].run(t, f)
}

func (k kind) run(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run(k.name, func(t *testing.T) {
		as := peers.ListenOIDC(t, `{"format":"`+k.format+`"}`)
		f(t, newWorld(t, as, k.listen(t, as, k.open)))
	})
}

// typeScript is the server of secured.mjs.
type typeScript struct {
	*peers.Server
	t *testing.T
}

func listenTypeScript(t *testing.T, as *peers.OIDC, open bool) server {
	return &typeScript{peers.Listen(t, peers.Secured, fmt.Sprintf(`{"issuer":%q,"open":%t}`, as.URL, open)), t}
}

func (s *typeScript) endpoint() string    { return s.URL }
func (s *typeScript) trust(issuer string) { s.tell("set", map[string]string{"issuer": issuer}) }
func (s *typeScript) cut()                { s.tell("cut", struct{}{}) }
func (s *typeScript) grow()               { s.tell("grow", struct{}{}) }
func (s *typeScript) opened() (n int) {
	_ = json.Unmarshal(s.tell("opened", struct{}{}), &n) // else it is 0
	return n
}

func (s *typeScript) tell(what string, v any) []byte {
	s.t.Helper()
	return s.Ask(s.t, strings.TrimSuffix(s.URL, "/mcp")+"/test/"+what, v)
}

// goSDK is a server on the Go SDK, whose middleware demands the tokens.
type goSDK struct {
	web  *httptest.Server
	mcp  *sdk.Server
	open bool

	mu     sync.Mutex // guards what follows: requests come from many goroutines
	issuer string
	shown  map[string]bool // the tokens so far; true for those that are refused from now on
	begun  int             // event streams
}

func listenSDK(t *testing.T, as *peers.OIDC, modern, open bool) *goSDK {
	s := &goSDK{
		mcp:  sdk.NewServer(&sdk.Implementation{Name: "go-sdk", Version: "1.8.0"}, nil),
		open: open, issuer: as.URL, shown: map[string]bool{},
	}
	s.add("read")
	s.add("write")
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.mcp }, &sdk.StreamableHTTPOptions{Stateless: modern})
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.guard(handler))
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, r *http.Request) {
		sdkauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
			Resource: s.endpoint(), AuthorizationServers: []string{s.trusted()}, ScopesSupported: []string{"tools:read"}, ResourceName: "the far server",
		}).ServeHTTP(w, r)
	})
	s.web = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.cut()
		s.web.Close()
	})
	return s
}

var object = json.RawMessage(`{"type":"object"}`)

func says(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func (s *goSDK) add(name string) {
	s.mcp.AddTool(&sdk.Tool{Name: name, InputSchema: object}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return says(name + ": done"), nil
	})
}

func (s *goSDK) endpoint() string { return s.web.URL + "/mcp" }
func (s *goSDK) grow()            { s.add("grown") }

func (s *goSDK) trusted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issuer
}

func (s *goSDK) trust(issuer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issuer = issuer
}

func (s *goSDK) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun
}

func (s *goSDK) cut() { s.web.CloseClientConnections() }

// expire has the server refuse the tokens that it has seen.
func (s *goSDK) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token := range s.shown {
		s.shown[token] = true
	}
}

// handshakes are what an open server lets pass.
var handshakes = []string{"initialize", "notifications/initialized", "server/discover"}

// guard demands a token with the scopes of what is asked for.
func (s *goSDK) guard(next http.Handler) http.Handler {
	demand := func(scopes ...string) http.Handler {
		return sdkauth.RequireBearerToken(s.verify, &sdkauth.RequireBearerTokenOptions{
			ResourceMetadataURL: s.web.URL + "/.well-known/oauth-protected-resource/mcp", Scopes: scopes,
		})(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal(body, &m) // of GET and DELETE there is none
		out := &answer{ResponseWriter: w}
		if r.Method == http.MethodGet || m.Method == "subscriptions/listen" {
			out.begins = s.begins
		}
		switch {
		case s.open && slices.Contains(handshakes, m.Method):
			next.ServeHTTP(out, r)
		case m.Params.Name == "write":
			demand("tools:read", "tools:write").ServeHTTP(out, r)
		default:
			demand("tools:read").ServeHTTP(out, r)
		}
	})
}

// begins counts the event streams.
func (s *goSDK) begins(status int) {
	if status == http.StatusOK {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun++
	}
}

// answer tells the status of a response.
type answer struct {
	http.ResponseWriter
	begins func(status int) // called once; nil is not called
}

func (a *answer) WriteHeader(status int) {
	if a.begins != nil {
		a.begins(status)
		a.begins = nil
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	if a.begins != nil {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(p)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) Flush() {
	if a.begins != nil {
		a.WriteHeader(http.StatusOK)
	}
	a.ResponseWriter.(http.Flusher).Flush()
}

// verify judges a JWT of the authorization server that is trusted.
func (s *goSDK) verify(ctx context.Context, token string, _ *http.Request) (*sdkauth.TokenInfo, error) {
	s.mu.Lock()
	issuer, dead := s.issuer, s.shown[token]
	s.shown[token] = dead
	s.mu.Unlock()
	if dead {
		return nil, fmt.Errorf("%w: it was revoked", sdkauth.ErrInvalidToken)
	}
	signed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sdkauth.ErrInvalidToken, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/jwks", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var keys jose.JSONWebKeySet
	if err := json.NewDecoder(resp.Body).Decode(&keys); err != nil {
		return nil, err
	}
	var claims struct {
		jwt.Claims
		Scope string `json:"scope"`
	}
	if err := signed.Claims(&keys, &claims); err != nil {
		return nil, fmt.Errorf("%w: %w", sdkauth.ErrInvalidToken, err)
	}
	if claims.Issuer != issuer || !claims.Audience.Contains(s.endpoint()) {
		return nil, fmt.Errorf("%w: it is by %s for %v", sdkauth.ErrInvalidToken, claims.Issuer, claims.Audience)
	}
	info := &sdkauth.TokenInfo{Scopes: strings.Fields(claims.Scope), Expiration: claims.Expiry.Time()}
	if !s.open { // where sessions begin without a token they belong to none
		info.UserID = claims.Subject
	}
	return info, nil
}
