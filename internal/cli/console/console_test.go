package console

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/userfile"
	"github.com/troupe-dev/troupe/store/memstore"
)

// certify makes a certificate for a name, and files of it and its key.
func certify(t *testing.T, name string) (cert, key string, trusted *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, of, of, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	trusted = x509.NewCertPool()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if file == cert {
			trusted.AppendCertsFromPEM(text)
		}
	}
	return cert, key, trusted
}

// TestHTTPS: troupe console serves https with a certificate of its own to the users of a file, by its name only; the
// session's cookie is of this very host.
func TestHTTPS(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, home)
	}
	t.Chdir(home)
	users := filepath.Join(home, "users.txt")
	if err := userfile.Set(users, "ann", "a long password", "answer"); err != nil {
		t.Fatal(err)
	}
	cert, key, trusted := certify(t, "console.example")
	out, in := io.Pipe()
	e := &env.Env{Stdout: in, Stderr: t.Output(), Errors: t.Output(), NoStore: true, LogLevel: "info", LogFormat: "text"}
	cmd := Command(e)
	cmd.SetArgs([]string{"--http", "127.0.0.1:0", "--host", "console.example", "--tls-cert", cert, "--tls-key", key, "--users", users})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		in.CloseWithError(err)
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(strings.TrimSpace(line))
	if err != nil || link.Scheme != "https" || link.Hostname() != "console.example" || link.Path != "/login" || link.RawQuery != "" {
		t.Fatalf("it prints %q, %v", line, err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+link.Port())
	}}
	defer transport.CloseIdleConnections()
	browser := &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, at, host string, form url.Values) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("X-Forwarded-For", "192.0.2.1") // which counts from a proxy only
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(page)
	}
	runs := link.ResolveReference(&url.URL{Path: "/runs"}).String()
	if res, _ := send(http.MethodGet, runs, "", nil); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/login?back=%2Fruns" {
		t.Errorf("a stranger: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	if res, _ := send(http.MethodGet, runs, "evil.example:"+link.Port(), nil); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", res.StatusCode)
	}
	health := link.ResolveReference(&url.URL{Path: "/healthz"}).String()
	if res, page := send(http.MethodGet, health, "10.0.0.9", nil); res.StatusCode != http.StatusOK || strings.TrimSpace(page) != `{"status":"ok"}` || len(res.Cookies()) != 0 {
		t.Errorf("a look at its health, by an address and without a login: %d %s", res.StatusCode, page)
	}
	if res, _ := send(http.MethodPost, health, "10.0.0.9", nil); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a POST there: %d", res.StatusCode)
	}
	if res, page := send(http.MethodGet, "http://"+link.Host+"/login", "", nil); res.StatusCode != http.StatusBadRequest || len(res.Cookies()) != 0 {
		t.Errorf("without https: %d %s", res.StatusCode, page)
	}
	if res, page := send(http.MethodGet, link.String(), "", nil); res.StatusCode != http.StatusOK || !strings.Contains(page, `type="password"`) {
		t.Errorf("the login: %d %s", res.StatusCode, page)
	}
	if res, _ := send(http.MethodPost, link.String(), "", url.Values{"user": {"ann"}, "password": {"another password"}}); res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
		t.Errorf("a wrong password: %d", res.StatusCode)
	}
	res, page := send(http.MethodPost, link.String(), "", url.Values{"user": {"ann"}, "password": {"a long password"}, "back": {"/runs"}})
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/runs" || len(res.Cookies()) != 1 {
		t.Fatalf("the password: %d %v %s", res.StatusCode, res.Header, page)
	}
	if c := res.Cookies()[0]; !strings.HasPrefix(c.Name, "__Host-") || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" || c.SameSite != http.SameSiteLaxMode {
		t.Errorf("the cookie: %+v", c)
	}
	if res, page := send(http.MethodGet, runs, "", nil); res.StatusCode != http.StatusOK || !strings.Contains(page, "<h1>Runs") {
		t.Errorf("after the login: %d %s", res.StatusCode, page)
	}
	if res, _ := send(http.MethodPost, link.ResolveReference(&url.URL{Path: "/jobs"}).String(), "", url.Values{"prompt": {"x"}}); res.StatusCode != http.StatusForbidden {
		t.Errorf("an answerer adds a job: %d", res.StatusCode)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}

// TestProxyFlags: behind a proxy a console with a provider is reached by https and its name alone, whatever it listens on.
func TestProxyFlags(t *testing.T) {
	t.Setenv(secretVariable, "a secret")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		args string
		base string // empty where it is refused
		host string
	}{
		{"--behind-proxy --host console.example --auth-issuer https://login.example --auth-client c --auth-role admins=operate", "https://console.example", "console.example"},
		{"--behind-proxy --host console.example:8443 --auth-issuer https://login.example --auth-client c --auth-role a=b=look", "https://console.example:8443", "console.example:8443"},
		{"--auth-issuer https://login.example --auth-client c --auth-role admins=operate", "http://" + l.Addr().String(), ""},
		{"--behind-proxy --host console.example --auth-issuer https://login.example --auth-client c --auth-role operate", "", ""},
		{"--behind-proxy --host console.example --auth-issuer https://login.example --auth-client c --auth-role =operate", "", ""},
		{"--behind-proxy --host console.example --auth-issuer https://login.example --auth-client c --auth-role admins=", "", ""},
		{"--behind-proxy --auth-issuer https://login.example --auth-client c --auth-role admins=operate", "", ""},
		{"--behind-proxy --host https://console.example --auth-issuer https://login.example --auth-client c --auth-role admins=operate", "", ""},
		{"--behind-proxy --host console.example", "", ""},
		{"--auth-client c", "", ""},
	} {
		var f consoleFlags
		cmd := Command(new(env.Env))
		cmd.ResetFlags()
		f.add(cmd)
		if err := cmd.ParseFlags(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		var o console.Options
		base, err := "", f.settle()
		if err == nil {
			base, err = f.options(&o, l)
		}
		if (err != nil) != (tt.base == "") || err != nil && env.ExitCode(err) != env.ExitUsage || base != tt.base {
			t.Errorf("%s: got %q, %v, want %q", tt.args, base, err, tt.base)
			continue
		}
		if err == nil && (o.Login == nil || o.HTTPS != f.proxy || strings.Join(o.Hosts, " ") != tt.host) {
			t.Errorf("%s: got %+v", tt.args, o)
			continue
		}
		if o.Store = memstore.New(nil); err == nil {
			if _, err := console.New(&o); err != nil {
				t.Errorf("%s: %v", tt.args, err)
			}
		}
	}
}
