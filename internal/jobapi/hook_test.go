package jobapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/internal/netguard"
)

func newGuard(t *testing.T, allow ...string) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(&netguard.Options{Allow: allow, PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
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
