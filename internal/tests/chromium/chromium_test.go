package chromium_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
)

// A browser shows a page of the test, runs its script, and has tabs that share its cookies.
func TestStart(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		_, err := r.Cookie("seen")
		fmt.Fprintf(w, `<!doctype html><title>A page</title><button onclick="this.textContent='pressed'">%v</button>`, err == nil)
	}))
	defer web.Close()
	browser := chromium.Start(t)
	// see does the steps in a tab and checks what the button says then.
	see := func(tab context.Context, want string, steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(tab, 30*time.Second)
		defer cancel()
		if err := chromedp.Do(ctx, steps...); err != nil {
			t.Fatal(err)
		}
		if text, err := chromedp.Run(ctx, chromedp.Text("button")); err != nil || text != want {
			t.Fatalf("the button says %q, %v, want %q", text, err, want)
		}
	}
	see(browser, "false", chromedp.Navigate(web.URL))
	see(browser, "pressed", chromedp.Click("button"))
	see(chromium.Tab(t, browser), "true", chromedp.Navigate(web.URL))
}
