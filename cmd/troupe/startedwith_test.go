package main

import (
	"database/sql"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/llm/llmtest"
)

// A run of an agent of a configuration file is killed while a person is asked. The console, which was started with
// another configuration, takes the answer, and goes on with the run and forks it as it was started: with its agent, its servers
// and in its folder.
func TestConsoleResumesAsStarted(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Say("Written."), llmtest.Say("Forked.")))
	work := h.path("work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	file := h.write("own.yaml", []byte("version: 1\nagents:\n  asker: { approve: all, instructions: Ask first. }\n"))
	other := h.write("other.yaml", []byte("version: 1\n"))
	cmd := h.command("--config", file, "run", "-a", "asker", "--mcp", "effects lines.txt", "--output-format", "stream-json", "--run-id", "r", "Write it down.")
	cmd.Dir = work
	r := h.follow(cmd)
	r.until("the question", func(ev *streamed) bool { return ev.Type == "ask" })
	_ = r.Process.Kill()
	r.end()
	h.noProcessLeft(10 * time.Second)
	h.expire("r")

	c := h.start("console", "--config", other)
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
	browser, site := &http.Client{Jar: jar}, "http://"+link.Host
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
	read(browser.PostForm(ask, url.Values{"hash": {find(page, `name="hash" value="([^"]*)"`)}, "do": {"accept"}}))
	ended := func(run string) {
		t.Helper()
		for end := time.Now().Add(longest); !strings.Contains(h.must("runs", "show", run), "run "+run+": finished"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the run has not ended:\n%s", h.must("runs", "show", run))
			}
		}
	}
	if page = read(browser.PostForm(site+"/runs/r/resume", nil)); strings.Contains(page, "The command failed") {
		t.Fatalf("the run was not resumed:\n%s", page)
	}
	ended("r")
	if got, err := os.ReadFile(h.path("work/lines.txt")); err != nil || strings.Count(string(got), "one") != 1 {
		t.Errorf("got the effects %q, %v, want one", got, err)
	}
	page = read(browser.PostForm(site+"/runs/r/fork", url.Values{"at": {find(read(browser.Get(site+"/runs/r/fork")), `name="at" value="([0-9]+)"`)}, "say": {"And now?"}}))
	ended(find(page, `href="/runs/([0-9a-f-]{36})`))
	if shown := h.must("runs", "show", "last", "--json"); !strings.Contains(shown, `"agent": "asker"`) || !strings.Contains(shown, "Forked.") {
		t.Errorf("the fork: got\n%s", shown)
	}
	_ = c.Process.Signal(os.Interrupt)
	c.end()
}

// expire ends the lease of a run, as if its minute had passed.
func (h *home) expire(run string) {
	h.t.Helper()
	db, err := sql.Open(sql.Drivers()[0], h.path("state/troupe/troupe.db")) // the driver that the store links
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE runs SET expires = 1 WHERE id = ? AND owner <> ''", run); err != nil {
		h.t.Fatal(err)
	}
}
