package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/agent/worker"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// wants holds an answer to its status and to texts that it has.
func wants(t *testing.T, what string, status int, page string, want int, texts ...string) {
	t.Helper()
	if status != want {
		t.Errorf("%s: got %d, want %d\n%s", what, status, want, page)
	}
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("%s: the page does not have %q:\n%s", what, text, page)
		}
	}
}

// TestJobs: a job is added, found in the queue, cancelled, and queued again.
func TestJobs(t *testing.T) {
	d := newDesk(t, nil)
	status, page := d.post(d.browser, "/jobs", url.Values{"prompt": {hostile}, "agent": {"clerk"}, "key": {"k"}, "begin": {"10m"}, "timeout": {"5m"}, "attempts": {"2"}})
	wants(t, "adding a job", status, page, http.StatusOK, "Job for clerk", "5m0s", "at most 2 failures", "Cancel the job")
	all, err := d.store.Jobs(t.Context(), store.JobQuery{})
	if err != nil || len(all) != 1 || all[0].Prompt != hostile || d.woken != 1 {
		t.Fatalf("got %+v, %v, woken %d, want the job", all, err, d.woken)
	}
	at := "/jobs/" + all[0].ID
	for _, tt := range []struct {
		what string
		form url.Values
		want string
	}{
		{"no prompt", url.Values{"prompt": {" "}}, "no prompt"},
		{"a time that is none", url.Values{"prompt": {"x"}, "begin": {"tomorrow"}}, "want a duration"},
		{"attempts", url.Values{"prompt": {"x"}, "attempts": {"-1"}}, "want a number"},
		{"a timeout", url.Values{"prompt": {"x"}, "timeout": {"-1m"}}, "want a duration above zero"},
		{"a key that is taken", url.Values{"prompt": {"another"}, "key": {"k"}}, "is there already"},
	} {
		status, page = d.post(d.browser, "/jobs", tt.form)
		wants(t, tt.what, status, page, http.StatusUnprocessableEntity, tt.want)
	}
	status, page = d.get(d.browser, "/jobs?state=queued&agent=clerk")
	wants(t, "the queue", status, page, http.StatusOK, all[0].ID, "<strong>1</strong> queued", "&lt;script&gt;")
	status, page = d.get(d.browser, "/jobs?state=none")
	wants(t, "a state that is none", status, page, http.StatusBadRequest)
	status, page = d.post(d.browser, at, url.Values{"do": {"cancel"}})
	wants(t, "cancelling", status, page, http.StatusOK, "cancelled", "No attempt was begun")
	status, page = d.post(d.browser, at, url.Values{"do": {"cancel"}})
	wants(t, "cancelling again", status, page, http.StatusConflict, "it cannot be done")
	status, page = d.post(d.browser, at, url.Values{"do": {"retry"}})
	wants(t, "retrying", status, page, http.StatusOK, "queued")
	status, page = d.post(d.browser, at, url.Values{"do": {"drop"}})
	wants(t, "another change", status, page, http.StatusBadRequest)
	status, page = d.get(d.browser, "/jobs/none")
	wants(t, "an unknown job", status, page, http.StatusNotFound)
}

// TestRetrySays: a job goes on behind what is recorded, or begins anew. Before it begins anew the page lists
// the calls of its attempts that may have had an effect, each once, also those of runs that they have started,
// and what is posted counts for these attempts only.
func TestRetrySays(t *testing.T) {
	d := newDesk(t, nil)
	ctx := t.Context()
	if _, err := d.store.AddJob(ctx, store.Job{ID: "j", Agent: "clerk", Prompt: "pay", Hook: "https://hooks.example/x"}); err != nil {
		t.Fatal(err)
	}
	claimed, err := d.store.ClaimJobs(ctx, "w", 1, time.Hour, []string{"clerk"})
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	j := claimed[0]
	d.record(j.Run, "", []runlog.Entry{
		{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "clerk"}},
		call("pay", "a", false), sent("a", ""), result("pay", "a"),
		call("look", "b", true), sent("b", ""), result("look", "b"),
		call("refused", "c", false),
		call("ask_other", "d", false), sent("d", "below"),
	})
	d.record("below", j.Run, []runlog.Entry{{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "other"}}, call("ship", "e", false), sent("e", "")})
	if _, err := d.store.UpdateJob(ctx, store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: j.Epoch}, Owner: "w", State: store.JobFailed, Failed: true, Error: hostile}); err != nil {
		t.Fatal(err)
	}
	status, page := d.get(d.browser, "/jobs/j")
	wants(t, "the job", status, page, http.StatusOK, "<code>pay</code>", "<code>ship</code>", "outcome unknown", "permit these calls again", "pay, 1 call; ship, 1 call, of them 1 of unknown outcome", "behind the last result", "waits for a worker to notify it", `href="/runs/`+j.Run)
	for _, text := range []string{"<code>look</code>", "<code>refused</code>", "<code>ask_other</code>"} {
		if strings.Contains(page, text) {
			t.Errorf("the page says that %s may be made again", text)
		}
	}
	status, page = d.post(d.browser, "/jobs/j", url.Values{"do": {"restart"}, "attempts": {"0"}})
	wants(t, "restarting after another attempt", status, page, http.StatusConflict, "tried again meanwhile")
	for do, from := range map[string]string{"retry": j.Run, "restart": ""} {
		status, page = d.post(d.browser, "/jobs/j", url.Values{"do": {do}, "attempts": {"1"}})
		wants(t, do, status, page, http.StatusOK, "queued")
		got, err := d.store.CancelJob(ctx, "j")
		if err != nil || got.From != from {
			t.Errorf("%s: got a job from %q, %v, want it from %q", do, got.From, err, from)
		}
	}
}

// TestJobWaitsForAProvider: the page of a job says which provider it waits for, why, and until when.
func TestJobWaitsForAProvider(t *testing.T) {
	d := newDesk(t, nil)
	ctx := t.Context()
	if _, err := d.store.AddJob(ctx, store.Job{ID: "j", Agent: "clerk", Prompt: "pay"}); err != nil {
		t.Fatal(err)
	}
	claimed, err := d.store.ClaimJobs(ctx, "w", 1, time.Hour, []string{"clerk"})
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	d.record(claimed[0].Run, "", []runlog.Entry{{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "clerk"}},
		{Type: runlog.RunParkedType, Body: &runlog.RunParked{Why: "no", Class: "auth", Since: time.Now().Add(-time.Hour), Wake: time.Now().Add(time.Hour)}}})
	u := store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: claimed[0].Epoch}, Owner: "w", State: store.JobWaiting, Release: true,
		NotBefore: time.Now().Add(time.Hour), Error: "waits for provider openai: auth: no"}
	if _, err := d.store.UpdateJob(ctx, u); err != nil {
		t.Fatal(err)
	}
	status, page := d.get(d.browser, "/jobs/j")
	wants(t, "the job", status, page, http.StatusOK, "waits for provider openai: auth: no. The provider has been away since", "It is tried again at")
	status, page = d.get(d.browser, "/runs/"+claimed[0].Run)
	wants(t, "the run", status, page, http.StatusOK, "Waits for its model's provider", "The provider has been away since", "(auth)", "It is tried again at")
}

func (d *desk) record(id, parent string, entries []runlog.Entry) {
	d.t.Helper()
	var events []store.Event
	for i := range entries {
		entries[i].Time = time.Now()
		ev, err := entries[i].Encode()
		if err != nil {
			d.t.Fatal(err)
		}
		events = append(events, ev)
	}
	if _, err := d.store.Create(d.t.Context(), store.Run{ID: id, Agent: "clerk", Parent: parent, Epoch: 1, InputHash: "h"}, "w", time.Hour, events...); err != nil {
		d.t.Fatal(err)
	}
}

func call(tool, key string, safe bool) runlog.Entry {
	return runlog.Entry{Type: store.ToolIntent, Key: key, Body: &runlog.ToolIntent{Tool: tool, CallID: key, Safe: safe, Arguments: json.RawMessage(`{}`)}}
}

func sent(key, run string) runlog.Entry {
	return runlog.Entry{Type: store.ToolDispatched, Key: key, Body: &runlog.ToolDispatched{CallID: key, Run: run}}
}

func result(tool, key string) runlog.Entry {
	return runlog.Entry{Type: store.ToolResult, Key: key, Body: &runlog.ToolResult{Tool: tool, CallID: key, Made: true, Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text("ok")}}}}
}

// TestSchedules: a schedule is added, paused, resumed and removed.
func TestSchedules(t *testing.T) {
	d := newDesk(t, nil)
	add := url.Values{"do": {"add"}, "name": {hostile[:20]}, "cron": {"0 8 * * *"}, "zone": {"Europe/Berlin"}, "prompt": {hostile}}
	status, page := d.post(d.browser, "/schedules", add)
	wants(t, "adding", status, page, http.StatusOK, "Europe/Berlin", "Pause")
	status, page = d.post(d.browser, "/schedules", add)
	wants(t, "adding it again", status, page, http.StatusUnprocessableEntity, "is there already")
	for field, value := range map[string]string{"name": "", "cron": "never", "zone": "Mars/Olympus", "prompt": ""} {
		wrong := url.Values{"do": {"add"}, "name": {"x"}, "cron": {"@daily"}, "prompt": {"p"}}
		wrong.Set(field, value)
		status, page = d.post(d.browser, "/schedules", wrong)
		wants(t, field, status, page, http.StatusUnprocessableEntity, `role="alert"`)
	}
	for _, change := range []struct{ do, shows string }{{"pause", "paused"}, {"resume", "Pause"}, {"remove", "There is no schedule"}} {
		status, page = d.post(d.browser, "/schedules", url.Values{"do": {change.do}, "name": {hostile[:20]}})
		wants(t, change.do, status, page, http.StatusOK, change.shows)
	}
	status, page = d.post(d.browser, "/schedules", url.Values{"do": {"pause"}, "name": {"gone"}})
	wants(t, "pausing an unknown schedule", status, page, http.StatusNotFound)
}

// TestWorkers: workers that answer are shown as they say, others by their leases.
func TestWorkers(t *testing.T) {
	d := newDesk(t, func(o *console.Options) {
		o.Workers = func(context.Context) []worker.Status {
			return []worker.Status{{Owner: "here-1", Agents: []string{"clerk"}, Running: 3, Concurrency: 8, Ended: map[store.JobState]int64{store.JobDone: 7}}}
		}
	})
	if _, err := d.store.AddJob(t.Context(), store.Job{ID: "j", Agent: "clerk", Prompt: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.store.ClaimJobs(t.Context(), "far-2", 1, time.Hour, []string{"clerk"}); err != nil {
		t.Fatal(err)
	}
	status, page := d.get(d.browser, "/workers")
	wants(t, "the workers", status, page, http.StatusOK, "here-1", "3 of 8", "7 done", "far-2", "lease until")
}
