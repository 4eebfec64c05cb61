package worker_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/runfile"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// TestOldVersions: what earlier programs have left in a store is listed, shown, exported and, where it
// had not ended, goes on. The files of testdata were written by the programs of these commits, by
// a runtime and a worker with the agent and the tools below whose process was ended while a call ran,
// with a store whose clock stood in January 2025 (sqlite.Options.Now), and compressed with gzip -9:
//
//   - schema4.db.gz: f9cdfd6. Its journals are of version 1, from before runs went on.
//   - schema6.db.gz: aa832f7. Its journals are of version 2.
//
// They hold the runs run-plain and run-look, which have finished; run-ask, which was suspended while it
// asked; run-hang, which ended during a call; the jobs job-look, which is done, job-ask, whose worker was
// lost while it asked, job-queued of another agent; a schedule, a pin and an approval.
func TestOldVersions(t *testing.T) {
	for _, name := range []string{"schema4", "schema6"} {
		t.Run(name, func(t *testing.T) {
			s := unpack(t, filepath.Join("testdata", name+".db.gz"))
			list(t, s)
			export(t, s)
			goesOn(t, s)
		})
	}
}

// unpack opens a copy of a compressed store.
func unpack(t *testing.T, path string) store.Store {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "troupe.db")
	if err := os.WriteFile(copied, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(copied, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// list looks at what is in the store.
func list(t *testing.T, s store.Store) {
	t.Helper()
	states := make(map[string]string)
	runs, err := s.Runs(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		states[r.ID] = string(r.State)
	}
	jobs, err := s.Jobs(t.Context(), store.JobQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		states[j.ID] = string(j.State)
	}
	for id, want := range map[string]string{"run-plain": "finished", "run-look": "finished", "run-ask": "waiting", "run-hang": "running",
		"job-look.1": "finished", "job-ask.1": "waiting", "job-look": "done", "job-ask": "waiting", "job-queued": "queued"} {
		if states[id] != want {
			t.Errorf("%s: got %q, want %q", id, states[id], want)
		}
	}
	asks, err := s.Asks(t.Context(), store.AskQuery{Status: store.AskPending})
	if err != nil || len(asks) != 2 {
		t.Errorf("Asks: got %d, %v, want 2", len(asks), err)
	}
	schedules, err := s.Schedules(t.Context())
	if err != nil || len(schedules) != 1 || schedules[0].Name != "nightly" || schedules[0].Next.Year() != 2100 {
		t.Errorf("Schedules: got %+v, %v", schedules, err)
	}
	pins, err := s.Pins(t.Context())
	if err != nil || len(pins) != 1 || pins[0].Tool != "read" {
		t.Errorf("Pins: got %+v, %v", pins, err)
	}
	if _, ok, err := s.Approved(t.Context(), "/home/ada/troupe.yaml", "files", "sha256:ab"); err != nil || !ok {
		t.Errorf("Approved: got %v, %v", ok, err)
	}
	if j, err := s.AddJob(t.Context(), store.Job{ID: "again", Agent: "a", Prompt: "look", Key: "key-job-look"}); err == nil || j.ID != "job-look" {
		t.Errorf("AddJob of a key that is there: got %q, %v", j.ID, err)
	}
}

// export writes each run to a file and reads it again.
func export(t *testing.T, s store.Store) {
	t.Helper()
	runs, err := s.Runs(t.Context(), store.Query{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		entries, err := runlog.Entries(t.Context(), s, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		state := runlog.StateOf(entries)
		if last := state.Messages(); r.State == store.Finished && (state.Finished == nil || !strings.HasPrefix(last[len(last)-1].Content.Text(), "done")) {
			t.Errorf("%s: the fold: got %+v", r.ID, state)
		}
		var file bytes.Buffer
		all, err := runfile.Load(t.Context(), s, r.ID)
		if err == nil {
			err = runfile.Write(&file, all)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := runfile.Read(&file)
		if err != nil || len(again) != 1 || int64(len(again[0].Events)) != r.Seq {
			t.Errorf("%s: its file: got %d runs, %v", r.ID, len(again), err)
		}
	}
}

// goesOn works off what had not ended.
func goesOn(t *testing.T, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok := func(context.Context, struct{}) (string, error) { return "ok", nil }
	model := llmtest.Loop(llmtest.Func(func(_ context.Context, req *llm.Request) llmtest.Turn {
		tool := req.Messages[0].Content.Text()
		if tool == "plain" || len(req.Messages) > 1 {
			return llmtest.Say("done " + tool)
		}
		return llmtest.Call(tool, nil)
	}))
	rt, err := agent.Open(ctx, &agent.Options{Model: model, Store: s, Approve: agent.NeverAsk, Tools: []agent.Tool{
		agent.Func("look", "Looks.", ok), agent.NeedsApproval(agent.Func("ask", "Asks.", ok)), agent.Func("hang", "Hangs.", ok)}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var agents []*agent.Agent
	for _, name := range []string{"a", "b"} {
		a, err := rt.Agent(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, a)
	}
	asks, err := s.Asks(ctx, store.AskQuery{Status: store.AskPending})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range asks {
		if _, err := s.SettleAsk(ctx, a.ID, store.Decision{Status: store.AskAccepted, By: "ada"}); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan store.Job, 10)
	w, err := worker.New(rt, &worker.Options{Agents: agents, Store: s, Poll: 50 * time.Millisecond, OnEvent: func(ev worker.Event) {
		if ev.Type == worker.JobEnded {
			ended <- ev.Job
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	works, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Run(works) }()
	var done []string
	for range 2 {
		select {
		case j := <-ended:
			done = append(done, j.ID+" "+string(j.State)+" "+j.Error)
		case <-ctx.Done():
			t.Fatalf("the jobs have not ended, but %q", done)
		}
	}
	slices.Sort(done)
	if want := []string{"job-ask done ", "job-queued done "}; !slices.Equal(done, want) {
		t.Errorf("jobs: got %q, want %q", done, want)
	}
	for _, id := range []string{"run-ask", "run-hang"} {
		run, err := rt.Resume(ctx, id, &agent.ResumeOptions{OnUnknown: agent.TellUnknown})
		if err != nil {
			t.Errorf("Resume(%q): %v", id, err)
			continue
		}
		if res, err := run.Wait(ctx); err != nil || !strings.HasPrefix(res.Text, "done") {
			t.Errorf("%s: got %+v, %v", id, res, err)
		}
	}
	stop()
	if err := <-stopped; err != nil {
		t.Errorf("Run: %v", err)
	}
}
