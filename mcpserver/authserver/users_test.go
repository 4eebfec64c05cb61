package authserver_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/troupe-dev/troupe/mcpserver/authserver"
)

// logsIn visits the login page with what leads there, and sends its form.
func (b *browser) logsIn(user, password string) page {
	b.Helper()
	p := b.get(issuer + "/login?return_to=" + url.QueryEscape("/authorize?x=y"))
	if p.status != http.StatusOK || p.token() == "" {
		b.Fatalf("the login page: %d %s", p.status, p.body)
	}
	return b.do(http.MethodPost, issuer+"/login", url.Values{"token": {p.token()}, "user": {user}, "password": {password}})
}

func usersFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "users")
	for name, password := range map[string]string{"alice": "alice's password", "bob": "bob's password"} {
		if err := authserver.SetUser(file, name, password); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// AUTH-14: a user of the file logs in and consents; what was granted ends when the user is removed
// or gets another password, within half a minute at the resource server too.
func TestUsers(t *testing.T) {
	file := usersFile(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) { o.Login = authserver.Users(file) })
		client := w.register(nil)
		b := w.browser("")
		p := b.get(ask(client, nil))
		at, q := p.location()
		if p.status != http.StatusFound || at != "/login" || !strings.HasPrefix(q.Get("return_to"), "/authorize?") {
			t.Fatalf("an unknown visitor: %d %s", p.status, p.header.Get("Location"))
		}
		if p := b.logsIn("alice", "bob's password"); p.status != http.StatusForbidden || !strings.Contains(p.body, "is wrong") {
			t.Errorf("a wrong password: %d %s", p.status, p.body)
		}
		if p := b.logsIn("carol", "bob's password"); p.status != http.StatusForbidden || !strings.Contains(p.body, "is wrong") {
			t.Errorf("an unknown user: %d %s", p.status, p.body)
		}
		if p := b.logsIn("alice", "alice's password"); p.status != http.StatusSeeOther || p.header.Get("Location") != "/authorize?x=y" {
			t.Fatalf("the right password: %d %s", p.status, p.body)
		}
		if p := b.get(issuer + "/login"); !strings.Contains(p.body, "logged in as alice") {
			t.Errorf("the login page after a login: %s", p.body)
		}
		access, refresh := w.tokens(redeem(client, b.consent(ask(client, nil)), nil))
		if p, err := w.uses(access); err != nil || p.Subject != "alice" {
			t.Fatal(p, err)
		}
		if err := authserver.SetUser(file, "alice", "another password"); err != nil {
			t.Fatal(err)
		}
		if p := b.get(ask(client, nil)); p.status != http.StatusFound {
			t.Errorf("a login with the old password counts: %d", p.status)
		}
		if status, answer := w.call("token", renew(client, refresh)); status != http.StatusBadRequest || answer["error"] != "invalid_grant" {
			t.Errorf("a renewal after that: %d %v", status, answer)
		}
		time.Sleep(31 * time.Second)
		if _, err := w.uses(access); err == nil {
			t.Error("the access token is still good")
		}
		for _, secret := range []string{"another password", "alice's password", access, refresh} {
			if strings.Contains(w.log.String(), secret) {
				t.Errorf("the log has %q", secret)
			}
		}
	})
}

// SECA-33: attempts are limited for each user and address; another user, and later attempts, are let
// in.
func TestAttemptsAreLimited(t *testing.T) {
	file := usersFile(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) { o.Login = authserver.Users(file) })
		b := w.browser("")
		for i := range 5 {
			if p := b.logsIn("alice", "wrong password"); p.status != http.StatusForbidden {
				t.Fatalf("attempt %d: %d", i, p.status)
			}
		}
		if p := b.logsIn("alice", "alice's password"); p.status != http.StatusTooManyRequests {
			t.Errorf("too many attempts: %d", p.status)
		}
		if p := b.logsIn("bob", "bob's password"); p.status != http.StatusSeeOther {
			t.Errorf("another user: %d", p.status)
		}
		time.Sleep(time.Minute)
		if p := b.logsIn("alice", "alice's password"); p.status != http.StatusSeeOther {
			t.Errorf("a minute later: %d", p.status)
		}
	})
}

// SEC-12: the form of a login counts from the browser to which the page was shown, so that no site
// can log a person in as another; and it leads to this host only.
func TestLoginIsOfItsBrowser(t *testing.T) {
	file := usersFile(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) { o.Login = authserver.Users(file) })
		mallory, victim := w.browser(""), w.browser("")
		p := mallory.get(issuer + "/login")
		form := url.Values{"token": {p.token()}, "user": {"bob"}, "password": {"bob's password"}}
		victim.get(issuer + "/login")
		if p := victim.do(http.MethodPost, issuer+"/login", form); p.status != http.StatusForbidden {
			t.Errorf("the form of another browser: %d", p.status)
		}
		if p := mallory.do(http.MethodPost, issuer+"/login", form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); p.status != http.StatusForbidden {
			t.Errorf("a POST of another site: %d", p.status)
		}
		for _, back := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\t/evil.example", "javascript:alert(1)", "evil"} {
			time.Sleep(time.Minute) // attempts are limited
			b := w.browser("")
			p := b.get(issuer + "/login?return_to=" + url.QueryEscape(back))
			p = b.do(http.MethodPost, issuer+"/login", url.Values{"token": {p.token()}, "user": {"bob"}, "password": {"bob's password"}})
			if got := p.header.Get("Location"); got != "/login" {
				t.Errorf("%q: sent to %q", back, got)
			}
		}
	})
}

// SECA-36: a file that others may read is refused, as is one with what is not understood.
func TestUsersFile(t *testing.T) {
	file := usersFile(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("from htpasswd"), 4)
	if err != nil {
		t.Fatal(err)
	}
	raw := must(os.ReadFile(file))
	if err := os.WriteFile(file, append([]byte("# the team\n\ncarol:"+string(hash)+"\n"), raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := authserver.SetUser(file, "dora", "dora's password"); err != nil {
		t.Fatal(err)
	}
	if err := authserver.RemoveUser(file, "bob"); err != nil {
		t.Fatal(err)
	}
	if err := authserver.RemoveUser(file, "bob"); !errors.Is(err, authserver.ErrNoUser) {
		t.Errorf("an unknown user: %v", err)
	}
	if names := must(authserver.UserNames(file)); !slices.Equal(names, []string{"carol", "alice", "dora"}) {
		t.Errorf("the users are %q", names)
	}
	if text := string(must(os.ReadFile(file))); !strings.HasPrefix(text, "# the team\n") {
		t.Errorf("a comment is lost: %s", text)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(o *authserver.Options) { o.Login = authserver.Users(file) })
		if p := w.browser("").logsIn("carol", "from htpasswd"); p.status != http.StatusSeeOther {
			t.Errorf("a hash of htpasswd: %d %s", p.status, p.body)
		}
	})
	for name, text := range map[string]string{
		"plain": "alice:password\n", "md5": "alice:$apr1$abc$def\n", "twice": string(raw) + string(raw), "html": "<b>:" + string(hash) + "\n",
		"costly": "alice:$argon2id$v=19$m=99999999,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
		"slow":   "alice:$2y$31$" + strings.Repeat("a", 53) + "\n",
	} {
		other := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := authserver.UserNames(other); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := authserver.UserNames(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}
