// Package connect has tests of the pages of mcpserver/connect in a real browser.
package connect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/examples/connect/hub"
	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/connect"
	"github.com/troupe-dev/troupe/store/memstore"
)

// world is a server that is Alice's, a service with accounts, and a call that waits for a page.
type world struct {
	t       *testing.T
	at      string      // of the server
	page    string      // that Alice's client was sent to
	outcome chan string // of the call
}

// accepts agrees to every page.
type accepts struct{}

func (accepts) Decide(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

func newWorld(t *testing.T) *world {
	service := httptest.NewServer(new(hub.Hub))
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	t.Cleanup(web.Close)
	store := memstore.New(nil)
	s, err := mcpserver.New(mcp.Implementation{Name: "repos", Version: "1"}, &mcpserver.Options{Principal: &mcpserver.Principal{ID: "alice"}, Records: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	cn, err := connect.New(s, connect.Options{
		Base: web.URL + "/connect", Name: "Repos", Store: store, Keys: [][]byte{make([]byte, 32)}, Providers: []connect.Provider{hub.Provider(service.URL)},
		Login: connect.LoginFunc(func(r *http.Request) (string, string, bool) {
			c, err := r.Cookie("who")
			if err != nil {
				return "", "", false
			}
			return "", c.Value, true
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/connect/", cn)
	mux.Handle("/connect", cn)
	mux.HandleFunc("/login/{who}", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "who", Value: r.PathValue("who"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		io.WriteString(w, "<!doctype html><p>logged in")
	})
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "my_repos"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		client, err := cn.Client(ctx, req, "hub", "repo")
		if err != nil {
			return "", err
		}
		resp, err := client.Get(service.URL + "/user/repos")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, at: web.URL, outcome: make(chan string, 1)}
	opened := make(chan string, 1)
	client, err := mcpclient.Dial(t.Context(), mcpclient.InProcess("repos", s), &mcpclient.Options{AskOptions: mcpclient.AskOptions{
		Human: accepts{}, OpenURL: func(_ context.Context, page string) error { opened <- page; return nil }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	go func() {
		got, err := client.CallTool(t.Context(), "my_repos", nil, nil)
		if err != nil {
			w.outcome <- err.Error()
			return
		}
		w.outcome <- got.Content.Text()
	}()
	select {
	case w.page = <-opened:
	case <-time.After(30 * time.Second):
		t.Fatal("no page was opened")
	}
	return w
}

// person is one with a browser of their own.
type person struct {
	w   *world
	tab context.Context
}

// person opens a browser of their own, and logs in.
func (w *world) person(name string) *person {
	w.t.Helper()
	p := &person{w, chromium.Start(w.t)}
	p.do(chromedp.Navigate(w.at + "/login/" + name))
	return p
}

func (p *person) do(steps ...chromedp.Action[chromedp.Void]) {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.w.t.Fatal(err)
	}
}

// get runs an action that has a result.
func get[T any](p *person, action chromedp.Action[T]) T {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.w.t.Fatal(err)
	}
	return v
}

// want waits until the page says a text.
func (p *person) want(text string) {
	p.w.t.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	if _, err := chromium.Wait(ctx, fmt.Sprintf(`document.body && document.body.innerText.includes(%q) ? "yes" : ""`, text)); err != nil {
		p.w.t.Fatalf("%s says %q, want %q", get(p, chromedp.Location()), get(p, chromedp.Text(chromedp.CSS("body"))), text)
	}
}

// leave goes from the page to the service, and returns the address there.
func (p *person) leave() string {
	p.w.t.Helper()
	p.do(chromedp.Navigate(p.w.page), chromedp.Click(chromedp.CSS(`button[value="connect"]`)))
	p.want("An application wants to use your account")
	return get(p, chromedp.Location())
}

const notYours = "This page is not yours, or it has expired."

// SECA-28: a person connects an account in a real browser: the page, its form, the
// service, and back.
func TestConnect(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	alice := w.person("alice")
	alice.do(chromedp.Navigate(w.page))
	alice.want("my_repos")
	alice.leave()
	alice.do(chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	alice.want("Your Hub account octocat is connected.")
	if got := <-w.outcome; got != `["octocat/hello-world","octocat/dotfiles"]`+"\n" {
		t.Errorf("the tool says %q", got)
	}
	alice.do(chromedp.Click(chromedp.CSS("a")))
	alice.want("octocat")
	alice.do(chromedp.Click(chromedp.CSS("button")))
	alice.want("is disconnected")
}

// SECA-28: Alice's link opened by Bob, Alice's address at the service opened by Bob, and a form
// of another site in Alice's own browser: nothing is connected.
func TestSwaps(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	alice, bob := w.person("alice"), w.person("bob")
	bob.do(chromedp.Navigate(w.page))
	bob.want(notYours)

	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `<!doctype html><form method="post" action=%q><button name="do" value="connect">Win</button></form>`, w.page)
	}))
	defer evil.Close()
	alice.do(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(chromedp.CSS("button")))
	alice.want(notYours)

	service := alice.leave()
	bob.do(chromedp.Navigate(service), chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	bob.want(notYours)
	select {
	case got := <-w.outcome:
		t.Fatalf("the tool goes on: %q", got)
	default:
	}
	alice.do(chromedp.Click(chromedp.CSS(`button[value="deny"]`)))
	alice.want("is not connected: Hub gave no access (access_denied)")
	if got := <-w.outcome; !strings.Contains(got, "the user has declined: Hub gave no access (access_denied)") {
		t.Errorf("the tool says %q", got)
	}
}
