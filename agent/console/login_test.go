package console_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/userfile"
	"github.com/troupe-dev/troupe/store"
)

// team is a console with a file of users, one of each role.
func team(t *testing.T, change func(*console.Options)) (*desk, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	for name, role := range map[string]string{"vera": "", "ann": "answer", "olga": "operate"} {
		if err := userfile.Set(file, name, name+"'s password", role); err != nil {
			t.Fatal(err)
		}
	}
	return newDesk(t, func(o *console.Options) {
		o.Login = console.Users(file)
		if change != nil {
			change(o)
		}
	}), file
}

// fresh is a browser that has not logged in.
func fresh(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

func (d *desk) logsIn(name string) *http.Client {
	d.t.Helper()
	b := fresh(d.t)
	if status, page := d.post(b, "/login", url.Values{"user": {name}, "password": {name + "'s password"}, "back": {"/runs"}}); status != http.StatusOK || !strings.Contains(page, "<h1>Runs") {
		d.t.Fatalf("the login of %s: %d\n%s", name, status, page)
	}
	return b
}

// TestUsers: people log in by names and passwords; the file says what each may do, at once, and an answer is recorded by
// the name. Who is removed, or gets another password, is logged out.
func TestUsers(t *testing.T) {
	d, file := team(t, nil)
	d.newRun("r")
	d.openCall("a")
	status, page := d.get(fresh(t), "/inbox/a")
	wants(t, "a stranger", status, page, http.StatusOK, `type="password"`, `value="/inbox/a"`)
	for _, wrong := range []url.Values{{"user": {"vera"}, "password": {"ann's password"}}, {"user": {"eve"}, "password": {"x"}}, {"user": {"a\nb:"}, "password": {"x"}}, {}} {
		status, page := d.post(fresh(t), "/login", wrong)
		wants(t, "a wrong login", status, page, http.StatusForbidden, "is wrong")
	}
	status, page = d.post(fresh(t), "/login", url.Values{"ticket": {"x"}})
	wants(t, "a login link", status, page, http.StatusForbidden)
	vera, ann, olga := d.logsIn("vera"), d.logsIn("ann"), d.logsIn("olga")
	_, page = d.get(ann, "/inbox/a")
	accept := url.Values{"hash": {hash(t, page)}, "do": {"accept"}}
	status, page = d.post(vera, "/inbox/a", accept)
	wants(t, "a viewer answers", status, page, http.StatusForbidden, "You may look")
	status, page = d.post(ann, "/jobs", url.Values{"prompt": {"x"}})
	wants(t, "an answerer adds a job", status, page, http.StatusForbidden)
	status, page = d.post(ann, "/inbox/a", accept)
	wants(t, "an answerer answers", status, page, http.StatusOK)
	if a, err := d.store.Ask(t.Context(), "a"); err != nil || a.Status != store.AskAccepted || a.By != "console:ann" {
		t.Errorf("got %s by %q, %v", a.Status, a.By, err)
	}
	status, page = d.post(olga, "/jobs", url.Values{"prompt": {"x"}})
	wants(t, "an operator adds a job", status, page, http.StatusOK)
	if err := userfile.Set(file, "ann", "ann's password", "operate"); err != nil { // another hash, too
		t.Fatal(err)
	}
	if err := userfile.Remove(file, "olga"); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*http.Client{"with another password": ann, "who is removed": olga} {
		status, page = d.get(b, "/jobs")
		wants(t, "a user "+name, status, page, http.StatusOK, `type="password"`)
	}
	status, page = d.post(d.logsIn("ann"), "/jobs", url.Values{"prompt": {"y"}})
	wants(t, "an answerer who is an operator now", status, page, http.StatusOK)
	status, page = d.post(vera, "/logout", nil)
	wants(t, "logging out", status, page, http.StatusOK)
	status, page = d.get(vera, "/jobs")
	wants(t, "after logging out", status, page, http.StatusOK, `type="password"`)
}

// TestLoginGoesBack: after a login the browser goes to a page of the console only.
func TestLoginGoesBack(t *testing.T) {
	d, _ := team(t, nil)
	for back, want := range map[string]string{"/runs?state=failed": "/runs?state=failed", "": "/", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/",
		"javascript:alert(1)": "/", "/login?back=x": "/", "/" + strings.Repeat("x", 3000): "/"} {
		b := fresh(t)
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.server.URL+"/login", strings.NewReader(url.Values{"user": {"vera"}, "password": {"vera's password"}, "back": {back}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Forwarded-For", "ignored")
		res, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests {
			return // the limit of one user from one address, which another test holds
		}
		if got := res.Header.Get("Location"); got != want {
			t.Errorf("back to %q: got %q, want %q", back, got, want)
		}
	}
}

// TestTooManyLogins: the tries of one name from one address are few.
func TestTooManyLogins(t *testing.T) {
	d, _ := team(t, nil)
	for n := range 6 {
		status, _ := d.post(fresh(t), "/login", url.Values{"user": {"vera"}, "password": {"guess"}})
		if want := map[bool]int{false: http.StatusForbidden, true: http.StatusTooManyRequests}[n == 5]; status != want {
			t.Errorf("try %d: got %d, want %d", n+1, status, want)
		}
	}
	status, _ := d.post(fresh(t), "/login", url.Values{"user": {"vera"}, "password": {"vera's password"}})
	if status != http.StatusTooManyRequests {
		t.Errorf("the password itself: got %d, want 429", status)
	}
	d.logsIn("ann")
}

// TestSessionFixation: a session that was planted in a browser is worth nothing after the login, the one before the login
// ends, and over https the cookie is of this very host.
func TestSessionFixation(t *testing.T) {
	d, _ := team(t, func(o *console.Options) { o.HTTPS = true })
	at, err := url.Parse(d.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	send := func(session string) *http.Cookie {
		b := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.server.URL+"/login", strings.NewReader(url.Values{"user": {"vera"}, "password": {"vera's password"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.AddCookie(&http.Cookie{Name: "__Host-troupe-console-" + at.Port(), Value: session})
		res, err := b.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		all := res.Cookies()
		if res.StatusCode != http.StatusSeeOther || len(all) != 1 {
			t.Fatalf("the login: %d with %v", res.StatusCode, all)
		}
		return all[0]
	}
	gets := func(session string) int {
		b := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.server.URL+"/runs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "__Host-troupe-console-" + at.Port(), Value: session})
		status, _ := d.do(b, req)
		return status
	}
	first := send("planted")
	if !strings.HasPrefix(first.Name, "__Host-") || !first.Secure || !first.HttpOnly || first.Path != "/" || first.Domain != "" || first.SameSite != http.SameSiteLaxMode {
		t.Errorf("the cookie: %+v", first)
	}
	if first.Value == "planted" || gets("planted") != http.StatusSeeOther || gets(first.Value) != http.StatusOK {
		t.Error("the planted session counts, or the new one does not")
	}
	second := send(first.Value)
	if second.Value == first.Value || gets(first.Value) != http.StatusSeeOther || gets(second.Value) != http.StatusOK {
		t.Error("the session before the login counts still, or the new one does not")
	}
}
