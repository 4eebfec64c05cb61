// Package connect has tests of the pages of mcpserver/connect in a real browser, and with clients
// of others.
package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
)

const notYours = "This page is not yours, or it has expired."

// SECA-28: a person connects an account in a real browser: the page, its form, the
// service, and back.
func TestConnect(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, alice := w.call(w.server("alice")), w.person("alice")
	alice.do(chromedp.Navigate(c.page))
	alice.want("my_repos")
	c.waits()
	alice.leave(c.page)
	alice.do(chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	alice.want("Your Hub account octocat is connected.")
	if got := c.says(); got != repos {
		t.Errorf("the tool says %q", got)
	}
	if want := `the Hub account "octocat" was connected with Repos on `; !strings.HasPrefix(c.note, want) {
		t.Errorf("the owner is told %q, want %q", c.note, want)
	}
	alice.do(chromedp.Click(chromedp.CSS("a")))
	alice.want("octocat")
	alice.do(chromedp.Click(chromedp.CSS("button")))
	alice.want("is disconnected")
}

// SECA-28: Alice's link opened by Bob, Alice's address at the service opened by Bob, and a form
// of another site in Alice's own browser: nothing is connected.
func TestSwaps(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, alice, bob := w.call(w.server("alice")), w.person("alice"), w.person("bob")
	bob.do(chromedp.Navigate(c.page))
	bob.want(notYours)

	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `<!doctype html><form method="post" action=%q><button name="do" value="connect">Win</button></form>`, c.page)
	}))
	defer evil.Close()
	alice.do(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(chromedp.CSS("button")))
	alice.want(notYours)

	service := alice.leave(c.page)
	bob.do(chromedp.Navigate(service), chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	bob.want(notYours)
	c.waits()
	alice.do(chromedp.Click(chromedp.CSS(`button[value="deny"]`)))
	alice.want("is not connected: Hub gave no access (access_denied)")
	if got := c.says(); !strings.Contains(got, "the user has declined: Hub gave no access (access_denied)") {
		t.Errorf("the tool says %q", got)
	}
}

// SECA-28: a page of another site can neither frame a page of ours, nor keep a hold of the window
// in which it opens one.
func TestForeignWindows(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, alice := w.call(w.server("alice")), w.person("alice")
	evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `<!doctype html><iframe src=%q></iframe><button onclick='other = window.open(%[1]q)'>Open</button>`, c.page)
	}))
	defer evil.Close()
	alice.do(chromedp.Navigate(strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)), chromedp.Click(chromedp.CSS("button")))
	ctx, cancel := context.WithTimeout(alice.tab, patience)
	defer cancel()
	if _, err := chromium.Wait(ctx, `window.other && other.closed ? "yes" : ""`); err != nil { // that is how a window without a hold looks
		t.Errorf("the page that opened ours has a hold of it: %v", err)
	}
	if n := get(alice, chromedp.Evaluate[int](`window.length`)); n != 1 {
		t.Errorf("%d frames, want one", n)
	}
	if text := get(alice, chromedp.Evaluate[string](`(() => { try { return frames[0].document.body.innerText } catch (e) { return "refused" } })()`)); text != "refused" {
		t.Errorf("the frame shows %q", text)
	}
	c.waits()
}

// URL-17: a person who refuses on the page, who leaves it, and who leaves the service: the tool
// learns of a refusal, and a page that was left is good until it expires, for later calls as well.
func TestAbandoned(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	first, alice := w.call(w.server("alice")), w.person("alice")
	alice.do(chromedp.Navigate(first.page), chromedp.Click(chromedp.CSS(`button[value="refuse"]`)))
	alice.want("Your Hub account is not connected: the user has refused on the page.")
	if got := first.says(); !strings.Contains(got, "the user has declined: the user has refused on the page") {
		t.Errorf("the tool says %q", got)
	}
	second := w.call(w.server("alice"))
	if second.page == first.page {
		t.Errorf("the page that was refused is asked for again")
	}
	alice.do(chromedp.Navigate(second.page))
	alice.want("Connect your Hub account?")
	alice.do(chromedp.Navigate("about:blank"))
	second.leave() // the client, too
	second.says()
	third := w.call(w.server("alice"))
	if third.page != second.page {
		t.Errorf("the page that was left is %s, and the next one %s", second.page, third.page)
	}
	alice.leave(third.page)
	alice.do(chromedp.NavigateBack())
	alice.want("Connect your Hub account?")
	third.waits()
	alice.connect(third.page)
	if got := third.says(); got != repos {
		t.Errorf("the tool says %q", got)
	}
}

// Two tabs of one browser, each at the service: the first that ends counts, and the other one says
// what is so.
func TestTwoTabs(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, one := w.call(w.server("alice")), w.person("alice")
	two := one.another()
	one.leave(c.page)
	two.leave(c.page)
	two.agree()
	if got := c.says(); got != repos {
		t.Errorf("the tool says %q", got)
	}
	one.agree()
	one.do(chromedp.Navigate(w.at+"/connect"), chromedp.Click(chromedp.CSS("button")))
	one.want("is disconnected")
	two.do(chromedp.Navigate(w.at + "/connect"))
	two.want("None.")
}

// A page that has expired shows nothing, nor does its form or the answer of the service that comes
// after that.
func TestExpired(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, alice := w.call(w.server("alice")), w.person("alice")
	form, gone := alice.another(), alice.another()
	alice.leave(c.page)
	form.do(chromedp.Navigate(c.page))
	form.want("Connect your Hub account?")
	w.later.Store(int64(16 * time.Minute))
	alice.do(chromedp.Click(chromedp.CSS(`button[value="agree"]`)))
	alice.want(notYours)
	form.do(chromedp.Click(chromedp.CSS(`button[value="connect"]`)))
	form.want(notYours)
	gone.do(chromedp.Navigate(c.page))
	gone.want(notYours)
	gone.do(chromedp.Navigate(w.at + "/connect"))
	gone.want("None.")
}

// URL-30: the page is served by another instance than the one whose tool waits, which goes on
// within seconds.
func TestSecondInstance(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t)
	c, alice := w.call(w.server("alice")), w.person("alice")
	w.start()
	alice.connect(c.page)
	if got := c.says(); got != repos {
		t.Errorf("the tool says %q", got)
	}
}
