package console

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

const allFields = `{"type":"object","properties":{
	"name":{"type":"string","title":"Name","minLength":2},"mail":{"type":"string","title":"Mail","format":"email"},
	"age":{"type":"integer","title":"Age","minimum":1},"height":{"type":"number","title":"Height"},"member":{"type":"boolean","title":"Member"},
	"tone":{"type":"string","title":"Tone","enum":["dry","warm"]},
	"days":{"type":"array","title":"Days","items":{"type":"string","enum":["mon","tue"]}}},"required":["name","tone"]}`

// asker is a server whose tools ask each kind of question that a server has.
func asker(t *testing.T) *mcpserver.Server {
	t.Helper()
	s, err := mcpserver.New(mcp.Implementation{Name: "desk", Version: "1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(context.Context, *mcpserver.ToolRequest) (string, error){
		"form": func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			res, err := req.ElicitForm(ctx, "who", &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: json.RawMessage(allFields)})
			if err != nil {
				return "", err
			}
			content, err := json.Marshal(res.Content)
			return "form " + string(content), err
		},
		"url": func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			return "signed", req.ElicitURL(ctx, "page", "Please sign.", "https://bank.example/sign?e="+mcpserver.ElicitationID)
		},
		"sample": func(ctx context.Context, req *mcpserver.ToolRequest) (string, error) {
			res, err := req.Sample(ctx, "q", &mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Capital of France?")}}}})
			if err != nil {
				return "", err
			}
			content, err := json.Marshal(res.Content)
			return "sampled " + string(content), err
		},
		"changed": func(context.Context, *mcpserver.ToolRequest) (string, error) { return "as it is now", nil },
	} {
		if err := mcpserver.AddTool(s, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcpserver.ToolRequest, _ struct{}) (string, error) {
			return ask(ctx, req)
		}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// yes opens the question that waits, does the steps on its page, and says yes.
func (p *person) yes(steps ...chromedp.Action[chromedp.Void]) {
	p.w.Helper()
	p.do(chromedp.Navigate(p.w.at))
	p.want("1 question waits for you.")
	p.do(chromedp.Click(chromedp.CSS(".asks a")))
	p.want("Hash")
	p.do(steps...)
	p.do(chromedp.Click(chromedp.CSS(`button[value="accept"]`)))
	p.want("by console:ada")
}

// TestEachKind: each kind of question is answered in the browser, and the run goes on.
func TestEachKind(t *testing.T) {
	chromium.Require(t)
	field := func(name string) chromedp.CSS { return chromedp.CSS(`[name="field.` + name + `"]`) }
	tests := []struct {
		name   string
		turns  []llmtest.Turn
		limits agent.Limits
		does   func(*person)
		text   string // of a result in the journal
	}{
		{"form", []llmtest.Turn{llmtest.Call("desk__form", `{}`), llmtest.Say("done")}, agent.Limits{}, func(p *person) {
			p.yes(chromedp.SendKeys(field("name"), "Ada"), chromedp.SendKeys(field("mail"), "ada@example.com"), chromedp.SendKeys(field("age"), "36"),
				chromedp.SendKeys(field("height"), "1.7"), chromedp.SendKeys(field("member"), "yes"), chromedp.SendKeys(field("tone"), "dry"), chromedp.Click(chromedp.CSS(`input[value="tue"]`)))
		}, `"tue"`},
		{"url", []llmtest.Turn{llmtest.Call("desk__url", `{}`), llmtest.Say("done")}, agent.Limits{}, func(p *person) {
			p.yes() // may it be opened?
			p.yes() // it is done; it is not, and is asked about again
			p.w.sign()
		}, "signed"},
		{"sampling", []llmtest.Turn{llmtest.Call("desk__sample", `{}`), llmtest.Say("Paris"), llmtest.Say("done")}, agent.Limits{}, func(p *person) {
			p.yes() // the question
			p.yes() // the answer
		}, "Paris"},
		{"limit", []llmtest.Turn{llmtest.Call("noop", `{}`), llmtest.Call("noop", `{}`), llmtest.Say("done")}, agent.Limits{Steps: 1, OnLimit: agent.LimitAsk}, func(p *person) {
			p.yes(chromedp.Clear(chromedp.CSS("#more")), chromedp.SendKeys(chromedp.CSS("#more"), "10"))
		}, ""},
		{"definition", []llmtest.Turn{llmtest.Call("desk__changed", `{}`), llmtest.Say("done")}, agent.Limits{}, func(p *person) { p.yes() }, "as it is now"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := memstore.New(nil)
			w := openWorld(t, s, tt.turns)
			ada := w.person()
			a, err := w.rt.Agent("main", &agent.Config{Limits: tt.limits})
			if err != nil {
				t.Fatal(err)
			}
			run, err := a.Start(t.Context(), "go", nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.does(ada)
			ada.shoot("kind-" + tt.name)
			w.done(run)
			w.journal(run.ID(), tt.text)
		})
	}
}

// journal checks that the journal of a run has a text.
func (w *world) journal(run, text string) {
	w.Helper()
	var all strings.Builder
	for ev, err := range store.Replay(w.Context(), w.store, run, 0) {
		if err != nil {
			w.Fatal(err)
		}
		all.Write(ev.Body)
	}
	if !strings.Contains(all.String(), text) {
		w.Errorf("the journal does not have %q", text)
	}
}

// killed is a store that a process no longer reaches.
type killed struct {
	store.Store
	dead atomic.Bool
}

func (k *killed) Append(ctx context.Context, a store.Append) (int64, error) {
	if k.dead.Load() {
		return 0, store.ErrFenced
	}
	return k.Store.Append(ctx, a)
}

func (k *killed) Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error {
	if k.dead.Load() {
		return store.ErrFenced
	}
	return k.Store.Renew(ctx, run, owner, epoch, ttl)
}

// TestUnknownOutcome: a person says in the browser what came of a call whose process was killed, and the run goes on
// in another one.
func TestUnknownOutcome(t *testing.T) {
	chromium.Require(t)
	var later atomic.Int64 // what the clock of the store is ahead
	s := memstore.New(&memstore.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	first, called := &killed{Store: s}, make(chan struct{}, 1)
	rt, err := agent.Open(t.Context(), &agent.Options{Store: first, Model: llmtest.Script(llmtest.Call("noop", `{}`)), Approve: agent.NeverAsk,
		Tools: []agent.Tool{agent.Func("noop", "Does nothing.", func(ctx context.Context, _ struct{}) (string, error) {
			called <- struct{}{}
			<-ctx.Done()
			return "", ctx.Err()
		})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Start(t.Context(), "go", &agent.RunOptions{ID: "r"}); err != nil {
		t.Fatal(err)
	}
	<-called
	first.dead.Store(true)
	_ = rt.Close()                      // it cannot write what ended
	later.Store(int64(2 * time.Minute)) // its lease is over
	w := openWorld(t, s, []llmtest.Turn{llmtest.Say("done")})
	ada := w.person()
	run, err := w.rt.Resume(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.yes(chromedp.Click(chromedp.CSS(`input[value="happened"]`)), chromedp.SendKeys(chromedp.CSS("#result"), "the line is there"))
	w.done(run)
	w.journal("r", "the line is there")
}

// done checks that a run ends.
func (w *world) done(run *agent.Run) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 30*time.Second)
	defer cancel()
	if res, err := run.Wait(ctx); err != nil || res.Text != "done" {
		w.Fatalf("the run: %+v, %v", res, err)
	}
}

// openWorld opens a program whose server is [asker], and whose store is s.
func openWorld(t *testing.T, s store.Store, turns []llmtest.Turn) *world {
	t.Helper()
	desk, opened, pins := asker(t), make(chan string, 1), new(mcpclient.MemoryPins)
	if err := pins.SetPin(t.Context(), "desk", "changed", "another"); err != nil {
		t.Fatal(err)
	}
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(turns...), Servers: []mcpclient.Server{mcpclient.InProcess("desk", desk)},
		Approve: agent.NeverAsk, Sampling: &agent.Sampling{},
		Host: &mcpclient.HostOptions{Pins: pins, Options: mcpclient.Options{AskOptions: mcpclient.AskOptions{OpenURL: func(_ context.Context, page string) error {
			_, id, _ := strings.Cut(page, "?e=")
			opened <- id
			return nil
		}}}},
		Tools: []agent.Tool{agent.Func("noop", "Does nothing.", func(context.Context, struct{}) (string, error) { return "ok", nil })}})
	if err != nil {
		t.Fatal(err)
	}
	w := serve(t, s, rt, console.Options{Name: "ada"})
	w.sign = func() {
		if err := desk.CompleteElicitation(<-opened, ""); err != nil {
			t.Error(err)
		}
	}
	return w
}

// both keeps a picture of the page in light and in dark.
func (p *person) both(name string) {
	p.w.Helper()
	if os.Getenv("CONSOLE_SHOTS") == "" {
		return
	}
	for _, scheme := range []string{"light", "dark"} {
		p.looks(scheme, deskWidth)
		p.shoot(name + "-" + scheme)
	}
}

// TestJobsInABrowser: a job that is added on its page is worked on, and the page that is open says so by itself; it is
// tried again; a schedule is added and paused.
func TestJobsInABrowser(t *testing.T) {
	chromium.Require(t)
	s := memstore.New(nil)
	w := openWorld(t, s, []llmtest.Turn{llmtest.Say("The README says how to begin.")})
	a, err := w.rt.Agent("main", nil)
	if err != nil {
		t.Fatal(err)
	}
	works, err := worker.New(w.rt, &worker.Options{Agents: []*agent.Agent{a}, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range []store.JobState{store.JobFailed, store.JobDone} {
		j, err := s.AddJob(t.Context(), store.Job{ID: string(state), Agent: "old", Prompt: "Pay the bills of this month, and write down what was paid."})
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := s.ClaimJobs(t.Context(), "w", 1, time.Minute, []string{"old"})
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if _, err := s.UpdateJob(t.Context(), store.JobUpdate{JobLease: store.JobLease{ID: j.ID, Epoch: claimed[0].Epoch}, Owner: "w", State: state, Error: []string{"the model does not answer", ""}[i]}); err != nil {
			t.Fatal(err)
		}
	}
	ada := w.person()
	ada.do(chromedp.Navigate(w.at+"/jobs"), chromedp.Click(chromedp.CSS("details.add summary")), chromedp.SendKeys(chromedp.CSS("#prompt"), "Summarise README.md"))
	ada.both("jobs-add")
	ada.do(chromedp.Click(chromedp.CSS("details.add button")))
	ada.want("Job for main")
	ada.want("queued")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	go func() { ended <- works.Run(ctx) }() // ends with the test
	ada.want("The README says how to begin.")
	ada.both("job")
	ada.do(chromedp.Navigate(w.at + "/jobs"))
	ada.want("Summarise README.md")
	ada.both("jobs")
	ada.do(chromedp.Navigate(w.at + "/jobs/failed"))
	ada.want("Try it again")
	ada.both("job-failed")
	ada.do(chromedp.Click(chromedp.CSS(`button[value="retry"]`)))
	ada.want("queued")
	ada.do(chromedp.Navigate(w.at+"/schedules"), chromedp.Click(chromedp.CSS("details.add summary")), chromedp.SendKeys(chromedp.CSS("#name"), "morning"),
		chromedp.SendKeys(chromedp.CSS("#cron"), "0 8 * * 1-5"), chromedp.SendKeys(chromedp.CSS("#prompt"), "Summarise what came in over night."), chromedp.Click(chromedp.CSS(`button[value="add"]`)))
	ada.want("Pause")
	ada.both("schedules")
	ada.do(chromedp.Click(chromedp.CSS(`button[value="pause"]`)))
	ada.want("paused")
	ada.do(chromedp.Navigate(w.at + "/workers"))
	ada.want("Workers")
	ada.both("workers")
}

// notifications stand for those of the browser, and keep what they tell.
const notifications = `window.told = [];
window.Notification = class {
	constructor(title, o) { told.push(title + ": " + o.body); }
	static permission = "default";
	static requestPermission = async () => Notification.permission = "granted";
};`

// TestBrowserNotifies: once a person has asked for it on the inbox, the browser is notified of what is new there, and not
// of what was there.
func TestBrowserNotifies(t *testing.T) {
	chromium.Require(t)
	s := memstore.New(nil)
	w := openWorld(t, s, []llmtest.Turn{llmtest.Call("desk__form", `{}`), llmtest.Say("done")})
	ada := w.person()
	ada.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error { // a browser without a window denies them
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: notifications})
		return err
	}), chromedp.Navigate(w.at))
	ada.want("No question waits for you.")
	ada.do(chromedp.Click(chromedp.CSS("#notify button")))
	ada.want("Stop notifying me")
	ada.both("inbox-notify")
	run, err := w.rt.Start(t.Context(), "go", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ada.tab, 30*time.Second)
	defer cancel()
	told, err := chromium.Wait(ctx, `told.join("\n")`)
	if err != nil || !strings.HasPrefix(told, "A question waits for you: form: ") || strings.Contains(told, "Who are you") {
		t.Errorf("got %q, %v", told, err)
	}
	run.Cancel(nil)
	_, _ = run.Wait(t.Context())
}
