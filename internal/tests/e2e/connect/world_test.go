package connect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
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

// patience bounds the steps of a test.
const patience = time.Minute

// world is a server whose users have accounts at a service. Its pages are at one address, whatever
// the number of its instances, as behind a proxy.
type world struct {
	*testing.T
	at      string                        // of the pages, of the login and of MCP, without a path
	service string                        // where the accounts are
	store   *memstore.Store               // that the instances share
	pages   atomic.Pointer[http.ServeMux] // of the instance that serves them: the last one that was started
	first   *mcpserver.Server             // the instance that serves MCP
	later   atomic.Int64                  // by so many nanoseconds is the store's clock ahead
}

// tokens are what MCP requests are sent with, by the person.
var tokens = map[string]string{"Bearer alice-token": "alice", "Bearer bob-token": "bob"}

func newWorld(t *testing.T) *world {
	w := &world{T: t}
	w.store = memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(w.later.Load())) }})
	service := httptest.NewServer(new(hub.Hub))
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.pages.Load().ServeHTTP(rw, r) }))
	w.at, w.service = web.URL, service.URL
	w.start()
	t.Cleanup(web.Close) // before the server, which would wait for its clients
	t.Cleanup(service.Close)
	return w
}

// start starts an instance.
func (w *world) start() {
	w.Helper()
	opts := &mcpserver.Options{Records: w.store}
	opts.HTTP.Authenticate = func(r *http.Request) (*mcpserver.Principal, error) {
		who := tokens[r.Header.Get("Authorization")]
		if who == "" {
			return nil, &mcpserver.AuthError{Status: http.StatusUnauthorized, Challenge: "Bearer"}
		}
		return &mcpserver.Principal{ID: who}, nil
	}
	s, err := mcpserver.New(mcp.Implementation{Name: "repos", Version: "1"}, opts)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	cn, err := connect.New(s, connect.Options{
		Base: w.at + "/connect", Name: "Repos", Store: w.store, Keys: [][]byte{make([]byte, 32)}, Providers: []connect.Provider{hub.Provider(w.service)},
		Login: connect.LoginFunc(func(r *http.Request) (string, string, bool) {
			c, err := r.Cookie("who")
			if err != nil {
				return "", "", false
			}
			return "", c.Value, true
		}),
	})
	if err != nil {
		w.Fatal(err)
	}
	err = mcpserver.AddTool(s, &mcp.Tool{Name: "my_repos"}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		client, err := cn.Client(ctx, req, "hub", "repo")
		if err != nil {
			return "", err
		}
		resp, err := client.Get(w.service + "/user/repos")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	})
	if err != nil {
		w.Fatal(err)
	}
	if w.first == nil {
		w.first = s
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", w.first.Handler())
	mux.Handle("/connect/", cn)
	mux.Handle("/connect", cn)
	mux.HandleFunc("/login/{who}", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "who", Value: r.PathValue("who"), Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		io.WriteString(w, "<!doctype html><p>logged in")
	})
	w.pages.Store(mux)
}

// repos is what the tool says of the account that [person.connect] connects.
const repos = `["octocat/hello-world","octocat/dotfiles"]` + "\n"

// accepts agrees to every page.
type accepts struct{}

func (accepts) Decide(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

// call is one of the tool, by a host of ours.
type call struct {
	w       *world
	page    string      // that the host was sent to
	outcome chan string // what the tool says
	note    string      // to the owner of the account, behind that
	client  *mcpclient.Client
	leave   context.CancelFunc
}

// server is the server, for hosts of a person.
func (w *world) server(who string) mcpclient.Server {
	return mcpclient.Server{Name: "repos", URL: w.at + "/mcp", Headers: map[string]string{"Authorization": "Bearer " + who + "-token"}}
}

// call calls the tool of a server, and returns once the page is open.
func (w *world) call(server mcpclient.Server) *call {
	w.Helper()
	ctx, leave := context.WithCancel(w.Context())
	c := &call{w: w, outcome: make(chan string, 1), leave: leave}
	opened := make(chan string, 1)
	var err error
	c.client, err = mcpclient.Dial(w.Context(), server, &mcpclient.Options{AskOptions: mcpclient.AskOptions{
		Human: accepts{}, OpenURL: func(_ context.Context, page string) error { opened <- page; return nil }}})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { leave(); c.client.Close() })
	go func() {
		got, err := c.client.CallTool(ctx, "my_repos", nil, nil)
		if err != nil {
			c.outcome <- err.Error()
			return
		}
		c.outcome <- got.Content.Text()
	}()
	select {
	case c.page = <-opened:
	case got := <-c.outcome:
		w.Fatalf("no page was opened: the tool says %q", got)
	case <-time.After(patience):
		w.Fatal("no page was opened")
	}
	return c
}

// says returns what the tool says.
func (c *call) says() string {
	c.w.Helper()
	select {
	case got := <-c.outcome:
		got, c.note = cutNote(got)
		return got
	case <-time.After(patience):
		c.w.Fatal("the tool says nothing")
		return ""
	}
}

// cutNote parts what a tool says from the note to the owner of an account.
func cutNote(text string) (says, note string) {
	says, note, _ = strings.Cut(text, "Note for the user: ")
	if note != "" {
		says = strings.TrimSuffix(says, "\n")
	}
	return says, note
}

// waits checks that the tool says nothing yet.
func (c *call) waits() {
	c.w.Helper()
	select {
	case got := <-c.outcome:
		c.w.Fatalf("the tool goes on: %q", got)
	default:
	}
}

// person is one with a browser of their own.
type person struct {
	w   *world
	tab context.Context
}

// person opens a browser of their own, and logs in.
func (w *world) person(name string) *person {
	w.Helper()
	p := &person{w, chromium.Start(w.T)}
	p.do(chromedp.Navigate(w.at + "/login/" + name))
	return p
}

func (p *person) do(steps ...chromedp.Action[chromedp.Void]) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.w.Fatal(err)
	}
}

// get runs an action that has a result.
func get[T any](p *person, action chromedp.Action[T]) T {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.w.Fatal(err)
	}
	return v
}

// want waits until the page says a text.
func (p *person) want(text string) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	if _, err := chromium.Wait(ctx, fmt.Sprintf(`document.body && document.body.innerText.includes(%q) ? "yes" : ""`, text)); err != nil {
		p.w.Fatalf("%s says %q, want %q", get(p, chromedp.Location()), get(p, chromedp.Text(chromedp.CSS("body"))), text)
	}
}

// another returns another tab of the person's browser.
func (p *person) another() *person {
	p.w.Helper()
	return &person{p.w, chromium.Tab(p.w.T, p.tab)}
}

// leave goes from a page to the service, and returns the address there.
func (p *person) leave(page string) string {
	p.w.Helper()
	p.do(chromedp.Navigate(page), chromedp.Click(chromedp.CSS(`button[value="connect"]`)))
	p.want("An application wants to use your account")
	return get(p, chromedp.Location())
}

// agree ends at the service what leave has begun.
func (p *person) agree() {
	p.w.Helper()
	p.do(chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	p.want("is connected")
}

// connect does all that a person has to do.
func (p *person) connect(page string) {
	p.w.Helper()
	p.leave(page)
	p.agree()
}

// disconnect ends the account.
func (p *person) disconnect() {
	p.w.Helper()
	p.do(chromedp.Navigate(p.w.at+"/connect"), chromedp.Click(chromedp.CSS("button")))
	p.want("is disconnected")
}
