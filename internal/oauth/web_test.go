package oauth_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/internal/oauth"
)

// web is an internet: what is served at each address, query and fragment left out. Others
// answer 404. It has no connections, so tests may run in a synctest bubble.
type web struct {
	pages map[string]http.HandlerFunc
	down  map[string]error // hosts that cannot be reached

	mu    sync.Mutex // requests come from several goroutines in some tests
	asked []string   // "GET https://…"
}

func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	at := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path}
	w.mu.Lock()
	w.asked = append(w.asked, req.Method+" "+at.String())
	w.mu.Unlock()
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := w.down[req.URL.Host]; err != nil {
		return nil, err
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	if page := w.pages[at.String()]; page != nil {
		page(rec, req)
	} else {
		http.NotFound(rec, req)
	}
	resp := rec.Result()
	resp.Request = req
	return resp, nil
}

func (w *web) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// took compares the requests so far with what is wanted, and forgets them.
func (w *web) took(t *testing.T, want ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.asked, want) {
		t.Errorf("got the requests\n%s\nwant\n%s", strings.Join(w.asked, "\n"), strings.Join(want, "\n"))
	}
	w.asked = nil
}

// text serves a body with a status.
func text(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// doc serves a JSON object.
func doc(v map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { answerJSON(w, http.StatusOK, v) }
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// metadata is that of an authorization server, with changes; nil leaves a member out.
func metadata(issuer string, changes map[string]any) map[string]any {
	base := strings.TrimSuffix(issuer, "/")
	m := map[string]any{
		"issuer": issuer, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
		"registration_endpoint": base + "/register", "revocation_endpoint": base + "/revoke", "device_authorization_endpoint": base + "/device",
		"code_challenge_methods_supported": []string{"S256"},
	}
	for name, v := range changes {
		m[name] = v
		if v == nil {
			delete(m, name)
		}
	}
	return m
}

// server is the checked metadata of https://as.example.
func server(t *testing.T, changes map[string]any) *oauth.Server {
	t.Helper()
	w := &web{pages: map[string]http.HandlerFunc{"https://as.example/.well-known/oauth-authorization-server": doc(metadata("https://as.example", changes))}}
	s, err := oauth.FetchServer(t.Context(), w.client(), "https://as.example", false)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
