// Package console has tests of the pages of agent/console in a real browser.
package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// world is a program with agents, whose questions a person answers in a browser.
type world struct {
	*testing.T
	rt      *agent.Runtime
	store   store.Store
	console *console.Console
	at      string
	sign    func() // does what the page is for that was opened last
}

type transferIn struct {
	To    string `json:"to"`
	Euros int    `json:"euros"`
}

// newWorld opens a program whose model says what the turns are.
func newWorld(t *testing.T, turns ...llmtest.Turn) *world {
	t.Helper()
	s, err := sqlite.Open(filepath.Join(t.TempDir(), "troupe.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	desk, err := mcpserver.New(mcp.Implementation{Name: "desk", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := mcpserver.AddTool(desk, &mcp.Tool{Name: "book", Description: "Books a room."}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
		res, err := req.ElicitForm(ctx, "who", &mcp.ElicitParams{Message: "Who books, and how do we write to you?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string","title":"Your name","minLength":2},"tone":{"type":"string","enum":["dry","warm"],"default":"warm"}},"required":["name"]}`)})
		if err != nil {
			return "", err
		}
		return "booked, " + string(res.Action), nil
	}); err != nil {
		t.Fatal(err)
	}
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(turns...),
		Servers: []mcpclient.Server{mcpclient.InProcess("desk", desk)},
		Tools:   []agent.Tool{agent.NeedsApproval(agent.Func("transfer", "Sends money.", func(context.Context, transferIn) (string, error) { return "sent", nil }))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, s, rt, console.Options{Name: "ada"})
}

// serve serves the console of a runtime, and closes both and the store at the end of the test.
func serve(t *testing.T, s store.Store, rt *agent.Runtime, o console.Options) *world {
	t.Helper()
	c, err := console.Handler(rt, &o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(c)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := errors.Join(rt.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return &world{T: t, rt: rt, store: s, console: c, at: web.URL}
}

// person is one in front of a browser of their own, logged in.
type person struct {
	w   *world
	tab context.Context
}

func (w *world) person() *person {
	w.Helper()
	p := &person{w, chromium.Start(w.T)}
	p.do(chromedp.Navigate(w.at+w.console.LoginPath()), chromedp.Click(chromedp.CSS("main button")))
	p.want("Inbox")
	return p
}

func (p *person) do(steps ...chromedp.Action[chromedp.Void]) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	for _, step := range steps {
		err := chromedp.Do(ctx, step)
		for isStale(err) && ctx.Err() == nil {
			err = chromedp.Do(ctx, step)
		}
		if err != nil {
			p.w.Fatal(err)
		}
	}
}

// isStale reports whether a step found an element that the page has replaced since, as an open page does
// when what it shows has changed: the step has done nothing.
func isStale(err error) bool {
	e, ok := errors.AsType[*cdproto.Error](err)
	return ok && e.Code == -32000
}

// want waits until the page says a text.
func (p *person) want(text string) {
	p.w.Helper()
	ctx, cancel := context.WithTimeout(p.tab, 30*time.Second)
	defer cancel()
	quoted, err := json.Marshal(text)
	if err != nil {
		p.w.Fatal(err)
	}
	if _, err := chromium.Wait(ctx, `document.body && document.body.innerText.includes(`+string(quoted)+`) ? "yes" : ""`); err != nil {
		said, _ := chromedp.Run(p.tab, chromedp.Evaluate[string](`document.body.innerText`))
		p.w.Fatalf("the page does not say %q: %v\n%s", text, err, said)
	}
}

// shoot keeps a picture of the page where CONSOLE_SHOTS says so.
func (p *person) shoot(name string) {
	p.w.Helper()
	dir := os.Getenv("CONSOLE_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.tab, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644)
	}
	if err != nil {
		p.w.Error(err)
	}
}

// TestConsole: a person finds a question on an inbox that is open, answers it, watches the run go on
// to its end, and answers a form; another browser with the same question is told that it is decided.
func TestConsole(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t,
		llmtest.Call("transfer", `{"to":"Ada","euros":20}`),
		llmtest.Call("desk__book", `{}`),
		llmtest.Say("All is done."))
	ada, bob := w.person(), w.person()
	ada.want("No question waits for you.")
	ada.shoot("inbox-empty")
	run, err := w.rt.Start(t.Context(), "Send Ada 20 euros and book a room.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.want("1 question waits for you.") // by itself
	ada.shoot("inbox")
	for _, p := range []*person{ada, bob} {
		p.do(chromedp.Navigate(w.at), chromedp.Click(chromedp.CSS(".asks a")))
		p.want("May this tool be called?")
	}
	ada.shoot("call")
	watch := w.person()
	watch.do(chromedp.Navigate(w.at + "/runs/" + run.ID()))
	watch.want("Waits for you")
	ada.do(chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	ada.want("It was accepted by console:ada")
	bob.want("It was accepted by console:ada") // the page that was open
	watch.want("desk__book")                   // the next call, by itself
	ada.do(chromedp.Navigate(w.at))
	ada.want("1 question waits for you.")
	ada.do(chromedp.Click(chromedp.CSS(".asks a")))
	ada.want("May this tool be called?")
	ada.do(chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	ada.want("It was accepted by console:ada")
	ada.do(chromedp.Navigate(w.at))
	ada.want("Who books, and how do we write to you?")
	ada.do(chromedp.Click(chromedp.CSS(".asks a")))
	ada.want("A server asks you")
	ada.shoot("form")
	ada.do(chromedp.SendKeys(chromedp.CSS(`input[name="field.name"]`), "A"), chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	ada.want("must have at least 2 characters")
	ada.do(chromedp.SendKeys(chromedp.CSS(`input[name="field.name"]`), "da"), chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	ada.want("It was accepted by console:ada")
	watch.want("All is done.")
	watch.shoot("run")
	if res, err := run.Wait(t.Context()); err != nil || !strings.Contains(res.Text, "All is done.") {
		t.Errorf("the run: %+v, %v", res, err)
	}
	ada.do(chromedp.Click(chromedp.CSS(`nav a[href="/runs"]`)))
	ada.want("finished")
	ada.shoot("runs")
}
