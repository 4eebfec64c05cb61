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
	"github.com/chromedp/cdproto/input"
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
	if err := p.says(text, 30*time.Second); err != nil {
		said, _ := chromedp.Run(p.tab, chromedp.Evaluate[string](`document.body.innerText`))
		p.w.Fatalf("the page does not say %q: %v\n%s", text, err, said)
	}
}

// says waits for a time until the page says a text.
func (p *person) says(text string, within time.Duration) error {
	p.w.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		p.w.Fatal(err)
	}
	return p.holds(`document.body && document.body.innerText.includes(`+string(quoted)+`)`, within)
}

// holds waits for a time until a condition on the page holds.
func (p *person) holds(condition string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(p.tab, within)
	defer cancel()
	_, err := chromium.Wait(ctx, condition+` ? "yes" : ""`)
	return err
}

// follow clicks on a link until the page behind it says a text: what comes above the link may push it away
// from under the pointer, and a person clicks again then.
func (p *person) follow(link, text string) {
	p.w.Helper()
	for range 10 {
		p.do(chromedp.Click(chromedp.CSS(link)))
		if p.says(text, 3*time.Second) == nil {
			return
		}
	}
	p.want(text)
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

// TestAnswerThatDoesNotCount: the page that says why an answer does not count, and has what was filled
// in, stays as it is. It says when the question has been decided meanwhile.
func TestAnswerThatDoesNotCount(t *testing.T) {
	chromium.Require(t)
	w := newWorld(t, llmtest.Call("desk__book", `{}`), llmtest.Say("All is done."))
	ada, bob := w.person(), w.person()
	if _, err := w.rt.Start(t.Context(), "Book a room.", nil); err != nil {
		t.Fatal(err)
	}
	accept := chromedp.Click(chromedp.CSS(`button[value="accept"]`))
	ada.want("1 question waits for you.")
	ada.do(chromedp.Click(chromedp.CSS(".asks a")))
	ada.want("May this tool be called?")
	ada.do(accept)
	ada.want("It was accepted by console:ada")
	for _, p := range []*person{ada, bob} {
		p.do(chromedp.Navigate(w.at))
		p.want("Who books, and how do we write to you?")
		p.do(chromedp.Click(chromedp.CSS(".asks a")))
		p.want("A server asks you")
	}
	ada.do(chromedp.SendKeys(chromedp.CSS(`input[name="field.name"]`), "A"), accept)
	ada.want("must have at least 2 characters")
	bob.do(chromedp.SendKeys(chromedp.CSS(`input[name="field.name"]`), "Bob"), accept)
	bob.want("It was accepted by console:ada")
	ada.want("This page has changed since.")
	if err := ada.holds(`document.body.innerText.includes("must have at least 2 characters") && document.querySelector("input[name='field.name']").value === "A"`, time.Second); err != nil {
		t.Errorf("what was sent and why it does not count are gone: %v", err)
	}
}

// TestPressAndRelease: a page is not loaded again between the press and the release of a click, and is after it.
func TestPressAndRelease(t *testing.T) {
	chromium.Require(t)
	gate := llmtest.NewGate()
	w := newWorld(t, llmtest.Join(llmtest.Hold(gate), llmtest.Say("All is done.")))
	ada := w.person()
	run, err := w.rt.Start(t.Context(), "Take your time.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Navigate(w.at + "/runs/" + run.ID()))
	ada.want("Take your time.")
	left := func(p *input.DispatchMouseEventParams) { p.Button, p.ClickCount = input.MouseButtonLeft, 1 }
	ada.do(chromedp.MouseEvent(chromedp.MousePressed, deskWidth-10, 700, left))
	gate.Open()
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The look at the store is every 500 ms; nothing in the page tells of one that was put off.
	if ada.says("finished", 2*time.Second) == nil {
		t.Error("the page was loaded again while the button was down")
	}
	ada.do(chromedp.MouseEvent(chromedp.MouseReleased, deskWidth-10, 700, left))
	ada.want("finished")
}
