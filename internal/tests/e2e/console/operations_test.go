package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/tests/chromium"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// operation is a click on the button of an operation, and on the one that confirms it.
func (p *person) operation(name string, steps ...chromedp.Action[chromedp.Void]) {
	p.w.Helper()
	p.follow(`.operations a[href$="/`+name+`"]`, "What will happen")
	p.do(append(steps, chromedp.Click(chromedp.CSS("main form.answer button")))...)
}

// TestOperationsInABrowser: a person watches what a model says while it says it, forks the run once
// it has ended, compares the two, and parks, resumes and cancels a run.
func TestOperationsInABrowser(t *testing.T) {
	chromium.Require(t)
	gate := llmtest.NewGate()
	w := newWorld(t,
		llmtest.Join(llmtest.Say("The first half, "), llmtest.Hold(gate), llmtest.Say("and the second.")),
		llmtest.Say("Said again."),
		llmtest.Call("transfer", `{"to":"Ada","euros":20}`),
		llmtest.Say("Not sent."))
	ada := w.person()
	run, err := w.rt.Start(t.Context(), "Say something long.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Navigate(w.at + "/runs/" + run.ID()))
	ada.want("The first half,")
	ada.shoot("saying")
	gate.Open()
	ada.want("and the second.")
	if _, err := run.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ada.want("finished")
	ada.operation("fork", chromedp.SendKeys(chromedp.CSS("#say"), "Say it again."))
	ada.want("Fork of")
	ada.want("Said again.")
	ada.follow(`dd a[href*="/diff?with="]`, "Say it again.")
	ada.shoot("diff")

	waits, err := w.rt.Start(t.Context(), "Send Ada 20 euros.", nil)
	if err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Navigate(w.at + "/runs/" + waits.ID()))
	ada.want("Waits for you")
	ada.operation("park")
	ada.want("Resume…")
	ada.shoot("parked")
	ada.operation("resume")
	ada.want("Park…")
	ada.operation("cancel")
	ada.want("cancelled by console:ada")
	if head, err := w.store.Run(t.Context(), waits.ID()); err != nil || head.State != store.Cancelled {
		t.Errorf("the run that was cancelled is %s, %v", head.State, err)
	}
}

// TestManyRunsInABrowser: a list that is open while a thousand runs begin and end at once shows how they
// stand in the end, and answers meanwhile.
func TestManyRunsInABrowser(t *testing.T) {
	chromium.Require(t)
	const runs = 1000
	w := newWorld(t, slices.Repeat([]llmtest.Turn{llmtest.Say("Done.")}, runs)...)
	ada := w.person()
	ada.do(chromedp.Navigate(w.at + "/runs"))
	ada.want("There is no such run.")
	all := make([]*agent.Run, runs)
	for i := range all {
		run, err := w.rt.Start(t.Context(), fmt.Sprintf("Work on number %d.", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = run
	}
	ada.want("Work on number ") // while they run
	for _, run := range all {
		if _, err := run.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(ada.tab, 30*time.Second)
	defer cancel()
	if _, err := chromium.Wait(ctx, `document.querySelectorAll("tbody tr").length >= 50 && ![...document.querySelectorAll("tbody .state")].some(e => e.innerText !== "finished") ? "yes" : ""`); err != nil {
		t.Errorf("the list does not show that all have ended: %v", err)
	}
}

// TestWorkerKilledInABrowser: a worker is killed while its run's page is open and the model is asked;
// another worker goes on with the run, and the page that was open all the time shows its end.
func TestWorkerKilledInABrowser(t *testing.T) {
	chromium.Require(t)
	dir := t.TempDir()
	program := peers.RequireTroupe(t)
	model := llmtest.NewServer(llmtest.Say("Never heard."), llmtest.Say("All is well."))
	asked, killed := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			close(asked)
			<-killed
		}
		model.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"),
			"OPENAI_BASE_URL="+srv.URL, "TROUPE_MODEL=openai/scripted")
		return cmd
	}
	start := func(cmd *exec.Cmd) *exec.Cmd {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		return cmd
	}
	pages := command("console")
	out, err := pages.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(pages)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	link := strings.TrimSpace(line)
	at, _, _ := strings.Cut(link, "/login")
	w := &world{T: t, at: at}
	ada := &person{w, chromium.Start(t)}
	ada.do(chromedp.Navigate(link), chromedp.Click(chromedp.CSS("main button")))
	ada.want("Inbox")

	first := start(command("worker", "--lease", "1s"))
	if said, err := command("jobs", "add", "--id", "job", "How is it?").CombinedOutput(); err != nil {
		t.Fatalf("adding the job: %v\n%s", err, said)
	}
	<-asked
	ada.do(chromedp.Navigate(at + "/runs/job.1"))
	ada.want("running")
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	close(killed)
	start(command("worker", "--lease", "1s"))
	ada.want("All is well.")
	ada.want("finished")
}
