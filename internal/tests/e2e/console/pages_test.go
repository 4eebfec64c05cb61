package console

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// Widths of a desk and of a phone, in pixels.
const (
	deskWidth  = 1000
	phoneWidth = 390
)

// looks has the page shown to a person who likes it light or dark, on a screen of a width.
func (p *person) looks(scheme string, width int64) {
	p.w.Helper()
	p.do(chromedp.EmulateViewport(width, 800), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// axe has axe-core look at the page. No finding may be serious or critical.
func (p *person) axe(page, script string) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, time.Minute)
	defer cancel()
	found, err := chromedp.Run(ctx, chromedp.Evaluate[string](script+`;
axe.run(document, {resultTypes: ["violations"]}).then((r) => r.passes.length < 5 ? "axe-core has seen nothing" : JSON.stringify(r.violations.map((v) => ({
	id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary),
}))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.w.Fatalf("axe-core on %s: %v", page, err)
	}
	var all []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	if err := json.Unmarshal([]byte(found), &all); err != nil {
		p.w.Fatalf("%s: %v: %s", page, err, found)
	}
	for _, f := range all {
		if f.Impact == "serious" || f.Impact == "critical" {
			p.w.Errorf("%s: %s (%s): %s\n%s", page, f.ID, f.Impact, f.Help, strings.Join(f.Nodes, "\n"))
		} else {
			p.w.Logf("%s: %s (%s): %s", page, f.ID, f.Impact, f.Help)
		}
	}
}

// TestPages: each page of the console can be used by a person who does not see it, or has a phone: axe-core finds
// nothing serious, light and dark, and no page is wider than a phone. Pictures of all are kept where CONSOLE_SHOTS says so.
func TestPages(t *testing.T) {
	chromium.Require(t)
	script := peers.RequireAxe(t)
	w := newWorld(t,
		llmtest.Call("transfer", `{"to":"Ada","euros":20}`), llmtest.Say("The money is sent."),
		llmtest.Call("transfer", `{"to":"Bob","euros":7}`),
		llmtest.Call("desk__book", `{}`))
	ada := w.person()
	ada.looks("light", deskWidth)
	first, err := w.rt.Start(t.Context(), "Send Ada 20 euros.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.want("1 question waits for you.")
	ada.do(chromedp.Click(chromedp.CSS(".asks a")))
	ada.want("May this tool be called?")
	ada.do(chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	ada.want("It was accepted")
	if _, err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.rt.Start(t.Context(), "Send Bob 7 euros.", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.rt.Host().Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.AddJob(t.Context(), store.Job{ID: "job-1", Agent: "main", Prompt: "Count the files of the folder."}); err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Navigate(w.at))
	ada.want("1 question waits for you.")
	link := func(page, selector string) string {
		t.Helper()
		ada.do(chromedp.Navigate(w.at + page))
		href, err := chromedp.Run(ada.tab, chromedp.Evaluate[string](`document.querySelector(`+"`"+selector+"`"+`)?.getAttribute("href") ?? ""`))
		if err != nil || href == "" {
			t.Fatalf("%s has no %s: %v", page, selector, err)
		}
		return href
	}
	ada.do(chromedp.Navigate(w.at + "/models"))
	ada.want("By model") // the runs of the last seconds are counted when these are over
	pages := []struct{ name, path string }{
		{"inbox", "/"}, {"call", link("/", ".asks a")}, {"runs", "/runs"}, {"run", "/runs/" + first.ID()},
		{"jobs", "/jobs"}, {"job", "/jobs/job-1"}, {"schedules", "/schedules"}, {"workers", "/workers"},
		{"servers", "/servers"}, {"server", link("/servers", "main a[href^='/servers/']")}, {"models", "/models"}, {"tree", "/tree"},
		{"missing", "/none"}, {"login", "/login?ticket=x"},
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, page := range pages {
			ada.looks(scheme, deskWidth)
			ada.do(chromedp.Navigate(w.at + page.path))
			if page.name == "server" {
				ada.do(chromedp.Click(chromedp.CSS("details.tool summary")))
			}
			ada.axe(page.name+", "+scheme, script)
			ada.shoot(page.name + "-" + scheme)
			ada.looks(scheme, phoneWidth)
			if wide, err := chromedp.Run(ada.tab, chromedp.Evaluate[int](`document.documentElement.scrollWidth`)); err != nil || wide > phoneWidth {
				t.Errorf("%s is %d pixels wide on a phone of %d: %v", page.name, wide, phoneWidth, err)
			}
			if scheme == "light" {
				ada.shoot(page.name + "-phone")
			}
		}
	}
}
