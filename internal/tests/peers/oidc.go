package peers

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// oidc-provider has a bundle of its own.
var (
	//go:embed oidc/package.json
	oidcManifest []byte
	//go:embed oidc/package-lock.json
	oidcLock []byte
	//go:embed oidc/as.mjs
	oidcScript []byte
)

// OIDC is the authorization server oidc-provider; as.mjs says what can be turned.
type OIDC struct {
	*Server // its URL is the issuer

	t testing.TB
}

// ListenOIDC starts the authorization server with a configuration, "" for the usual one, and
// stops it when the test ends. It is missing as [Require] has it.
func ListenOIDC(t testing.TB, config string) *OIDC {
	t.Helper()
	node, err := exec.LookPath("node")
	var dir string
	if err != nil {
		err = ErrNoNode
	} else {
		dir, err = Install(t.Context(), Bundle{Name: "oidc", Manifest: oidcManifest, Lock: oidcLock, Scripts: map[string][]byte{"as.mjs": oidcScript}})
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrNoNode) && os.Getenv("REQUIRE_PEERS") == "":
		t.Skipf("the authorization server is not here: %v", err)
	default:
		t.Fatalf("the authorization server: %v", err)
	}
	line := []string{node, filepath.Join(dir, "as.mjs")}
	if config != "" {
		line = append(line, config)
	}
	s, err := start(line)
	if err != nil {
		t.Fatalf("starting the authorization server: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("the authorization server wrote:\n%s", s.out)
		}
	})
	return &OIDC{s, t}
}

// OIDCRequest is a request of a client to the authorization server.
type OIDCRequest struct {
	Route    string `json:"route"` // registration, authorization, token, revocation, …
	Status   int    `json:"status"`
	Error    string `json:"error"`
	ClientID string `json:"client_id"`
	Grant    string `json:"grant_type"`
	Scope    string `json:"scope"`
	Resource string `json:"resource"`
	Redirect string `json:"redirect_uri"`
}

// Set changes how it works: "life", seconds of an access token, and "ahead", seconds that its
// clock is ahead of ours.
func (s *OIDC) Set(knobs map[string]int) { s.ask("set", knobs) }

// Forget has it know nothing any more of what it has given out: AccessToken, RefreshToken, Grant.
func (s *OIDC) Forget(models ...string) { s.ask("forget", map[string][]string{"models": models}) }

// Seen returns the requests so far.
func (s *OIDC) Seen() (all []OIDCRequest) {
	s.t.Helper()
	if err := json.Unmarshal(s.ask("seen", struct{}{}), &all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *OIDC) ask(what string, v any) []byte {
	s.t.Helper()
	return s.Ask(s.t, s.URL+"/test/"+what, v)
}

// Ask posts JSON to a program of the tests and returns its answer.
func (s *Server) Ask(t testing.TB, at string, v any) []byte {
	t.Helper()
	said, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(at, "application/json", bytes.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v %s", at, resp.Status, err, body)
	}
	return body
}

// Visitor is a person with a browser that has no scripts: it logs in at an [OIDC], or as [Name]
// with [Password] at an authorization server of ours, and agrees.
type Visitor struct{ http.Client }

// What a [Visitor] logs in with.
const Name, Password = "ada", "of the tests"

// NewVisitor returns a person who was nowhere yet.
func NewVisitor() *Visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // it has no options
	}
	return &Visitor{http.Client{Jar: jar}}
}

var (
	formAction = regexp.MustCompile(`<form [^>]*action="([^"]+)"`)
	formField  = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// Visit opens an address and sends each form that it is shown, up to the page at the end.
func (v *Visitor) Visit(ctx context.Context, address string) (page string, err error) {
	method, form := http.MethodGet, url.Values{}
	for range 10 {
		req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader([]byte(form.Encode())))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := v.Do(req)
		if err != nil {
			return "", err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("%s: %s\n%s", resp.Request.URL, resp.Status, body)
		}
		action := formAction.FindSubmatch(body)
		if action == nil {
			return string(body), nil
		}
		next, err := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		if err != nil {
			return "", err
		}
		method, address = http.MethodPost, next.String()
		form = url.Values{"login": {Name}, "user": {Name}, "password": {Password}, "do": {"allow"}}
		for _, field := range formField.FindAllSubmatch(body, -1) {
			form.Set(string(field[1]), html.UnescapeString(string(field[2])))
		}
	}
	return "", fmt.Errorf("%s has forms without end", address)
}
