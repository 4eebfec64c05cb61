//go:build linux

package killmatrix

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/internal/tests/peers"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestParked: jobs that wait for a person are parked. While all wait the store has no commit, and a
// worker that is started then takes its first step at once, and holds no memory for them. PARKED=10000
// and IDLE=1m measure what docs/performance.md says; the figures are in the log.
func TestParked(t *testing.T) {
	n, idle, patience := 100, 2*time.Second, mcptest.Patience
	if text := os.Getenv("PARKED"); text != "" {
		n, _ = strconv.Atoi(text)
		patience = 20 * time.Minute
	}
	if text := os.Getenv("IDLE"); text != "" {
		idle, _ = time.ParseDuration(text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	db := filepath.Join(dir, "troupe.db")
	s, err := sqlite.Open(db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	model := llmtest.NewServer(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		if len(llmtest.Results(req)) > 0 {
			return llmtest.Say("done")
		}
		return do(1)
	})).Loop()
	srv := httptest.NewServer(model)
	defer srv.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := peers.RequireTroupe(t)
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, "-q", "--store", db, "worker", "--concurrency", "64", "--park-after", "100ms", "--lease", "5s", "--mcp", "server=env "+serverVariable+"="+filepath.Join(dir, "effects")+" "+self)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "TROUPE_MODEL=openai/scripted", "OPENAI_BASE_URL="+srv.URL, "OPENAI_API_KEY=none")
		cmd.Stderr, cmd.WaitDelay = os.Stderr, 10*time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	until := func(what string, over func() bool) {
		t.Helper()
		for !over() {
			select {
			case <-ctx.Done():
				t.Fatalf("waiting until %s: %v", what, context.Cause(ctx))
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	for i := range n {
		if _, err := s.AddJob(ctx, store.Job{ID: fmt.Sprint("job-", i), Agent: "main", Prompt: "go"}); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	worker := start()
	parked := func() bool {
		all, err := s.JobCounts(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if all[store.JobWaiting] < n {
			return false
		}
		held, err := s.Runs(ctx, store.Query{Limit: store.MaxPage})
		for _, r := range held {
			if r.Owner != "" {
				return false
			}
		}
		return err == nil
	}
	until("all jobs are parked", parked)
	t.Logf("%d jobs are parked after %v; the worker has %d MB", n, time.Since(began).Round(time.Second), resident(t, worker))

	written := func() bool { // a commit is in the log of the database until a second without one has passed
		info, err := os.Stat(db + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size() > 0
	}
	until("the log of the database is empty", func() bool { return !written() })
	for end := time.Now().Add(idle); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if written() {
			t.Errorf("the store has a commit within %v of idling", idle)
			break
		}
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()

	asks, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending, Limit: 1})
	if err != nil || len(asks) != 1 {
		t.Fatalf("the questions: got %v, %v", asks, err)
	}
	if _, err := s.SettleAsk(ctx, asks[0].ID, store.Decision{Status: store.AskAccepted, By: "the test", Scope: "once"}); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	worker = start()
	var first time.Duration
	until("the run that was answered has ended", func() bool {
		r, err := s.Run(ctx, asks[0].Run)
		if err != nil {
			t.Fatal(err)
		}
		if r.Seq > 0 && first == 0 {
			last, err := s.Events(ctx, r.ID, r.Seq-1, 1)
			if err == nil && len(last) == 1 && last[0].Type != runlog.RunParkedType {
				first = time.Since(began)
			}
		}
		return r.State.Ended()
	})
	t.Logf("a worker that is started takes its first step after %v, ends that run after %v, and has %d MB", first.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond), resident(t, worker))
	_ = worker.Process.Signal(syscall.SIGTERM)
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker: %v", err)
	}
}

// resident is the memory of a process in MB.
func resident(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(text)[0])
			return cmp.Or(kb, 1) / map[bool]int{true: 1024}[err == nil]
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
