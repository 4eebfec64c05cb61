package main

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// freePort finds a port on which a server of a script can listen.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: port NAME")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(errors.Join(err, l.Close()))
	ts.Setenv(args[0], port)
}

// waitForPort waits until a server listens.
func waitForPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listening PORT")
	}
	for end := time.Now().Add(untilTime); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", args[0]))
		if err == nil {
			ts.Check(conn.Close())
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("no server listens: %v", err)
		}
	}
}

// signIn is a browser whose person logs in as $SIGNIN, "user:password", and allows what is asked
// for, or refuses if that begins with "!".
func signIn() {
	if err := visitAndAgree(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	formToken  = regexp.MustCompile(`name="token" value="([^"]+)"`)
	formAction = regexp.MustCompile(`action="([^"]+)"`)
)

func visitAndAgree(at string) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	c := &http.Client{Jar: jar}
	user, password, _ := strings.Cut(strings.TrimPrefix(os.Getenv("SIGNIN"), "!"), ":")
	choice := "allow"
	if strings.HasPrefix(os.Getenv("SIGNIN"), "!") {
		choice = "refuse"
	}
	resp, err := c.Get(at)
	for range 5 {
		if err != nil {
			return err
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		token, action := formToken.FindSubmatch(raw), formAction.FindSubmatch(raw)
		if err != nil || token == nil || action == nil || resp.StatusCode >= 400 {
			fmt.Printf("%d %s\n", resp.StatusCode, raw)
			return err
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(string(action[1])))
		if err != nil {
			return err
		}
		resp, err = c.PostForm(to.String(), url.Values{"token": {html.UnescapeString(string(token[1]))}, "user": {user}, "password": {password}, "do": {choice}})
		if err != nil {
			return err
		}
	}
	return errors.New("the pages have no end")
}
