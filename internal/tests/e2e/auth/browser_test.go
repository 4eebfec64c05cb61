package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/mcpclient/auth"
)

// step bounds what is waited for in a browser.
const step = 30 * time.Second

// atCallback is the text of our own page, once it is shown.
const atCallback = `location.pathname == "/callback" && document.readyState == "complete" ? document.body.innerText : ""`

// logIn opens the address of a request in a tab, logs in at the pages of the authorization server
// and agrees. It returns the text of the page on which the person decides, and of the last one.
func logIn(tab context.Context, r *auth.Request) (consent, last string, err error) {
	ctx, cancel := context.WithTimeout(tab, step)
	defer cancel()
	const button = `button.login-submit`
	if err := chromedp.Do(ctx, chromedp.Navigate(r.URL), chromedp.SendKeys(`input[name=login]`, "ada"),
		chromedp.SendKeys(`input[name=password]`, "of the tests"), chromedp.Click(button), chromedp.WaitReady(`input[value=consent]`)); err != nil {
		return "", "", fmt.Errorf("logging in: %w", err)
	}
	if consent, err = chromedp.Run(ctx, chromedp.Text("body")); err != nil {
		return "", "", fmt.Errorf("the page that asks: %w", err)
	}
	if err := chromedp.Do(ctx, chromedp.Click(button)); err != nil {
		return "", "", fmt.Errorf("agreeing: %w", err)
	}
	last, err = chromium.Wait(ctx, atCallback)
	return consent, last, err
}

// A person logs in with a real browser, at the authorization server's own pages.
func TestBrowser(t *testing.T) {
	browser := chromium.Start(t)
	t.Run("login", func(t *testing.T) { loginInBrowser(t, browser) })
	t.Run("foreign page", func(t *testing.T) { foreignPage(t, browser) })
}

// loginInBrowser has the pages say what is asked for; the last one is that of our program, whose
// call goes on (AUTH-06, AUTH-08).
func loginInBrowser(t *testing.T, browser context.Context) {
	as := peers.ListenOIDC(t, "")
	w := newWorld(t, as, listenSDK(t, as, false, false))
	p := w.start()
	var consent, last string
	p.visits(func(_ context.Context, r *auth.Request) (err error) {
		consent, last, err = logIn(browser, r)
		return err
	})
	p.good("read")
	p.asks("after a call", 1)
	for _, want := range []string{w.server.endpoint(), "tools:read", "offline access"} {
		if !strings.Contains(consent, want) {
			t.Errorf("the page that asks lacks %q:\n%s", want, consent)
		}
	}
	if !strings.Contains(last, "The program has your answer") {
		t.Errorf("the last page says %q", last)
	}
}

// foreignPage is one of another origin that knows the port on which our program waits, and sends it
// whatever a browser lets it send. It changes nothing: it gets no answer that it could use, and the
// login succeeds (AUTH-06, SECA-18).
func foreignPage(t *testing.T, browser context.Context) {
	foreign := chromium.Tab(t, browser)
	as := peers.ListenOIDC(t, "")
	w := newWorld(t, as, listenSDK(t, as, false, false))
	p := w.start()
	p.visits(func(_ context.Context, r *auth.Request) error {
		u, err := url.Parse(r.URL)
		if err != nil {
			return err
		}
		back := u.Query().Get("redirect_uri")
		if err := attack(t, foreign, back); err != nil {
			return fmt.Errorf("the foreign page: %w", err)
		}
		_, last, err := logIn(browser, r)
		if err == nil && !strings.Contains(last, "The program has your answer") {
			t.Errorf("the last page says %q", last)
		}
		return err
	})
	p.good("read")
	p.asks("at the end", 1)
}

// attack has a page of another origin send answers of its own to a callback.
func attack(t *testing.T, tab context.Context, back string) error {
	var page string
	web := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html")
		fmt.Fprint(out, page)
	}))
	defer web.Close()
	at := strings.Replace(web.URL, "127.0.0.1", "localhost", 1)
	wrong := back + "?code=foreign&state=foreign"
	denied := back + "?error=access_denied&error_description=%3Cscript%3Edocument.title%3D1%3C%2Fscript%3E&state=foreign"
	ctx, cancel := context.WithTimeout(tab, step)
	defer cancel()
	page = fmt.Sprintf(`<!doctype html><form method="post" action=%q><input name="code" value="foreign"><button>send</button></form>
		<script>
		const tell = async (name, request) => { try { const r = await request; window[name] = r.type + " " + r.status } catch (e) { window[name] = "refused" } };
		const all = Promise.all([tell("opaque", fetch(%[2]q, {mode: "no-cors"})), tell("denied", fetch(%[3]q, {mode: "no-cors"})), tell("read", fetch(%[2]q)),
			tell("posted", fetch(%[1]q, {method: "POST", mode: "no-cors", body: "code=foreign"}))]);
		all.then(() => { window.done = [opaque, denied, read, posted].join(", ") });
		</script>`, back, wrong, denied)
	if err := chromedp.Do(ctx, chromedp.Navigate(at)); err != nil {
		return err
	}
	got, err := chromium.Wait(ctx, `window.done ?? ""`)
	if err != nil {
		return err
	}
	if want := "opaque 0, opaque 0, refused, opaque 0"; got != want { // it may send, and read nothing
		t.Errorf("the requests of a foreign page: got %s, want %s", got, want)
	}
	if err := chromedp.Do(ctx, chromedp.Click("button")); err != nil {
		return err
	}
	if text, err := chromium.Wait(ctx, atCallback); err != nil || !strings.Contains(text, "not found") {
		t.Errorf("a form that is posted: got %q, %v", text, err)
	}
	for _, address := range []string{wrong, denied} {
		resp, err := chromedp.Run(ctx, chromedp.NavigateResponse(address))
		if err != nil {
			return err
		}
		text, err := chromedp.Run(ctx, chromedp.Text("body"))
		if err != nil {
			return err
		}
		title, err := chromedp.Run(ctx, chromedp.Title())
		if err != nil {
			return err
		}
		if resp.Status != http.StatusBadRequest || !strings.Contains(text, "This is not the answer") || strings.Contains(text, "foreign") || title != "Troupe" {
			t.Errorf("%s: got status %d, title %q and page %q", address, resp.Status, title, text)
		}
	}
	return nil
}
