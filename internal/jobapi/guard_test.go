package jobapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
)

func newGuard(t *testing.T, allow ...string) *jobapi.Guard {
	t.Helper()
	g, err := jobapi.NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Webhooks do not go to addresses that are not public, however they are written (SECA-16).
func TestGuard(t *testing.T) {
	tests := []struct {
		url   string
		allow []string
		ok    bool
	}{
		{"https://example.com/hook", nil, true},
		{"https://example.com:8443/hook?x=1", nil, true},
		{"https://93.184.216.34/", nil, true},
		{"https://[2606:4700::1111]/", nil, true},
		{"http://example.com/hook", nil, false},
		{"http://example.com/hook", []string{"example.com"}, true},
		{"ftp://example.com/", nil, false},
		{"file:///etc/passwd", nil, false},
		{"//example.com/", nil, false},
		{"https:example.com", nil, false},
		{"https://user:secret@example.com/", nil, false},
		{"https://example.com/#fragment", nil, false},
		{"not a url at all\x00", nil, false},
		{"https://" + strings.Repeat("a", 3000) + ".example/", nil, false},
		{"https://127.0.0.1/", nil, false},
		{"https://10.1.2.3/", nil, false},
		{"https://10.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"http://10.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"https://11.1.2.3/", []string{"10.0.0.0/8"}, true},
		{"http://11.1.2.3/", []string{"10.0.0.0/8"}, false},
		{"https://172.16.0.1/", nil, false},
		{"https://192.168.1.1/", nil, false},
		{"https://192.168.1.1:99/", []string{"192.168.1.1:98"}, false},
		{"https://192.168.1.1:99/", []string{"192.168.1.1:99"}, true},
		{"https://169.254.169.254/latest/meta-data/", nil, false},
		{"https://100.64.0.1/", nil, false},
		{"https://198.18.0.1/", nil, false},
		{"https://192.0.2.1/", nil, false},
		{"https://255.255.255.255/", nil, false},
		{"https://0.0.0.0/", nil, false},
		{"https://[::]/", nil, false},
		{"https://[::1]/", nil, false},
		{"https://[::ffff:127.0.0.1]/", nil, false},
		{"https://[::127.0.0.1]/", nil, false},
		{"https://[64:ff9b::7f00:1]/", nil, false},
		{"https://[64:ff9b:1::1]/", nil, false},
		{"https://[2002:7f00:1::]/", nil, false},
		{"https://[2001::1]/", nil, false},
		{"https://[fec0::1]/", nil, false},
		{"https://[fe80::1%25eth0]/", nil, false},
		{"https://[fd00::1]/", nil, false},
		{"https://[ff02::1]/", nil, false},
	}
	for _, tt := range tests {
		err := newGuard(t, tt.allow...).Check(tt.url)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, jobapi.ErrHookRefused) {
			t.Errorf("Check(%.80q) with %q: got %v, want ok=%v", tt.url, tt.allow, err, tt.ok)
		}
	}
	for _, bad := range []string{"", "*", "http://a", "a/b", "user@host"} {
		if _, err := jobapi.NewGuard([]string{bad}); err == nil {
			t.Errorf("NewGuard(%q): got no error", bad)
		}
	}
}

// A name that leads to an address that is not public is refused when the connection is
// made, numbers in odd spellings too, and a redirect is not followed (SECA-16).
func TestGuardAtTheConnection(t *testing.T) {
	reached := 0
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer inside.Close()
	port := inside.URL[strings.LastIndexByte(inside.URL, ':'):]
	for _, host := range []string{"localhost", "localhost.", "127.1", "0x7f000001", "2130706433"} {
		g := newGuard(t)
		if err := g.Check("https://" + host + port + "/"); err != nil {
			continue // refused before
		}
		err := jobapi.Post(t.Context(), g, "https://"+host+port+"/", []byte("{}"))
		if err == nil || reached > 0 {
			t.Errorf("posting to %s: got %v, and %d requests arrived", host, err, reached)
		}
	}
	elsewhere := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	g := newGuard(t, strings.TrimPrefix(elsewhere.URL, "http://"), strings.TrimPrefix(inside.URL, "http://"))
	if err := jobapi.Post(t.Context(), g, elsewhere.URL, []byte("{}")); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("a redirect: got %v, want that it is not followed", err)
	}
	if reached > 0 {
		t.Errorf("the redirect was followed: %d requests arrived", reached)
	}
	if err := jobapi.Post(t.Context(), g, inside.URL, []byte("{}")); err != nil || reached != 1 {
		t.Errorf("what is allowed: got %v, %d requests, want 1", err, reached)
	}
}

// FuzzGuard holds that a URL which passes has the form that is promised.
func FuzzGuard(f *testing.F) {
	for _, seed := range []string{"https://example.com/", "http://[::1]:80/", "https://a@b/", "https://１２７.0.0.1/", "https:///x", "https://a:b:c/"} {
		f.Add(seed)
	}
	g, err := jobapi.NewGuard(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if g.Check(raw) == nil && (!strings.HasPrefix(strings.ToLower(raw), "https://") || strings.Contains(raw, "#") && !strings.HasSuffix(raw, "#")) {
			t.Errorf("Check(%q): got no error", raw)
		}
	})
}

// A signature is that of the Standard Webhooks, and of exactly this body, id and time.
func TestSignature(t *testing.T) {
	s, err := jobapi.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	// The example of the specification's reference implementations.
	at, body := time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)
	h := http.Header{}
	h.Set(jobapi.HeaderID, "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set(jobapi.HeaderTimestamp, "1614265330")
	h.Set(jobapi.HeaderSignature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
	if err := s.Verify(h, body, at); err != nil {
		t.Errorf("Verify: got %v", err)
	}
	for name, change := range map[string]func(http.Header) (string, time.Time){
		"another body": func(http.Header) (string, time.Time) { return `{"test": 2432232315}`, at },
		"another id": func(h http.Header) (string, time.Time) {
			h.Set(jobapi.HeaderID, "msg_other")
			return string(body), at
		},
		"too old":         func(http.Header) (string, time.Time) { return string(body), at.Add(time.Hour) },
		"from the future": func(http.Header) (string, time.Time) { return string(body), at.Add(-time.Hour) },
		"no time": func(h http.Header) (string, time.Time) {
			h.Del(jobapi.HeaderTimestamp)
			return string(body), at
		},
		"no signature": func(h http.Header) (string, time.Time) {
			h.Del(jobapi.HeaderSignature)
			return string(body), at
		},
	} {
		changed := h.Clone()
		b, now := change(changed)
		if err := s.Verify(changed, []byte(b), now); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	for _, bad := range []string{"", "short", "whsec_!!!", "whsec_YWJj"} {
		if _, err := jobapi.NewSecret(bad); err == nil {
			t.Errorf("NewSecret(%q): got no error", bad)
		}
	}
}
