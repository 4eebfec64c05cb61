package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/mcpserver/authserver"
	"github.com/troupe-dev/troupe/store/memstore"
)

// authScenarios are those of the suite's command "authorization", which the suite has in no list of
// a revision. The second needs what the first has found.
var authScenarios = []string{"authorization-server-metadata-endpoint", "authorization-code-grant"}

// testAuthorization runs the suite's command for authorization servers against ours, at which a
// person logs in and consents by hand.
func testAuthorization(ctx context.Context, s *suite, o options) (t total, err error) {
	plan := make([]scenario, 0, len(authScenarios))
	for _, name := range authScenarios {
		plan = append(plan, scenario{Revision: revisions[len(revisions)-1], Name: name, Required: true})
	}
	if !slices.ContainsFunc(plan, func(sc scenario) bool { return o.only.MatchString(sc.String()) }) {
		return t, nil
	}
	begun := time.Now()
	issuer, end, err := startAuthServer(ctx, filepath.Join(o.work, "users"))
	if err != nil {
		return t, err
	}
	defer end()
	dir := filepath.Join(o.work, "authorization")
	log, broken := s.authorize(ctx, issuer, dir)
	for _, sc := range plan {
		v := &verdict{Scenario: sc, Log: log, Broken: broken, Took: time.Since(begun) / 2}
		if folders, _ := filepath.Glob(filepath.Join(dir, "*"+sc.Name+"*")); len(folders) == 1 {
			v.read(folders[0])
		} else if broken == "" {
			v.Broken = fmt.Sprintf("the suite left %d results", len(folders))
		}
		t.add(v, o, "")
	}
	fmt.Fprint(o.out, t.lines("authorization", time.Since(begun)))
	return t, nil
}

// The person of the test.
const userName, userPassword = "alice", "a password of the suite"

// startAuthServer starts an authorization server on this machine, with one user.
func startAuthServer(ctx context.Context, users string) (issuer string, end func(), err error) {
	if err := authserver.SetUser(users, userName, userPassword); err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	as, err := authserver.New(ctx, authserver.Options{
		Issuer: web.URL, Resources: []string{web.URL + "/mcp"}, Scopes: []string{"mcp"}, Login: authserver.Users(users), Store: memstore.New(nil), Keys: [][]byte{key},
		Clients: []authserver.Client{{ID: "suite", RedirectURIs: []string{"http://127.0.0.1/callback"}}},
	})
	if err != nil {
		web.Close()
		return "", nil, err
	}
	as.Mount(mux)
	return web.URL, web.Close, nil
}

// authorizeTime bounds the suite's command.
const authorizeTime = time.Minute

// authorizeAddress is how the suite asks for a visit.
var authorizeAddress = regexp.MustCompile(`^http://\S+/authorize\?\S+$`)

// authorize runs the suite's command, visits the address that it prints, and returns what it prints.
func (s *suite) authorize(ctx context.Context, issuer, dir string) (log, broken string) {
	ctx, cancel := context.WithTimeout(ctx, authorizeTime)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err.Error()
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return "", err.Error()
	}
	args := []string{"authorization", "--url", issuer, "--client-id", "suite", "--resource", issuer + "/mcp", "--port", port, "-o", dir}
	cmd := exec.CommandContext(ctx, s.node[0], append(slices.Clone(s.node[1:]), args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err.Error()
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", err.Error()
	}
	var all bytes.Buffer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if authorizeAddress.MatchString(lines.Text()) {
			if err := visit(ctx, lines.Text()); err != nil {
				broken = fmt.Sprintf("visiting the pages: %v", err)
				cancel()
			}
		}
	}
	err = cmd.Wait()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended || ctx.Err() != nil {
		broken = strings.TrimPrefix(broken+"; the suite did not end well", "; ")
	}
	return all.String(), broken
}

var (
	formToken  = regexp.MustCompile(`name="token" value="([^"]+)"`)
	formAction = regexp.MustCompile(`action="([^"]+)"`)
)

// visit is a browser whose person logs in, and agrees.
func visit(ctx context.Context, at string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	c := &http.Client{Jar: jar}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	for range 4 {
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %w", resp.Request.URL.Path, resp.Status, errors.Join(err, errors.New(string(raw))))
		}
		token, action := formToken.FindSubmatch(raw), formAction.FindSubmatch(raw)
		if token == nil || action == nil { // it is the suite's
			return nil
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		if err != nil {
			return err
		}
		form := url.Values{"token": {html.UnescapeString(string(token[1]))}, "user": {userName}, "password": {userPassword}, "do": {"allow"}}
		if req, err = http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode())); err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	}
	return errors.New("the pages have no end")
}
