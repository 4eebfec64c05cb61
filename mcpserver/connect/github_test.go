package connect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/connect"
)

// github is GitHub as far as accounts go: a token endpoint that refuses with 200, scopes between
// commas and without those that another includes, and no RFC 7009.
type github struct {
	t       *testing.T
	revoke  int      // the status of a revocation
	revoked []string // tokens
	scopes  string   // asked for
}

const (
	githubToken  = "gho-" + planted
	githubSecret = "github-" + planted
)

func (g *github) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reply := func(status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(value)
	}
	switch r.Method + " " + r.URL.Host + r.URL.Path {
	case "POST github.com/login/oauth/access_token":
		r.ParseForm()
		f := r.PostForm
		switch {
		case r.Header.Get("Accept") != "application/json" || f.Get("client_id") != "app" || f.Get("client_secret") != githubSecret || f.Get("code_verifier") == "":
			g.t.Errorf("the token endpoint is sent %v", f)
			w.WriteHeader(http.StatusBadRequest)
		case f.Get("code") != "good":
			reply(http.StatusOK, map[string]string{"error": "bad_verification_code", "error_description": "The code passed is incorrect or expired."})
		default:
			reply(http.StatusOK, map[string]string{"access_token": githubToken, "token_type": "bearer", "scope": g.scopes})
		}
	case "GET api.github.com/user":
		if r.Header.Get("Authorization") != "Bearer "+githubToken {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		reply(http.StatusOK, map[string]string{"login": "octocat"})
	case "DELETE api.github.com/applications/app/token":
		var body map[string]string
		id, secret, _ := r.BasicAuth()
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body) != 1 || id != "app" || secret != githubSecret {
			g.t.Errorf("the revocation is %v of %q (%v)", body, id, err)
		}
		g.revoked = append(g.revoked, body["access_token"])
		w.WriteHeader(g.revoke)
	default:
		g.t.Errorf("GitHub is sent %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

// An account at GitHub: connected, with scopes that include others; a code that GitHub refuses
// with 200; and disconnected, where GitHub is asked to delete the token.
func TestGitHub(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusNoContent:           "The GitHub account is disconnected.</p>",
		http.StatusNotFound:            "The GitHub account is disconnected.</p>", // the token has ended
		http.StatusUnprocessableEntity: "The GitHub account is disconnected.</p>",
		http.StatusInternalServerError: "GitHub was not told of that",
		http.StatusFound:               "GitHub was not told of that",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			g := &github{t: t, revoke: status, scopes: "repo,user"}
			w.net["github.com"], w.net["api.github.com"] = g, g
			s := w.start("api.example.com", alice, func(o *connect.Options) {
				o.Providers = []connect.Provider{connect.GitHub("app", githubSecret)}
			})
			p, b := w.dial(s.Server, mcp.V2026_07_28, withPages), w.browser("alice")
			finish := func(scopes, code string) url.Values {
				t.Helper()
				page := p.ask(fmt.Sprintf(`{"provider":"github","scopes":[%s]}`, scopes))
				b.get(page)
				at, err := url.Parse(b.post(page, "same-origin", url.Values{"token": {b.token()}, "do": {"connect"}}))
				if err != nil || at.Host+at.Path != "github.com/login/oauth/authorize" {
					t.Fatalf("the form led to %q", at)
				}
				q := at.Query()
				b.get(q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}}.Encode())
				return q
			}
			finish(`"repo"`, "bad")
			b.want("a bad code", 200, "GitHub gave no access (bad_verification_code)")
			if got := p.answer(); !strings.Contains(got, "the user has declined") {
				t.Errorf("a bad code: got %q", got)
			}
			q := finish(`"repo","public_repo","user:email","user"`, "good")
			b.want("the answer", 200, `id="account">octocat<`)
			if got := q.Get("scope"); got != "public_repo repo user user:email" {
				t.Errorf("asked for %q", got)
			}
			if got := p.answer(); strings.HasPrefix(got, "isError connecting") {
				t.Errorf("got %q", got)
			}
			b.get(base)
			b.post(base+"/revoke", "same-origin", url.Values{"provider": {"github"}, "token": {b.token()}})
			b.want(fmt.Sprintf("a revocation that is answered with %d", status), 200, want)
			if !slices.Equal(g.revoked, []string{githubToken}) || len(w.accounts()) != 0 {
				t.Errorf("revoked %d tokens, and %d accounts are left", len(g.revoked), len(w.accounts()))
			}
		})
	}
}
