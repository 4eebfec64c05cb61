package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// scoped authenticates by tokens that say what they are: NAME, NAME+SCOPE+SCOPE, and
// NAME@SECONDS for one that ends so long after the call.
func scoped(r *http.Request) (*mcpserver.Principal, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, errors.New("no token")
	}
	p := &mcpserver.Principal{}
	token, seconds, ends := strings.Cut(token, "@")
	if ends {
		d, err := time.ParseDuration(seconds)
		if err != nil {
			return nil, err
		}
		p.Expiry = time.Now().Add(d)
	}
	scopes := strings.Split(token, "+")
	p.ID, p.Scopes = scopes[0], scopes[1:]
	return p, nil
}

// addScoped adds entries with scopes. Each handler that runs adds its name to ran.
func addScoped(t *testing.T, s *mcpserver.Server) (ran *seen) {
	t.Helper()
	ran = new(seen)
	needs := mcpserver.Scopes("write", "files")
	err := errors.Join(
		mcpserver.AddFunc(s, &mcp.Tool{Name: "free"}, func(context.Context, struct{}) (string, error) { ran.add("free"); return "done", nil }),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "quick"}, func(context.Context, struct{}) (string, error) { ran.add("quick"); return "done", nil }, needs),
		mcpserver.AddTool(s, &mcp.Tool{Name: "asks"}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) {
			ran.add("asks")
			return "done", nil
		}, needs),
		mcpserver.AddFunc(s, &mcp.Tool{Name: "rule__one"}, func(context.Context, struct{}) (string, error) { ran.add("rule"); return "done", nil }),
		mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "x:secret", Name: "secret"}, func(context.Context) (string, error) { ran.add("resource"); return "text", nil }, needs),
		mcpserver.AddTemplateFunc(s, &mcp.ResourceTemplate{URITemplate: "y:{name}", Name: "template"}, func(context.Context, mcpserver.Vars) (string, error) {
			ran.add("template")
			return "text", nil
		}, needs),
		mcpserver.AddPromptFunc(s, &mcp.Prompt{Name: "ask", Arguments: []mcp.PromptArgument{{Name: "a"}}}, func(context.Context, map[string]string) (string, error) {
			ran.add("prompt")
			return "text", nil
		}, needs),
		mcpserver.CompletePrompt(s, "ask", "a", func(context.Context, *mcpserver.CompleteRequest) ([]string, error) {
			ran.add("completion")
			return nil, nil
		}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return ran
}

func scopedOptions() *mcpserver.Options {
	return &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: scoped, ScopeRules: []mcpserver.ScopeRule{
		{Name: "rule__*", Scopes: []string{"write", "files"}}, {Method: mcp.MethodListPrompts, Scopes: []string{"write", "files"}},
	}}}
}

// AUTH-60, AUTH-04, SECA-26: a sender without the scopes of what it wants gets 403 with all
// that are needed, in each era, before anything is carried out; with them the request
// succeeds.
func TestScopes(t *testing.T) {
	for _, v := range mcp.Versions() {
		if v == mcp.V2024_11_05 {
			continue
		}
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newServer(t, scopedOptions())
				ran := addScoped(t, s)
				w := newWeb(t, memhttp.Serve(t, s.Handler()), v)
				w.header["Authorization"] = "Bearer ada+write"
				w.open()
				frames := map[string]string{
					"quick": call(v, 1, "quick", `{}`), "asks": call(v, 2, "asks", `{}`), "rule": call(v, 3, "rule__one", `{}`),
					"resource": request(v, 4, mcp.MethodReadResource, `{"uri":"x:secret"}`), "template": request(v, 5, mcp.MethodReadResource, `{"uri":"y:z"}`),
					"prompt": request(v, 6, mcp.MethodGetPrompt, `{"name":"ask"}`), "": request(v, 7, mcp.MethodListPrompts, `{}`),
					"completion": request(v, 8, mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"a","value":""}}`),
				}
				for what, frame := range frames {
					got := w.post(frame)
					carried := ran.take()
					if want := `Bearer error="insufficient_scope", scope="write files"`; got.status != http.StatusForbidden || got.header.Get("WWW-Authenticate") != want || len(carried) > 0 {
						t.Errorf("%s: got %v, %q, carried out %v; want 403 with %s", what, got, got.header.Get("WWW-Authenticate"), carried, want)
					}
					if !strings.Contains(got.body, "not authorized") || strings.Contains(got.body, "files") || got.id() == "" {
						t.Errorf("%s: got the body %s, want a fixed text and the id", what, got.body)
					}
					got = w.post(frame, h{"Authorization": "Bearer ada+files+write"})
					if carried = ran.take(); got.status != http.StatusOK || got.code() != 0 || what != "" && !slices.Equal(carried, []string{what}) {
						t.Errorf("%s: with the scopes: got %v, carried out %v", what, got, carried)
					}
				}
				if v.Era() == mcp.EraLegacy { // a subscription tells of what it is to
					for _, uri := range []string{"x:secret", "y:z"} {
						frame := request(v, 10, mcp.MethodSubscribe, `{"uri":"`+uri+`"}`)
						if got := w.post(frame); got.status != http.StatusForbidden {
							t.Errorf("a subscription to %s: got %v, want 403", uri, got)
						}
						if got := w.post(frame, h{"Authorization": "Bearer ada+files+write"}); got.status != http.StatusOK {
							t.Errorf("a subscription to %s with the scopes: got %v", uri, got)
						}
					}
				} else {
					ctx, leave := context.WithCancel(t.Context())
					w.expect(w.follow(ctx, http.MethodPost, listen(10, `{"resourceSubscriptions":["x:secret","x:other"]}`)), acknowledged("10", `{"resourceSubscriptions":["x:other"]}`))
					leave()
				}
				if got := w.post(call(v, 9, "free", `{}`)); got.status != http.StatusOK {
					t.Errorf("a tool without scopes: got %v", got)
				}
			})
		})
	}
}

// BASE-22, AUTH-60: an array with one request that is refused is refused whole, by the scopes
// of the request's own token: nothing of it is carried out.
func TestScopesOfBatch(t *testing.T) {
	const v = mcp.V2025_03_26
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, scopedOptions())
		ran := addScoped(t, s)
		w := newWeb(t, memhttp.Serve(t, s.Handler()), v)
		w.header["Authorization"] = "Bearer ada+write+files"
		w.open()
		batch := "[" + call(v, 1, "free", `{}`) + "," + call(v, 2, "quick", `{}`) + "]"
		w.checks.asked["1"], w.checks.asked["2"] = mcp.MethodCallTool, mcp.MethodCallTool
		narrow := w.post(batch, h{"Authorization": "Bearer ada"})
		if carried := ran.take(); narrow.status != http.StatusForbidden || len(carried) > 0 || !strings.Contains(narrow.header.Get("WWW-Authenticate"), "write files") {
			t.Errorf("with the session's principal and a narrow token: got %v, carried out %v", narrow, carried)
		}
		got, err := w.start(t.Context(), http.MethodPost, strings.NewReader(batch), w.headers(batch))
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		synctest.Wait()
		if carried := ran.take(); got.StatusCode != http.StatusOK || len(carried) != 2 {
			t.Errorf("with the scopes: got %v, carried out %v", got.Status, carried)
		}
	})
}

// A handler and a middleware refuse a request with a status as long as nothing of the answer
// is written; on a stream, in an array and on a pipe the refusal is an error as others are.
func TestHandlersRefuse(t *testing.T) {
	refusal := &mcpserver.AuthError{Status: http.StatusForbidden, Challenge: `Bearer error="insufficient_scope", scope="more"`, Err: errors.New("the scope more is missing")}
	add := func(t *testing.T, s *mcpserver.Server) {
		err := errors.Join(
			mcpserver.AddFunc(s, &mcp.Tool{Name: "quick"}, func(context.Context, struct{}) (string, error) { return "", refusal }),
			mcpserver.AddTool(s, &mcp.Tool{Name: "asks"}, func(context.Context, *mcpserver.ToolRequest, struct{}) (string, error) { return "", refusal }),
			mcpserver.AddTool(s, &mcp.Tool{Name: "slow"}, func(_ context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				time.Sleep(time.Minute) // the answer is a stream by then
				return "", fmt.Errorf("in the middle: %w", refusal)
			}),
			mcpserver.AddResourceFunc(s, &mcp.Resource{URI: "x:r", Name: "r"}, func(context.Context) (string, error) { return "", refusal }),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, around := range []bool{false, true} {
		for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_06_18} {
			opts := &mcpserver.Options{}
			if around {
				opts.Middleware = []mcpserver.Middleware{func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
					if in.Method == mcp.MethodListTools {
						return nil, refusal
					}
					return next(ctx)
				}}
			}
			webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
				add(t, s)
				w := newWeb(t, client, v)
				w.open()
				frames := []string{call(v, 1, "quick", `{}`), call(v, 2, "asks", `{}`), request(v, 3, mcp.MethodReadResource, `{"uri":"x:r"}`)}
				if around {
					frames = append(frames, request(v, 4, mcp.MethodListTools, `{}`))
				}
				for _, frame := range frames {
					if got := w.post(frame); got.status != http.StatusForbidden || got.header.Get("WWW-Authenticate") != refusal.Challenge || strings.Contains(got.body, "more") {
						t.Errorf("%s, middleware %v: %s: got %v", v, around, clip(frame), got)
					}
				}
				got := w.post(call(v, 5, "slow", `{}`))
				if text := readMessage(t, got.messages[len(got.messages)-1]).text(); got.status != http.StatusOK || text != "isError in the middle: not authorized: the scope more is missing" {
					t.Errorf("%s, middleware %v: on a stream: got %v, the text %q", v, around, got, text)
				}
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, nil)
		add(t, s)
		p := serve(t, s)
		p.open(mcp.V2025_11_25)
		if got := readMessage(t, p.ask(call(mcp.V2025_11_25, 1, "quick", `{}`))).text(); !strings.Contains(got, "the scope more is missing") {
			t.Errorf("on a pipe: got %q", got)
		}
	})
}

// AUTH-02: scopes guard HTTP: who is at the other end of a pipe is trusted. An HTTP server
// that authenticates no sender opens nothing that has scopes.
func TestScopesWithoutAuthentication(t *testing.T) {
	const v = mcp.V2025_11_25
	webBubble(t, nil, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
		ran := addScoped(t, s)
		w := newWeb(t, client, v)
		w.open()
		got := w.post(call(v, 1, "quick", `{}`))
		if carried := ran.take(); got.status != http.StatusUnauthorized || len(carried) > 0 {
			t.Errorf("over HTTP: got %v, carried out %v", got, carried)
		}
		p := serve(t, s)
		p.open(v)
		if got := readMessage(t, p.ask(call(v, 1, "quick", `{}`))).text(); got != "done" {
			t.Errorf("on a pipe: got %q", got)
		}
	})
}

// Lists have what a sender has no scopes for, so that a client can step up, unless
// HideForbidden: then each sender sees its own, through all pages, and no cache is shared
// (CACHE-05).
func TestHideForbidden(t *testing.T) {
	for _, hide := range []bool{false, true} {
		opts := scopedOptions()
		opts.HTTP.HideForbidden, opts.Lists.PageSize = hide, 2
		webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			addScoped(t, s)
			for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
				w := newWeb(t, client, v)
				list := func(token string) (names string) {
					t.Helper()
					w.header["Authorization"] = token
					w.session = ""
					w.open()
					for params := "{}"; ; {
						got := w.post(request(v, 1, mcp.MethodListTools, params))
						var m struct{ Result mcp.ListToolsResult }
						if err := json.Unmarshal([]byte(got.body), &m); err != nil {
							t.Fatal(err)
						}
						for _, tool := range m.Result.Tools {
							names += tool.Name + " "
						}
						if m.Result.NextCursor == nil {
							return names
						}
						params = fmt.Sprintf(`{"cursor":%q}`, *m.Result.NextCursor)
					}
				}
				all := list("Bearer ada+write+files")
				narrow := list("Bearer bob")
				if !strings.Contains(all, "asks ") || !strings.Contains(all, "quick ") || !strings.Contains(all, "rule__one ") {
					t.Errorf("hide %v: with the scopes: got %s", hide, all)
				}
				if hide != !strings.Contains(narrow, "quick") || hide != !strings.Contains(narrow, "rule__one") || !strings.Contains(narrow, "free ") {
					t.Errorf("hide %v: without: got %s", hide, narrow)
				}
			}
		})
	}
}

// SECA-24, SECA-7: event streams and subscriptions end soon after their token, and the
// session goes on with another of the same principal.
func TestStreamsEndWithToken(t *testing.T) {
	opts := &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: scoped, KeepAlive: 15 * time.Second}}
	gone := func(t *testing.T, lines <-chan string, within time.Duration) {
		t.Helper()
		for over := time.After(within); ; {
			select {
			case _, open := <-lines:
				if !open {
					return
				}
			case <-over:
				t.Fatalf("the stream is open %v after its token", within)
			}
		}
	}
	t.Run("GET", func(t *testing.T) {
		webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			const v = mcp.V2025_11_25
			w := newWeb(t, client, v)
			w.header["Authorization"] = "Bearer ada"
			w.open()
			w.header["Authorization"] = "Bearer ada@1m"
			lines := w.follow(t.Context(), http.MethodGet, "")
			time.Sleep(59 * time.Second)
			addTool(t, s, "new1")
			w.expect(lines, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			gone(t, lines, 17*time.Second)
			addTool(t, s, "new2")
			w.header["Authorization"] = "Bearer ada@1h"
			lines = w.follow(t.Context(), http.MethodGet, "")
			w.expect(lines, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
			time.Sleep(30 * time.Minute)
			addTool(t, s, "new3")
			w.expect(lines, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		})
	})
	t.Run("listen", func(t *testing.T) {
		webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			w := newWeb(t, client, mcp.V2026_07_28)
			w.header["Authorization"] = "Bearer ada@1m"
			lines := w.follow(t.Context(), http.MethodPost, listen(1, `{"toolsListChanged":true}`))
			w.expect(lines, acknowledged("1", `{"toolsListChanged":true}`))
			time.Sleep(59 * time.Second)
			synctest.Wait()
			addTool(t, s, "new")
			if got := <-lines; !strings.Contains(got, "list_changed") {
				t.Errorf("before the end: got %s", got)
			}
			time.Sleep(2 * time.Second)
			if got := <-lines; !strings.Contains(got, `"resultType":"complete"`) { // SUB-08
				t.Errorf("at the end: got %s, want the result", got)
			}
			gone(t, lines, time.Second)
		})
	})
	t.Run("2024-11-05", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newServer(t, opts)
			w := newWeb(t, memhttp.Serve(t, s.SSEHandler()), mcp.V2024_11_05)
			w.header["Authorization"] = "Bearer ada@1m"
			lines := w.follow(t.Context(), http.MethodGet, "")
			<-lines // the endpoint
			time.Sleep(time.Minute)
			gone(t, lines, 16*time.Second)
		})
	})
}

func addTool(t *testing.T, s *mcpserver.Server, name string) {
	t.Helper()
	if err := mcpserver.AddFunc(s, &mcp.Tool{Name: name}, func(context.Context, struct{}) (string, error) { return "", nil }); err != nil {
		t.Fatal(err)
	}
}

// A handler that waits parked for a client's answers ends with the token of the request that
// it works for; a retry with another token of the principal runs it again.
func TestParkedEndsWithToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newAsking(t, &mcpserver.Options{HTTP: mcpserver.HTTPOptions{Authenticate: scoped}, Rounds: mcpserver.RoundOptions{ParkFor: time.Hour}})
		w, a := newWeb(t, memhttp.Serve(t, s.Handler()), mcp.V2026_07_28), frames(t, mcp.V2026_07_28)
		w.header["Authorization"] = "Bearer ada@1m"
		m := readMessage(t, w.post(a.tool("greet", `{}`, "")).last())
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if len(c.ended) > 0 {
			t.Error("the handler has ended before the token")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(c.ended) != 1 {
			t.Error("the handler outlives the token")
		}
		w.header["Authorization"] = "Bearer ada@1h"
		if got := readMessage(t, w.post(a.tool("greet", `{}`, a.retry(m, respondAda))).last()).text(); got != "Hello, Ada!" || c.ran.Load() != 2 {
			t.Errorf("the retry: got %q after %d runs", got, c.ran.Load())
		}
	})
}

// AUTH-51, SECA-23, SECA-24: neither a handler nor a middleware nor a log has the token.
func TestTokenIsWiped(t *testing.T) {
	const secret = "planted-secret-0123456789"
	var log bytes.Buffer
	var seen []*http.Request
	for _, v := range []mcp.Version{mcp.V2026_07_28, mcp.V2025_11_25} {
		look := func(what string, ctx context.Context, values ...any) {
			text := fmt.Sprintf("%+v", values)
			if web, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
				text += fmt.Sprintf("%+v", web)
			}
			if strings.Contains(text, secret) {
				t.Errorf("%s, %s: the token is in %s", v, what, text)
			}
		}
		opts := &mcpserver.Options{
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Middleware: []mcpserver.Middleware{func(ctx context.Context, in *mcpserver.Incoming, next mcpserver.Next) (json.RawMessage, error) {
				look("middleware", ctx, in, in.Principal, string(in.Meta))
				return next(ctx)
			}},
			HTTP: mcpserver.HTTPOptions{Authenticate: func(r *http.Request) (*mcpserver.Principal, error) {
				if r.Header.Get("Authorization") != "Bearer "+secret {
					return nil, errors.New("another token")
				}
				seen = append(seen, r)
				return &mcpserver.Principal{ID: "ada"}, nil
			}},
		}
		webBubble(t, opts, func(t *testing.T, s *mcpserver.Server, client *http.Client, _ *gate) {
			err := mcpserver.AddTool(s, &mcp.Tool{Name: "look"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
				look("handler", ctx, req, req.Principal(), req.Meta(), req.Client())
				return "done", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w := newWeb(t, client, v)
			w.header["Authorization"] = "Bearer " + secret
			w.open()
			w.post(call(v, 1, "look", `{}`))
			w.post(call(v, 2, "look", `{}`), h{"Authorization": "Bearer " + secret + "x"})
		})
	}
	for _, r := range seen {
		if r.Header.Get("Authorization") != "" {
			t.Error("the request keeps its token")
		}
	}
	if len(seen) < 3 || strings.Contains(log.String(), secret) {
		t.Errorf("%d requests; the log is\n%s", len(seen), log.String())
	}
}
