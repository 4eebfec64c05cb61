package auth_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/oauth"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// The port is bound before any address is shown. What is not the answer changes nothing: a
// page of another origin may send the browser there with a wrong state, another path, another
// host, another method, or a refusal. The login then succeeds, and no answer reflects
// anything (AUTH-06, AUTH-08, SECA-20, SECA-21).
func TestForeignTab(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error {
		u, err := url.Parse(r.URL)
		if err != nil {
			return err
		}
		callback := u.Query().Get("redirect_uri")
		back, err := url.Parse(callback)
		if err != nil || back.Hostname() != "127.0.0.1" || back.Scheme != "http" || back.Path != "/callback" {
			t.Errorf("got the redirect address %q", callback)
		}
		conn, err := net.Dial("tcp", back.Host)
		if err != nil {
			t.Errorf("the port is not bound when the address is shown: %v", err)
		} else {
			conn.Close()
		}
		good, err := k.visit(ctx, r)
		if err != nil {
			return err
		}
		state := u.Query().Get("state")
		const marker = "<b>reflected</b>"
		for name, foreign := range map[string]struct {
			method, at, host string
			want             int
		}{
			"no state":      {"GET", callback, "", 400},
			"another state": {"GET", callback + "?code=x&state=" + url.QueryEscape(marker), "", 400},
			"a denial":      {"GET", callback + "?error=access_denied&error_description=" + url.QueryEscape(marker), "", 400},
			"two states":    {"GET", callback + "?code=x&state=" + state + "&state=" + state, "", 400},
			"bad query":     {"GET", callback + "?%zz;" + state, "", 400},
			"another path":  {"GET", strings.Replace(good, "/callback", "/callback/"+url.PathEscape(marker), 1), "", 404},
			"the root":      {"GET", strings.Replace(good, "/callback", "/", 1), "", 404},
			"another host":  {"GET", good, "evil.example", 404},
			"a name for us": {"GET", good, "localhost:" + back.Port(), 404},
			"a POST":        {"POST", good, "", 404},
			"a HEAD":        {"HEAD", good, "", 404},
			"CORS":          {"OPTIONS", good, "", 404},
		} {
			status, header, page := k.browser(foreign.method, foreign.at, foreign.host)
			if status != foreign.want || strings.Contains(page, "reflected") || strings.Contains(page, state) || header.Get("Location") != "" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: got %d %v %q, want %d", name, status, header, page, foreign.want)
			}
		}
		status, header, page := k.browser("GET", good, "")
		if status != 200 || !strings.Contains(page, "You can close this page") || strings.Contains(page, "secret") || strings.Contains(page, state) {
			t.Errorf("the answer: got %d %q", status, page)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8"} {
			if header.Get(name) != want {
				t.Errorf("%s: got %q, want %q", name, header.Get(name), want)
			}
		}
		if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || len(header.Values("Set-Cookie")) != 0 {
			t.Errorf("got the header %v", header)
		}
		return nil
	})
	k.good(k.call(k.credential(), "t"))
	k.counts("at the end", map[string]int{"authorize": 1, "authorization_code": 1})
}

// A redirect of another issuer ends the login, and so does one without an issuer from a server
// that always sends it: neither the code nor the text of an error is used (AUTH-42, AUTH-43,
// SECA-18). The page says that the login did not succeed.
func TestMixUp(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"another issuer": func(at string) string { return replaceQuery(at, "iss", "https://evil.example") },
		"a longer one": func(at string) string {
			u, _ := url.Parse(at)
			return replaceQuery(at, "iss", u.Query().Get("iss")+"/")
		},
		"none": func(at string) string { return replaceQuery(at, "iss", "") },
		"in an error": func(at string) string {
			return replaceQuery(replaceQuery(at, "iss", "https://evil.example"), "code", "") + "&error=access_denied&error_description=evil-text"
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := loopback(t)
			k.is(func(ctx context.Context, r *auth.Request) error {
				at, err := k.visit(ctx, r)
				if err != nil {
					return err
				}
				if status, _, page := k.browser("GET", change(at), ""); status != 200 || !strings.Contains(page, "did not succeed") || strings.Contains(page, "evil") {
					t.Errorf("the answer: got %d %q", status, page)
				}
				<-ctx.Done() // the login is over
				return ctx.Err()
			})
			err := k.call(k.credential(), "t")
			if !errors.Is(err, oauth.ErrIssuer) || strings.Contains(err.Error(), "evil-text") {
				t.Errorf("got %v, want %v", err, oauth.ErrIssuer)
			}
			k.counts("at the end", map[string]int{"authorization_code": 0})
		})
	}
}

func replaceQuery(at, name, value string) string {
	u, err := url.Parse(at)
	if err != nil {
		return err.Error()
	}
	q := u.Query()
	if q.Del(name); value != "" {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// A server that refuses with the right state ends the login with what it says, cleaned.
func TestServerDenies(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error {
		at, err := k.visit(ctx, r)
		if err != nil {
			return err
		}
		at = replaceQuery(at, "code", "") + "&error=access_denied&error_description=" + url.QueryEscape("not\x1b[31m you")
		if status, _, page := k.browser("GET", at, ""); status != 200 || !strings.Contains(page, "did not succeed") || strings.Contains(page, "31m") {
			t.Errorf("the answer: got %d %q", status, page)
		}
		return nil
	})
	err := k.call(k.credential(), "t")
	if oauth.CodeOf(err) != oauth.CodeAccessDenied || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("got %v, want access_denied", err)
	}
}

// A person can paste the address where the browser ended. One that is not the answer is
// refused, and the login goes on; what is pasted after its end is refused at once.
func TestPastedAddress(t *testing.T) {
	bubble(t, func(t *testing.T, k *kit) {
		k.is(func(ctx context.Context, r *auth.Request) error {
			at, err := k.visit(ctx, r)
			if err != nil {
				return err
			}
			for _, foreign := range []string{"", "hello", "https://evil.example/?code=x&state=y", redirectURI + "?code=x", replaceQuery(at, "state", "x"), strings.Repeat("x", 1<<20)} {
				if err := r.Redirected(ctx, foreign); !errors.Is(err, auth.ErrForeign) {
					t.Errorf("%.50q: got %v, want %v", foreign, err, auth.ErrForeign)
				}
			}
			return r.Redirected(ctx, "  "+at+"\n")
		})
		k.good(k.call(k.credential(), "t"))
		k.counts("at the end", map[string]int{"authorize": 1, "authorization_code": 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := k.requests()[0].Redirected(ctx, "late"); !errors.Is(err, auth.ErrForeign) || ctx.Err() != nil {
			t.Errorf("after the login: got %v, want %v at once", err, auth.ErrForeign)
		}
	})
}

// The port is closed when the login ends, whatever its end: the next login may have it.
func TestPortIsClosed(t *testing.T) {
	k := loopback(t)
	var hosts []string
	k.is(func(ctx context.Context, r *auth.Request) error {
		u, _ := url.Parse(r.URL)
		back, _ := url.Parse(u.Query().Get("redirect_uri"))
		if hosts = append(hosts, back.Host); len(hosts) == 1 {
			return errDeclined
		}
		return k.browse(ctx, r, 200)
	})
	closed := func(host string) {
		t.Helper()
		if conn, err := net.Dial("tcp", host); err == nil {
			conn.Close()
			t.Errorf("%s is still open", host)
		}
	}
	c := k.credential()
	if err := k.call(c, "t"); !errors.Is(err, errDeclined) {
		t.Errorf("got %v, want %v", err, errDeclined)
	}
	closed(hosts[0])
	k.good(k.call(c, "t"))
	closed(hosts[1])
}

// A client that has registered uses its registration again, with the port that it was made
// for; where the server has forgotten the client, it registers anew (AUTH-33, AUTH-34).
func TestRegistrationIsUsedAgain(t *testing.T) {
	k := loopback(t)
	k.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	login := func(when string, registered int) {
		t.Helper()
		if _, err := k.auth.Logout(t.Context(), k.server()); err != nil {
			t.Fatal(err)
		}
		p := k.another(func(o *auth.Options) { o.RedirectURI = "" })
		p.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
		k.set(func() { clear(k.access) })
		k.good(p.call(p.credential(), "t"))
		if n := k.count("register"); n != registered {
			t.Errorf("%s: registered %d times, want %d", when, n, registered)
		}
	}
	login("first", 1)
	login("again", 1)
	k.set(func() { k.secret = "of another client" }) // the server does not know this one any more
	p := k.another(func(o *auth.Options) { o.RedirectURI = "" })
	p.is(func(ctx context.Context, r *auth.Request) error { return k.browse(ctx, r, 200) })
	k.set(func() { clear(k.access); clear(k.refresh) })
	if err := p.call(p.credential(), "t"); err == nil || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("a client that the server has forgotten: got %v, want invalid_client", err)
	}
	k.set(func() { k.secret = "" })
	login("forgotten by the server", 2)
	login("again", 2)
}
