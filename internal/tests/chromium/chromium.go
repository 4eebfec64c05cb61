// Package chromium starts Chromium without a window, for tests of the pages that people see.
package chromium

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// ErrMissing says that Chromium is not here and how to get it.
var ErrMissing = errors.New("chromium is missing: install it (Debian: apt-get install chromium)")

// Path returns the program.
func Path() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Require is [Path] for tests: without Chromium the test is skipped, or fails where
// REQUIRE_PEERS is set, as it is in CI.
func Require(t testing.TB) string {
	t.Helper()
	path, err := Path()
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PEERS") == "":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	return path
}

// Bounds of one browser.
const (
	startTime = 30 * time.Second
	useTime   = 2 * time.Minute
)

// flags are for a machine without a window, a sandbox or a way to the internet. Chromium
// contacts what a page names, and nothing of its own accord.
var flags = []string{
	"headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "disable-quic", "no-first-run", "no-default-browser-check",
	"disable-background-networking", "disable-component-update", "disable-sync", "disable-extensions", "disable-breakpad",
}

// Start starts a browser with a profile of its own and returns the context of its first tab, for
// [chromedp.Do]. The browser ends with the test.
func Start(t testing.TB) context.Context {
	t.Helper()
	log := new(bytes.Buffer)
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(Require(t)), chromedp.WSURLReadTimeout(startTime), chromedp.CombinedOutput(log),
		chromedp.Env("HOME=" + t.TempDir()), chromedp.WindowSize(1000, 800),
	}
	for _, flag := range flags {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	bounded, expire := context.WithTimeout(context.WithoutCancel(t.Context()), useTime)
	allocator, release := chromedp.NewExecAllocator(bounded, opts...)
	tab, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(t.Logf))
	started := false
	t.Cleanup(func() {
		err := chromedp.Cancel(tab) // waits for the end of the program
		release()
		expire()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("ending chromium: %v", err)
		}
		if !started { // else it has much to say of what it does not need
			t.Logf("chromium wrote:\n%s", log)
		}
	})
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	started = true
	return tab
}

// Tab opens another tab of the browser, which ends with it.
func Tab(t testing.TB, browser context.Context) context.Context {
	t.Helper()
	tab, leave := chromedp.NewContext(browser)
	t.Cleanup(leave)
	if err := chromedp.Do(tab); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	return tab
}

// Wait evaluates an expression in a tab until it is a text that is not empty, also while the tab
// goes from page to page.
func Wait(tab context.Context, expression string) (string, error) {
	for {
		text, err := chromedp.Run(tab, chromedp.Evaluate[string](expression))
		if err == nil && text != "" {
			return text, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-tab.Done():
			return "", errors.Join(fmt.Errorf("waiting for %s: %w", expression, context.Cause(tab)), err)
		}
	}
}
