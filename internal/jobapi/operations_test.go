package jobapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/troupe-dev/troupe/internal/jobapi"
)

// TestOperations: metrics want the token if there is one, and else an address or localhost as the name, which no page of
// a browser can have by a name of its own (SECA-1). Readiness and liveness want no token.
func TestOperations(t *testing.T) {
	const token = "0123456789abcdef"
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("all")) })
	for _, tt := range []struct {
		token, host, path, auth string
		busy                    bool
		want                    int
	}{
		{"", "127.0.0.1:9", "/metrics", "", false, 200},
		{"", "localhost:9", "/metrics", "", false, 200},
		{"", "[::1]:9", "/readyz", "", false, 200},
		{"", "evil.example", "/metrics", "", false, 421},
		{"", "127.0.0.1.evil.example:9", "/readyz", "", false, 421},
		{token, "metrics.example", "/metrics", "", false, 401},
		{token, "127.0.0.1:9", "/metrics", "Bearer 0123456789abcdee", false, 401},
		{token, "metrics.example", "/metrics", "Bearer " + token, false, 200},
		{token, "metrics.example", "/readyz", "", false, 200},
		{token, "metrics.example", "/readyz", "", true, 503},
		{token, "metrics.example", "/healthz", "", true, 200},
		{"", "127.0.0.1", "/mcp", "", false, 404},
	} {
		h, err := jobapi.NewOperations(jobapi.OperationsOptions{Token: tt.token, Metrics: metrics, Ready: func(context.Context) error {
			if tt.busy {
				return errors.New("busy")
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil)
		if r.Host = tt.host; tt.auth != "" {
			r.Header.Set("Authorization", tt.auth)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%+v: got %d %s", tt, w.Code, w.Body)
		}
	}
	if _, err := jobapi.NewOperations(jobapi.OperationsOptions{Token: "short", Metrics: metrics}); err == nil {
		t.Error("a short token: got no error")
	}
}
