package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// clientNames are what clients may say of themselves.
var clientNames = []string{
	`"clientInfo":{"name":"peer","version":"1"}`, `"clientInfo":{"name":"admin","version":"99","title":"The Server"}`,
	`"clientInfo":{"name":"test","version":"1"}`, `"clientInfo":{"name":"","version":""}`, `"clientInfo":{"name":"nobody\n","version":"../.."}`,
}

// META-07: what a client calls itself decides nothing: every client gets the same
// answers, byte for byte.
func TestNamesDecideNothing(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			var first []string
			for _, name := range clientNames {
				synctest.Test(t, func(t *testing.T) {
					s, _ := newServer(t, nil)
					p := serve(t, s)
					p.version = v
					var got []string
					ask := func(line string) {
						line = strings.Replace(line, `"clientInfo":{"name":"web","version":"1"}`, name, 1)
						line = strings.Replace(line, `"io.modelcontextprotocol/clientInfo":{"name":"peer","version":"1"}`, `"io.modelcontextprotocol/`+name[1:], 1)
						got = append(got, p.ask(line))
					}
					if v.Era() == mcp.EraLegacy {
						ask(initialize(v))
						p.send(initialized)
					} else {
						ask(request(v, 0, mcp.MethodDiscover, "{}"))
					}
					ask(request(v, 1, mcp.MethodListTools, "{}"))
					ask(call(v, 2, "echo", `{"text":"x"}`))
					ask(call(v, 3, "refuse", `{}`))
					ask(call(v, 4, "no such tool", `{}`))
					ask(request(v, 5, "no/such", `{}`))
					if first == nil {
						first = got
					}
					for i := range got {
						if got[i] != first[i] {
							t.Errorf("answer %d to %s: got %s\nwant %s", i, name, clip(got[i]), clip(first[i]))
						}
					}
				})
			}
		})
	}
}

// META-07, SEC-14, SECA-12: a state is its principal's, whatever the client calls itself in the
// retry, and whoever it is that calls himself so.
func TestStatesAreNotOfNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}})
		w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)
		m := readMessage(t, w.post(a.tool("greet", `{}`, ""), h{"Authorization": "Bearer alice"}).last())
		retry := a.tool("greet", `{}`, a.retry(m, respondAda))
		if got := w.post(retry, h{"Authorization": "Bearer bob"}); got.code() != mcp.CodeInvalidParams {
			t.Errorf("bob, with the name of alice's client: got %v", got)
		}
		other := strings.Replace(retry, `"name":"peer"`, `"name":"another"`, 1)
		if got := readMessage(t, w.post(other, h{"Authorization": "Bearer alice"}).last()).text(); other == retry || got != "Hello, Ada!" {
			t.Errorf("alice, with another name of her client: got %q", got)
		}
	})
}

// SEC-13, AUTH-04, SHL-54, SECA-7: the id of a session is no proof of who sends: each request,
// of each kind, says it anew. TestWebSession has how ids are made.
func TestSessionsDoNotAuthenticate(t *testing.T) {
	webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}}, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		const v = mcp.V2025_11_25
		w := newWeb(t, client, v)
		w.header["Authorization"] = "Bearer alice"
		w.open()
		for token, status := range map[string]int{"-": http.StatusUnauthorized, "Bearer stolen": http.StatusUnauthorized, "Bearer narrow": http.StatusForbidden} {
			if token == "-" {
				token = "" // principals takes none as ""
			}
			for _, frame := range []string{call(v, 1, "echo", `{"text":"x"}`), initialized, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
				if got := w.post(frame, h{"Authorization": token}); got.status != status || got.id() != "" || strings.Contains(got.body, "result") {
					t.Errorf("%q: %s: got %v, want %d", token, clip(frame), got, status)
				}
			}
			if got := w.delete(h{"Authorization": token}); got.status != status {
				t.Errorf("%q: DELETE: got %v, want %d", token, got, status)
			}
		}
		if got := w.post(call(v, 1, "echo", `{"text":"x"}`)); got.status != http.StatusOK {
			t.Errorf("alice: got %v", got)
		}
	})
}

// AUTH-01, AUTH-02: authorization is a matter of HTTP, and of who wants it: without
// Authenticate nobody is asked, and on a pipe never. Who is at its other end is said by
// Options, from the environment.
func TestAuthorizationIsOptional(t *testing.T) {
	webBubble(t, nil, func(t *testing.T, _ *mcpserver.Server, client *http.Client, _ *gate) {
		for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
			w := newWeb(t, client, v)
			w.open()
			for _, token := range []string{"-", "Bearer whatever"} {
				if got := w.post(call(v, 1, "echo", `{"text":"x"}`), h{"Authorization": token}); got.status != http.StatusOK || got.header.Get("WWW-Authenticate") != "" {
					t.Errorf("%s, %q: got %v", v, token, got)
				}
			}
		}
	})
	for _, v := range mcp.Versions() {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(t, &mcpserver.Options{
				Principal: &mcpserver.Principal{ID: "of the environment"},
				HTTP: mcpserver.HTTPOptions{Authenticate: func(*http.Request) (*mcpserver.Principal, error) {
					t.Error("a pipe was asked for a token")
					return nil, nil
				}},
			})
			heard := addWhoami(t, s)
			p := serve(t, s)
			p.open(v)
			p.ask(call(v, 1, "whoami", `{}`))
			if got := <-heard; got != "of the environment" {
				t.Errorf("%s: got %q", v, got)
			}
		})
	}
}

// addWhoami adds a tool that tells the test who has called it.
func addWhoami(t *testing.T, s *mcpserver.Server) <-chan string {
	t.Helper()
	heard := make(chan string, 1)
	err := mcpserver.AddTool(s, &mcp.Tool{Name: "whoami"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		heard <- req.Principal().ID
		return "", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return heard
}

// AUTH-04: the hook says which of the three it is: 401 if it says nothing, or what is
// none of them.
func TestAuthorizationStatus(t *testing.T) {
	for given, want := range map[int]int{0: 401, 400: 400, 401: 401, 403: 403, 200: 401, 302: 401, 500: 401} {
		refuse := func(*http.Request) (*mcpserver.Principal, error) {
			return nil, fmt.Errorf("checking: %w", &mcpserver.AuthError{Status: given, Err: errors.New("canary")})
		}
		webBubble(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: refuse}}, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
				got := newWeb(t, client, v).post(initialize(v))
				if challenge := got.header.Get("WWW-Authenticate"); got.status != want || (challenge == "Bearer") != (want == 401) || strings.Contains(got.body, "canary") {
					t.Errorf("status %d: got %v, challenge %q", given, got, challenge)
				}
			}
		})
	}
}

// ROB-6, SEC-13: a session's id, a token and a state are secrets: they are in no log and
// in no answer but the one that gives them, and nothing sends a client elsewhere.
func TestSecretsStayHere(t *testing.T) {
	var log logged
	o := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: principals}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	synctest.Test(t, func(t *testing.T) {
		s, _ := newAsking(t, o)
		client := memhttp.Serve(t, s.Handler())
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return errors.New("there was a redirect") }
		secrets := []string{"Bearer alice", "Bearer stolen"}
		var bodies []string

		w := newWeb(t, client, mcp.V2025_11_25)
		w.header["Authorization"] = "Bearer alice"
		w.open()
		secrets = append(secrets, w.session)
		stolen := h{"Authorization": "Bearer stolen"}
		for _, line := range []string{
			call(w.version, 1, "fail", `{}`), call(w.version, 2, "panic", `{}`), call(w.version, 3, "none", `{}`), request(w.version, 4, "no/such", `{}`),
			`{"jsonrpc":`, `[]`, call(w.version, 5, "log", `{"text":"x"}`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`,
		} {
			for _, more := range []h{{}, stolen, {"Authorization": "Bearer bob"}, {"Mcp-Protocol-Version": "2025-06-18"}, {"Origin": "http://evil.example"}} {
				got := w.post(line, more)
				bodies = append(bodies, got.body, fmt.Sprint(got.header))
			}
		}
		for _, got := range []reply{w.delete(stolen), w.delete(), w.delete()} {
			bodies = append(bodies, got.body, fmt.Sprint(got.header))
		}

		m := newWeb(t, client, mcp.V2026_07_28)
		m.header["Authorization"] = "Bearer alice"
		a := frames(t, mcp.V2026_07_28)
		first := readMessage(t, m.post(a.tool("greet", `{}`, "")).last())
		secrets = append(secrets, first.Result.RequestState)
		retry := a.tool("greet", `{}`, a.retry(first, respondAda))
		for _, more := range []h{{"Authorization": "Bearer bob"}, stolen, {}, {}} {
			got := m.post(retry, more)
			bodies = append(bodies, got.body, fmt.Sprint(got.header))
		}

		old := openOld(t, memhttp.Serve(t, s.SSEHandler()), h{"Authorization": "Bearer alice"})
		secrets = append(secrets, old.endpoint.Query().Get("session"))
		old.initialize(mcp.V2024_11_05)
		bodies = append(bodies, old.ask(call(mcp.V2024_11_05, 1, "panic", `{}`)))
		_, refusal := old.try(call(mcp.V2024_11_05, 2, "fail", `{}`), h{"Authorization": "Bearer bob"})
		bodies = append(bodies, refusal)
		wait(time.Second)

		for _, secret := range secrets {
			if secret == "" {
				t.Fatalf("the secrets: got %q", secrets)
			}
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log has %q", clip(secret))
			}
			for _, body := range bodies {
				if strings.Contains(body, secret) {
					t.Errorf("an answer has %q: %s", clip(secret), clip(body))
				}
			}
		}
		if log.String() == "" {
			t.Error("nothing was logged")
		}
	})
}
