package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/inbox"
	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
)

// workerLine is a line of a worker's stdout.
type workerLine struct {
	Type  string
	Line  int
	Job   jobapi.Job
	Error string
}

// job reads a worker's stdout up to an event of a type.
func (s *stream) job(kind string) jobapi.Job {
	s.t.Helper()
	for s.lines.Scan() {
		var line workerLine
		if err := json.Unmarshal(s.lines.Bytes(), &line); err != nil {
			s.t.Fatalf("a line of stdout: %v: %.300q", err, s.lines.Text())
		}
		if line.Type == kind {
			return line.Job
		}
	}
	s.t.Fatalf("the worker ended without %s", kind)
	return jobapi.Job{}
}

// waiting are the asks that wait.
func (h *home) waiting() (all []inbox.AskView) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.must("inbox", "ls", "--json")), &all); err != nil {
		h.t.Fatal(err)
	}
	return all
}

// A call that asks first waits in the inbox, holds up no other job, and is made once
// a person says yes in another process (SECA-51).
func TestWorkerParksAndGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(
		llmtest.Call("effects__append", `{"text":"one"}`), llmtest.Say("Something else."), llmtest.Say("Written.")))
	file := h.path("lines.txt")
	w := h.start("worker", "--concurrency", "1", "--events", "all", "--mcp", "effects="+"effects "+file, "--log-level", "error")
	first := strings.TrimSpace(h.must("jobs", "add", "Write it down."))
	if j := w.job("job.waiting"); j.ID != first {
		t.Fatalf("got the job %s waiting, want %s", j.ID, first)
	}
	if got := h.must("jobs", "add", "--wait", "Something else?"); got != "Something else.\n" {
		t.Errorf("a job beside the one that waits: got %q", got)
	}
	asks := h.waiting()
	if len(asks) != 1 || asks[0].Server != "effects" || string(asks[0].Arguments) == "" || asks[0].Run == "" {
		t.Fatalf("the inbox: got %+v, want the call", asks)
	}
	if _, err := os.Stat(file); err == nil {
		t.Fatal("the call was made before a person allowed it")
	}
	asked := time.Now()
	h.must("inbox", "answer", asks[0].Short, "--accept", "--hash", asks[0].Hash)
	for {
		if j := w.job("job.ended"); j.ID == first {
			if j.State != store.JobDone {
				t.Errorf("the job: got %s: %s", j.State, j.Error)
			}
			break
		}
	}
	t.Logf("from the answer to the end of the job: %v", time.Since(asked))
	if data, err := os.ReadFile(file); err != nil || strings.Count(string(data), "\n") != 1 {
		t.Errorf("the call's effect: got %q, %v, want one line", data, err)
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.end(); code != 0 {
		t.Errorf("after SIGTERM: got %d, want 0\n%s", code, w.stderr.String())
	}
}

// TestProcessesOfOtherStores: no command shows the processes of another store as those of its own, and one of the same store is
// found by whatever name that has.
func TestProcessesOfOtherStores(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Say("Fine.")).Loop())
	w := h.start("worker", "--store", "one.db", "--mcp", "effects="+"effects "+h.path("lines.txt"), "--log-level", "info")
	waitFor(t, "the worker", func() bool { return strings.Contains(h.must("tree", "--store", "one.db"), "worker") })
	if got := h.must("tree", "--store", h.path("one.db"), "--json"); !strings.Contains(got, `"command": "worker"`) {
		t.Errorf("by its whole path: got %s", got)
	}
	for _, args := range [][]string{{"--store", "two.db"}, {}, {"--no-store"}} {
		if got := strings.TrimSpace(h.must(append([]string{"tree", "--json"}, args...)...)); got != "[]" {
			t.Errorf("tree %v: got %s", args, got)
		}
	}
	if out := h.run("jobs", "add", "--store", "two.db", "--agent", "nosuch", "x"); !strings.Contains(out.stderr, "no worker of yours") {
		t.Errorf("jobs add to the other store: %s", out.stderr)
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.end(); code != 0 {
		t.Errorf("after SIGTERM: got %d, want 0\n%s", code, w.stderr.String())
	}
}

// A form of a server is filled in from another process; what does not fit it is refused
// and decides nothing (SECA-32).
func TestWorkerFormInInbox(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("asker__ask", `{}`), llmtest.Say("Thank you.")))
	w := h.start("worker", "--yes", "--events", "all", "--mcp", "asker", "--log-level", "error")
	h.must("jobs", "add", "Ask.")
	w.job("job.waiting")
	asks := h.waiting()
	if len(asks) != 1 || asks[0].Kind != "form" || asks[0].Message != "Who are you?" || len(asks[0].Fields) != 1 || string(asks[0].Fields[0].Default) != `"Bob"` {
		t.Fatalf("the inbox: got %+v, want the form", asks)
	}
	watch := h.start("inbox", "watch", "--json")
	if !watch.lines.Scan() || !strings.Contains(watch.lines.Text(), `"message":"Who are you?"`) {
		t.Errorf("inbox watch: got %q, want the form", watch.lines.Text())
	}
	_ = watch.Process.Signal(os.Interrupt)
	if err := watch.Wait(); watch.ProcessState.ExitCode() != env.ExitInterrupt {
		t.Errorf("inbox watch: got %v, want exit code %d", err, env.ExitInterrupt)
	}
	for _, bad := range [][]string{
		{"--set", "nme=Ada"}, {"--set", "name"}, {"--json", `{"name":1}`}, {"--json", `{"name":"Ada","more":true}`}, {"--json", `[]`}, {"--scope", "run"}, {"--more", "1"},
	} {
		if out := h.run(append([]string{"inbox", "answer", "-1"}, bad...)...); out.code != env.ExitUsage {
			t.Errorf("inbox answer %q: got %d %s, want %d", bad, out.code, out.stderr, env.ExitUsage)
		}
	}
	h.must("inbox", "answer", "-1", "--set", "name=Ada")
	if j := w.job("job.ended"); j.State != store.JobDone {
		t.Errorf("the job: got %s: %s", j.State, j.Error)
	}
	events := h.must("runs", "show", "last", "--json")
	if !strings.Contains(events, `{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}}`) {
		t.Errorf("the server did not get the form as it was filled in: %s", events)
	}
	_ = w.Process.Signal(syscall.SIGTERM)
	if code := w.end(); code != 0 {
		t.Errorf("after SIGTERM: got %d, want 0", code)
	}
}

// A worker that is told to end lets the job under way end, and takes no other.
func TestWorkerDrains(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Join(llmtest.Slow(time.Second), llmtest.Say("late"))))
	w := h.start("worker", "--concurrency", "1", "--events", "all", "--drain-timeout", "20s", "--log-level", "error")
	h.must("jobs", "add", "--id", "under-way", "Take your time.")
	w.job("job.started")
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	h.must("jobs", "add", "--id", "too-late", "Another.")
	if j := w.job("job.ended"); j.ID != "under-way" || j.State != store.JobDone {
		t.Errorf("got %s %s, want the job under way done", j.ID, j.State)
	}
	if code := w.end(); code != 0 {
		t.Errorf("got %d, want 0\n%s", code, w.stderr.String())
	}
	if out := h.must("jobs", "ls", "--state", "queued"); !strings.Contains(out, "too-late") {
		t.Errorf("the other job: got %q, want it queued", out)
	}
}

// Jobs come over HTTP, their ends are told to a webhook that is signed, and the metrics
// count them; the configuration is read again at SIGHUP.
func TestWorkerOverHTTP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	type delivery struct {
		header http.Header
		body   []byte
	}
	told := make(chan delivery, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- delivery{r.Header, body}
	}))
	defer receiver.Close()
	config := func(schedule string) {
		dir := h.path(".config/troupe")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "version: 1\nworker:\n  token: ${TOKEN}\n  hook_secret: ${HOOK_SECRET}\n  hook_hosts: [\"" + strings.TrimPrefix(receiver.URL, "http://") + "\"]\n" +
			"  schedules:\n    " + schedule + ": { cron: \"@yearly\", prompt: Look. }\n"
		if err := os.WriteFile(filepath.Join(dir, "troupe.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config("yearly")
	h.plays("openai", llmtest.NewServer(llmtest.Say("one")))
	h.env = append(h.env, "TOKEN=a-token-of-enough-bytes", "HOOK_SECRET=a secret of enough bytes")

	cmd := h.command("worker", "--http", ":0", "--events", "none")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := bufio.NewScanner(stderr)
	url := ""
	for url == "" && log.Scan() {
		if m := regexp.MustCompile(`(http://127\.0\.0\.1:[0-9]+)/v1/jobs`).FindStringSubmatch(log.Text()); m != nil {
			url = m[1]
		}
	}
	rest := make(chan struct{})
	go func() { // so that the worker does not wait for us
		defer close(rest)
		for log.Scan() {
		}
	}()
	do := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a-token-of-enough-bytes")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(out)
	}
	if code, out := do("POST", "/v1/jobs", `{"id":"j1","prompt":"Count.","hook":"`+receiver.URL+`/hook"}`); code != http.StatusCreated {
		t.Fatalf("POST: got %d %s", code, out)
	}
	if code, out := do("GET", "/v1/jobs/j1?wait=30s", ""); code != http.StatusOK || !strings.Contains(out, `"text":"one"`) {
		t.Errorf("GET: got %d %s, want the result", code, out)
	}
	d := <-told
	secret, err := jobapi.NewSecret("a secret of enough bytes")
	if err != nil {
		t.Fatal(err)
	}
	if err := secret.Verify(d.header, d.body, time.Now()); err != nil || !strings.Contains(string(d.body), `"type":"job.done"`) {
		t.Errorf("the webhook: got %s, %v", d.body, err)
	}
	if code, out := do("POST", "/v1/jobs", `{"id":"j2","prompt":"Count.","agent":"another"}`); code != http.StatusCreated || !strings.Contains(out, `"state":"queued"`) ||
		!strings.Contains(out, `no running worker of yours has the agent \"another\" (they have main). The job stays queued`) {
		t.Errorf("POST for an agent that only another worker may have: got %d %s, want the job and a warning", code, out)
	}
	if code, out := do("GET", "/metrics", ""); code != http.StatusOK || !strings.Contains(out, `troupe_jobs_ended_total{agent="main",state="done"} 1`) {
		t.Errorf("the metrics: got %d, without the job", code)
	}
	if code, _ := do("GET", "/readyz", ""); code != http.StatusOK {
		t.Errorf("readyz: got %d", code)
	}

	schedules := func() string { return h.must("jobs", "schedules", "--json") }
	if out := schedules(); !strings.Contains(out, `"name": "yearly"`) {
		t.Errorf("the schedules: got %s", out)
	}
	config("also-yearly")
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the new schedule", func() bool {
		out := schedules()
		return strings.Contains(out, `"name": "also-yearly"`) && !strings.Contains(out, `"name": "yearly"`)
	})
	h.must("jobs", "schedules", "--rm", "also-yearly")
	if out := schedules(); strings.TrimSpace(out) != "[]" {
		t.Errorf("the schedules after --rm: got %s, want none", out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-rest
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: got %v, want exit code 0", err)
	}
}

// A worker that claims no more jobs because of those that wait for a human says so in its
// log, and where jobs are listed.
func TestWorkerSaysItIsFull(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("openai", llmtest.NewServer(llmtest.Call("effects__append", `{"text":"one"}`)))
	w := h.start("worker", "--max-parked", "1", "--events", "all", "--mcp", "effects="+"effects "+h.path("lines.txt"), "--log-level", "warn")
	h.must("jobs", "add", "Write it down.")
	w.job("job.waiting")
	h.must("jobs", "add", "Something else?")
	waitFor(t, "the worker to be full", func() bool {
		return strings.Contains(h.run("jobs", "ls").stderr, "claims no jobs: 1 wait for a human, and --max-parked is 1")
	})
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := w.end(); code != 0 || !strings.Contains(w.stderr.String(), "no more jobs are claimed") {
		t.Errorf("after SIGTERM: got %d, want 0, and a warning in the log\n%s", code, w.stderr.String())
	}
}
