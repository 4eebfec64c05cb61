package logins_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store/memstore"
)

// client is a client of a server, with an application around it as its makers describe it.
type client interface {
	// call calls a tool and returns its text. It logs in as often as the client asks for it.
	call(tool string) (string, error)
	// revision is what was negotiated.
	revision() string
	// helped counts what the application has done beyond that.
	helped() int
}

// maker makes clients of one make and revision.
type maker struct {
	name    string
	version mcp.Version
	open    func(w *world, v mcp.Version) client
	renews  bool // it has refresh tokens
	binds   bool // its tokens may be bound to a key
	narrow  bool // it registers for the scopes of its first login
	stuck   bool // where it has a refresh token, it renews when it needs more scopes
}

var makers = []maker{
	{"troupe", mcp.V2025_11_25, openOurs, true, true, false, false},
	{"troupe", mcp.V2026_07_28, openOurs, true, true, false, false},
	{"go-sdk", mcp.V2025_11_25, openSDK, false, false, false, false},
	{"go-sdk", mcp.V2026_07_28, openSDK, false, false, false, false},
	{"typescript v1", mcp.V2025_11_25, openTypeScript("v1"), false, false, true, true},
	{"typescript v2", mcp.V2025_11_25, openTypeScript("v2"), true, true, true, false},
	{"typescript v2", mcp.V2026_07_28, openTypeScript("v2"), true, true, true, false},
}

// each runs a test with each client.
func each(t *testing.T, f func(t *testing.T, m maker)) {
	for _, m := range makers {
		t.Run(m.name+" "+string(m.version), func(t *testing.T) { f(t, m) })
	}
}

// ours is our own client with its Authorizer.
type ours struct {
	w *world
	*mcpclient.Client
}

func openOurs(w *world, v mcp.Version) client {
	w.Helper()
	log := slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	a, err := auth.New(auth.Options{
		Vault: memstore.New(nil), Keys: [][]byte{make([]byte, 32)}, Logger: log, RedirectURI: w.person.back, Patience: patience,
		Authorize: func(ctx context.Context, r *auth.Request) error {
			came, err := w.person.visit(ctx, r.URL)
			if err != nil {
				return err
			}
			return r.Redirected(ctx, w.person.back+"?"+came)
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	c, err := mcpclient.Dial(w.Context(), mcpclient.Server{Name: "far", URL: w.front.endpoint(), Protocol: string(v)}, &mcpclient.Options{
		Authorizer: a, Logger: log, Lazy: true, ProbeTimeout: patience,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := errors.Join(c.Close(), a.Close()); err != nil {
			w.Errorf("ending our client: %v", err)
		}
	})
	return &ours{w, c}
}

func (c *ours) call(tool string) (string, error) {
	ctx, cancel := context.WithTimeout(c.w.Context(), patience)
	defer cancel()
	if _, err := c.ListTools(ctx); err != nil { // it listens for changes from now on
		return "", err
	}
	res, err := c.CallTool(ctx, tool, nil, nil)
	if err != nil {
		return "", err
	}
	return res.Content.Text(), nil
}

func (c *ours) revision() string {
	info, err := c.Info(c.w.Context())
	if err != nil {
		return err.Error()
	}
	return string(info.Version)
}

func (c *ours) helped() int { return 0 }

// goSDK is a client on the Go SDK.
type goSDK struct {
	w       *world
	version mcp.Version
	auth    *sdkauth.AuthorizationCodeHandler
	session *sdk.ClientSession // nil before the first call
	again   int                // sessions that were begun in place of one that has failed
}

func openSDK(w *world, v mcp.Version) client {
	w.Helper()
	h, err := sdkauth.NewAuthorizationCodeHandler(&sdkauth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &sdkauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "a client of the tests", RedirectURIs: []string{w.person.back}, GrantTypes: []string{"authorization_code", "refresh_token"}, TokenEndpointAuthMethod: "none",
		}},
		AcceptUnadvertisedIss: true, // without metadata nothing is advertised
		AuthorizationCodeFetcher: func(ctx context.Context, args *sdkauth.AuthorizationArgs) (*sdkauth.AuthorizationResult, error) {
			came, err := w.person.visit(ctx, args.URL)
			if err != nil {
				return nil, err
			}
			q, err := url.ParseQuery(came)
			return &sdkauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, err
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	c := &goSDK{w: w, version: v, auth: h}
	w.Cleanup(func() {
		if c.session != nil {
			_ = c.session.Close() // its stream may have been refused
		}
	})
	return c
}

func (c *goSDK) call(tool string) (string, error) {
	ctx, cancel := context.WithTimeout(c.w.Context(), patience)
	defer cancel()
	for {
		if c.session == nil {
			client := sdk.NewClient(&sdk.Implementation{Name: "a client of the tests", Version: "1"}, &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {}, // a modern one listens for it
			})
			s, err := client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: c.w.front.endpoint(), OAuthHandler: c.auth}, &sdk.ClientSessionOptions{ProtocolVersion: string(c.version)})
			if err != nil {
				return "", err
			}
			c.session = s
		}
		res, err := c.session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: struct{}{}})
		if err == nil {
			var all []string
			for _, part := range res.Content {
				if text, ok := part.(*sdk.TextContent); ok {
					all = append(all, text.Text)
				}
			}
			return strings.Join(all, " "), nil
		}
		// A session whose event stream was refused has failed for good: the application begins another.
		if c.again++; c.again > 1 || ctx.Err() != nil {
			return "", err
		}
		_ = c.session.Close()
		c.session = nil
	}
}

func (c *goSDK) revision() string { return c.session.InitializeResult().ProtocolVersion }
func (c *goSDK) helped() int      { return c.again }

// typeScript is a program on one of the SDKs for TypeScript: login.mjs.
type typeScript struct {
	w    *world
	in   io.Writer
	out  *bufio.Reader
	errs *tail
	last typeScriptAnswer
}

type typeScriptAnswer struct {
	Visit, Text, Error, Revision string
	ByHand                       int
}

func openTypeScript(which string) func(w *world, v mcp.Version) client {
	return func(w *world, v mcp.Version) client {
		w.Helper()
		line := peers.Require(w, peers.LoginClient, which, string(v), w.front.endpoint(), w.person.back)
		cmd := exec.CommandContext(w.Context(), line[0], line[1:]...)
		c := &typeScript{w: w, errs: new(tail)}
		cmd.Env, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, c.errs
		if w.bound {
			cmd.Env = append(cmd.Env, "DPOP=1")
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			w.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			w.Fatal(err)
		}
		c.in, c.out = in, bufio.NewReader(out)
		if err := cmd.Start(); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			in.Close()
			_ = cmd.Wait() // it may have been killed, with the test
			if w.Failed() {
				w.Logf("the client wrote:\n%s", c.errs)
			}
		})
		return c
	}
}

func (c *typeScript) call(tool string) (string, error) {
	said := map[string]string{"call": tool}
	for {
		if err := json.NewEncoder(c.in).Encode(said); err != nil {
			return "", err
		}
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return "", fmt.Errorf("the client has ended: %w", err)
		}
		var a typeScriptAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			return "", err
		}
		switch {
		case a.Visit != "":
			came, err := c.w.person.visit(c.w.Context(), a.Visit)
			if err != nil {
				return "", err
			}
			said = map[string]string{"came": came}
		case a.Error != "":
			return "", errors.New(a.Error)
		default:
			c.last = a
			return a.Text, nil
		}
	}
}

func (c *typeScript) revision() string { return c.last.Revision }
func (c *typeScript) helped() int      { return c.last.ByHand }
