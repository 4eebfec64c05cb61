package main

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// A job of a worker waits; the link that "troupe console" prints opens the pages of another process,
// where the answer is given, and the job goes on.
func TestConsoleAnswersAWorkersJob(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Say("Written.")))
	w := h.start("worker", "--events", "all", "--mcp", "effects=effects "+h.path("lines.txt"), "--log-level", "error")
	h.must("jobs", "add", "Write it down.")
	w.job("job.waiting")
	c := h.start("console")
	if !c.lines.Scan() {
		t.Fatalf("the console prints no link:\n%s", c.stderr.String())
	}
	link, err := url.Parse(c.lines.Text())
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	site := "http://" + link.Host
	read := func(res *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(page)
	}
	find := func(page, pattern string) string {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(page)
		if found == nil {
			t.Fatalf("the page has no %s:\n%s", pattern, page)
		}
		return html.UnescapeString(found[1])
	}
	inbox := read(browser.PostForm(site+"/login", link.Query()))
	ask := site + find(inbox, `href="(/inbox/[^"]+)"`)
	page := read(browser.Get(ask))
	answered := read(browser.PostForm(ask, url.Values{"hash": {find(page, `name="hash" value="([^"]*)"`)}, "do": {"accept"}}))
	if !strings.Contains(answered, "It was accepted by console:") {
		t.Errorf("after the answer:\n%s", answered)
	}
	if j := w.job("job.ended"); j.State != store.JobDone {
		t.Errorf("the job: got %s: %s", j.State, j.Error)
	}
	run := read(browser.Get(site + find(page, `href="(/runs/[^"]+)"`)))
	if !strings.Contains(run, "Written.") {
		t.Errorf("the page of the run:\n%s", run)
	}
	_ = c.Process.Signal(os.Interrupt)
	if code := c.end(); code != 0 {
		t.Errorf("the console: got %d, want 0\n%s", code, c.stderr.String())
	}
	_ = w.Process.Signal(syscall.SIGTERM)
	w.end()
}
