package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/examples/connect/hub"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// person agrees to everything, here and in the browser.
type person struct {
	t     *testing.T
	token string
	http  *http.Client
	pages int
}

func (p *person) Decide(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

// open does what a person does in the browser.
func (p *person) open(_ context.Context, page string) error {
	p.pages++
	at, text := p.visit(page)
	if strings.Contains(at.Path, "/login") {
		at, text = p.post(at, url.Values{"token": {p.token}, "return_to": {at.Query().Get("return_to")}})
	}
	found := formToken.FindStringSubmatch(text)
	if found == nil {
		p.t.Errorf("%s has no form: %s", at, text)
		return nil
	}
	at, _ = p.post(at, url.Values{"token": {found[1]}, "do": {"connect"}})
	if at, text = p.post(at, url.Values{"account": {"ada"}, "do": {"agree"}}); !strings.Contains(text, "is connected") {
		p.t.Errorf("%s says %s", at, text)
	}
	return nil
}

func (p *person) visit(page string) (*url.URL, string) {
	p.t.Helper()
	resp, err := p.http.Get(page)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.read(resp)
}

func (p *person) post(at *url.URL, form url.Values) (*url.URL, string) {
	p.t.Helper()
	resp, err := p.http.PostForm(at.String(), form)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.read(resp)
}

func (p *person) read(resp *http.Response) (*url.URL, string) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.Request.URL, string(text)
}

// The tool lists the repositories of its caller, once the caller has connected an account.
func TestMyRepos(t *testing.T) {
	service := httptest.NewServer(new(hub.Hub))
	defer service.Close()
	for _, way := range []string{"stdio", "http"} {
		t.Run(way, func(t *testing.T) {
			jar, err := cookiejar.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &person{t: t, token: "ada-token", http: &http.Client{Jar: jar}}
			var handler http.Handler
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
			defer web.Close()
			base := map[string]string{"http": web.URL + "/connect"}[way]
			s, cn, err := newServer(base, service.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			defer cn.Close()
			handler = newMux(s, cn)
			server := mcpclient.InProcess("repos", s)
			if way == "http" {
				server = mcpclient.Server{Name: "repos", URL: web.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer ada-token"}}
			}
			c, err := mcpclient.Dial(t.Context(), server, &mcpclient.Options{AskOptions: mcpclient.AskOptions{Human: p, OpenURL: p.open}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			const repos = "ada/hello-world\nada/dotfiles"
			for _, want := range []string{repos + "\nNote for the user: the Hub account \"ada\" was connected with Repos on ", repos} {
				got, err := c.CallTool(t.Context(), "my_repos", nil, nil)
				if err != nil || got.IsError || !strings.HasPrefix(got.Content.Text(), want) {
					t.Fatalf("my_repos: got %+v, %v", got, err)
				}
			}
			if p.pages != 1 {
				t.Errorf("%d pages, want 1", p.pages)
			}
		})
	}
}
