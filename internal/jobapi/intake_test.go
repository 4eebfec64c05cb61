package jobapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/jobapi"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

const token = "a-token-of-enough-bytes"

// web is an intake over HTTP.
type web struct {
	t     *testing.T
	url   string
	store store.Store
	added []store.Job
}

func newWeb(t *testing.T, change func(*jobapi.IntakeOptions)) *web {
	t.Helper()
	w := &web{t: t, store: memstore.New(nil)}
	o := jobapi.IntakeOptions{Jobs: w.store, Token: token, Guard: newGuard(t),
		Added: func(j store.Job) { w.added = append(w.added, j) }}
	if change != nil {
		change(&o)
	}
	in, err := jobapi.NewIntake(o)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(in)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

// do sends a request with the token, unless headers say otherwise: pairs of name and value.
func (w *web) do(method, path, body string, headers ...string) (int, http.Header, []byte) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Del(headers[i])
		if headers[i+1] != "" {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, out
}

// job sends a request that is answered with a job.
func (w *web) job(status int, method, path, body string, headers ...string) jobapi.Job {
	w.t.Helper()
	got, _, out := w.do(method, path, body, headers...)
	var j jobapi.Job
	if err := json.Unmarshal(out, &j); err != nil || got != status {
		w.t.Fatalf("%s %s: got %d %s, want %d and a job", method, path, got, out, status)
	}
	return j
}

// refused sends a request that is answered with a problem, which says something.
func (w *web) refused(status int, says, method, path, body string, headers ...string) {
	w.t.Helper()
	got, h, out := w.do(method, path, body, headers...)
	var p jobapi.Problem
	if err := json.Unmarshal(out, &p); err != nil || got != status || p.Status != status || p.Title == "" || !strings.Contains(p.Detail, says) {
		w.t.Errorf("%s %s %.80q %q: got %d %s, want %d that says %q", method, path, body, headers, got, out, status, says)
	}
	if kind := h.Get("Content-Type"); kind != "application/problem+json" {
		w.t.Errorf("%s %s: got %s, want a problem", method, path, kind)
	}
}

func TestIntake(t *testing.T) {
	w := newWeb(t, nil)
	j := w.job(http.StatusCreated, "POST", "/v1/jobs", `{"prompt":"Count.","agent":"reader","timeout":"10m","maxAttempts":2,"batch":"b"}`)
	if j.ID == "" || j.State != store.JobQueued || j.Agent != "reader" || j.TimeoutMS != 600_000 || j.MaxAttempts != 2 {
		t.Errorf("the job: got %+v", j)
	}
	if len(w.added) != 1 || w.added[0].ID != j.ID {
		t.Errorf("Added heard %v, want the job once", w.added)
	}
	if got := w.job(http.StatusOK, "GET", "/v1/jobs/"+j.ID, ""); got.Prompt != "Count." || got.Batch != "b" {
		t.Errorf("GET: got %+v", got)
	}
	w.job(http.StatusCreated, "POST", "/v1/jobs", `{"input":{"city":"Oslo"}}`)
	var page jobapi.Page
	if code, _, out := w.do("GET", "/v1/jobs?limit=1", ""); code != http.StatusOK || json.Unmarshal(out, &page) != nil || len(page.Jobs) != 1 || page.Next == "" {
		t.Fatalf("the list: got %d %s, want one job and where the next page is", code, out)
	}
	if page.Jobs[0].Agent != "main" || page.Jobs[0].Input != nil {
		t.Errorf("the list: got %+v, want the newest, without its input", page.Jobs[0])
	}
	var rest jobapi.Page
	if _, _, out := w.do("GET", "/v1/jobs?after="+page.Next+"&state=queued&state=running&agent=reader", ""); json.Unmarshal(out, &rest) != nil || len(rest.Jobs) != 1 || rest.Jobs[0].ID != j.ID {
		t.Errorf("the next page: got %s, want the first job", out)
	}
	if got := w.job(http.StatusOK, "DELETE", "/v1/jobs/"+j.ID, ""); got.State != store.JobCancelled {
		t.Errorf("DELETE: got %+v, want it cancelled", got)
	}
	w.job(http.StatusOK, "DELETE", "/v1/jobs/"+j.ID, "") // the same again
	w.job(http.StatusOK, "GET", "/v1/jobs/"+j.ID+"?wait=1h", "")
}

// A job of an agent that another worker may have is queued; the client is told that it is not known here.
func TestAgentsElsewhere(t *testing.T) {
	w := newWeb(t, func(o *jobapi.IntakeOptions) {
		o.Warning = func(_ context.Context, j *store.Job) string {
			if j.Agent == "main" {
				return ""
			}
			return "no worker has the agent " + j.Agent
		}
	})
	j := w.job(http.StatusCreated, "POST", "/v1/jobs", `{"id":"j1","prompt":"x","agent":"elsewhere"}`)
	if j.State != store.JobQueued || j.Warning != "no worker has the agent elsewhere" || len(w.added) != 1 {
		t.Errorf("got %+v, want it queued, with a warning", j)
	}
	if got := w.job(http.StatusOK, "GET", "/v1/jobs/j1", ""); got.Warning != "" || got.Agent != "elsewhere" {
		t.Errorf("GET: got %+v, want it without the warning", got)
	}
	if j := w.job(http.StatusCreated, "POST", "/v1/jobs", `{"prompt":"x"}`); j.Warning != "" {
		t.Errorf("of an agent that is known: got the warning %q", j.Warning)
	}
}

// Until a worker has started it says that it lives, and why it takes no jobs.
func TestStarting(t *testing.T) {
	h := jobapi.Starting("worker", func(context.Context) error { return errors.New("it waits for its store") })
	for path, want := range map[string]string{"/healthz": "200 ok", "/readyz": "503 it waits for its store", "/v1/jobs": "503 starting", "/metrics": "503 starting"} {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		code, says, _ := strings.Cut(want, " ")
		if fmt.Sprint(rec.Code) != code || !strings.Contains(rec.Body.String(), says) {
			t.Errorf("GET %s: got %d %s, want %s", path, rec.Code, rec.Body, want)
		}
	}
}

// A job that is handed in again is there once; a key for something else is refused.
func TestIdempotency(t *testing.T) {
	w := newWeb(t, nil)
	first := w.job(http.StatusCreated, "POST", "/v1/jobs", `{"prompt":"a"}`, "Idempotency-Key", "k1")
	again := w.job(http.StatusOK, "POST", "/v1/jobs", `{ "agent":"main", "prompt":"a" }`, "Idempotency-Key", `"k1"`)
	member := w.job(http.StatusOK, "POST", "/v1/jobs", `{"prompt":"a","key":"k1"}`)
	if first.ID != again.ID || first.ID != member.ID || len(w.added) != 1 {
		t.Errorf("got %s, %s and %s, and %d jobs, want one", first.ID, again.ID, member.ID, len(w.added))
	}
	w.refused(http.StatusConflict, "another one", "POST", "/v1/jobs", `{"prompt":"b"}`, "Idempotency-Key", "k1")
	w.refused(http.StatusBadRequest, "differ", "POST", "/v1/jobs", `{"prompt":"b","key":"x"}`, "Idempotency-Key", "y")
	w.refused(http.StatusUnprocessableEntity, "", "POST", "/v1/jobs", `{"prompt":"b"}`, "Idempotency-Key", strings.Repeat("k", 5000))
}

// A request without the token gets nothing, and no reason (SECA-49).
func TestToken(t *testing.T) {
	w := newWeb(t, nil)
	for _, h := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x", "Bearer " + token[:len(token)-1], "Bearer\t" + token} {
		for _, path := range []string{"/v1/jobs", "/v1/jobs/x", "/metrics"} {
			w.refused(http.StatusUnauthorized, "Authorization: Bearer", "GET", path, "", "Authorization", h)
		}
		w.refused(http.StatusUnauthorized, "", "POST", "/v1/jobs", `{"prompt":"x"}`, "Authorization", h)
	}
	w.refused(http.StatusUnauthorized, "", "GET", "/v1/jobs?token="+token, "", "Authorization", "")
	if len(w.added) != 0 {
		t.Errorf("jobs were added without the token: %v", w.added)
	}
	for _, short := range []string{"", "short"} {
		if _, err := jobapi.NewIntake(jobapi.IntakeOptions{Token: short}); err == nil {
			t.Errorf("NewIntake with the token %q: got no error", short)
		}
	}
}

// What is not a job is refused by name (SECA-02, SECA-04, ROB-3).
func TestHostileRequests(t *testing.T) {
	w := newWeb(t, nil)
	post := func(status int, says, body string, headers ...string) {
		t.Helper()
		w.refused(status, says, "POST", "/v1/jobs", body, headers...)
	}
	post(http.StatusUnsupportedMediaType, "application/json", `{"prompt":"x"}`, "Content-Type", "text/plain")
	post(http.StatusUnsupportedMediaType, "application/json", `{"prompt":"x"}`, "Content-Type", "")
	post(http.StatusUnsupportedMediaType, "application/json", `{"prompt":"x"}`, "Content-Type", "application/json; charset=utf-16")
	post(http.StatusUnsupportedMediaType, "compressed", `{"prompt":"x"}`, "Content-Encoding", "gzip")
	post(http.StatusRequestEntityTooLarge, "longer than", `{"prompt":"`+strings.Repeat("x", jobapi.MaxRequest)+`"}`)
	post(http.StatusUnprocessableEntity, "Prompt", `{"prompt":"`+strings.Repeat("x", store.MaxInput+1)+`"}`)
	post(http.StatusBadRequest, "not as expected", `{"prompt":`)
	post(http.StatusBadRequest, "not as expected", `{"Prompt":"x"}`)
	post(http.StatusBadRequest, "not as expected", `{"prompt":"x","prompt":"y"}`)
	post(http.StatusBadRequest, "not as expected", `{"prompt":"x","owner":"me"}`)
	post(http.StatusBadRequest, "not as expected", `[1]`)
	post(http.StatusBadRequest, "not as expected", `{"prompt":"x"}{"prompt":"y"}`)
	post(http.StatusUnprocessableEntity, "no prompt", `{}`)
	post(http.StatusUnprocessableEntity, "Agent", `{"prompt":"x","agent":"`+strings.Repeat("a", 5000)+`"}`)
	post(http.StatusUnprocessableEntity, "timeout", `{"prompt":"x","timeout":"-1s"}`)
	post(http.StatusUnprocessableEntity, "id: want letters", `{"prompt":"x","id":"../../etc"}`)
	post(http.StatusUnprocessableEntity, "MaxAttempts", `{"prompt":"x","maxAttempts":-1}`)
	post(http.StatusUnprocessableEntity, "hook", `{"prompt":"x","hook":"https://169.254.169.254/"}`) // SECA-16
	post(http.StatusForbidden, "", `{"prompt":"x"}`, "Sec-Fetch-Site", "cross-site")
	w.refused(http.StatusNotFound, "no such job", "GET", "/v1/jobs/none", "")
	w.refused(http.StatusNotFound, "no such job", "DELETE", "/v1/jobs/none", "")
	w.refused(http.StatusNotFound, "no such job", "GET", "/v1/jobs/%2e%2e%2f", "")
	w.refused(http.StatusNotFound, "no such path", "GET", "/admin", "")
	w.refused(http.StatusMethodNotAllowed, "GET, POST", "PUT", "/v1/jobs", `{}`)
	w.refused(http.StatusMethodNotAllowed, "GET, DELETE", "POST", "/v1/jobs/x", `{}`)
	w.refused(http.StatusBadRequest, "limit", "GET", "/v1/jobs?limit=1000000", "")
	w.refused(http.StatusUnprocessableEntity, "", "GET", "/v1/jobs?state=sleeping", "")
	w.refused(http.StatusUnprocessableEntity, "", "GET", "/v1/jobs?after=nonsense", "")
	w.refused(http.StatusBadRequest, "wait", "GET", "/v1/jobs/x?wait=long", "")
	if len(w.added) != 0 {
		t.Errorf("jobs were added: %+v", w.added)
	}
}

// Without a secret for webhooks no job that wants one is taken.
func TestHookWithoutSecret(t *testing.T) {
	w := newWeb(t, func(o *jobapi.IntakeOptions) { o.Guard = nil })
	w.refused(http.StatusUnprocessableEntity, "hook_secret", "POST", "/v1/jobs", `{"prompt":"x","hook":"https://example.com/"}`)
}

func TestHealth(t *testing.T) {
	var not error
	w := newWeb(t, func(o *jobapi.IntakeOptions) { o.Ready = func(context.Context) error { return not } })
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, _, out := w.do("GET", path, "", "Authorization", ""); code != http.StatusOK {
			t.Errorf("%s: got %d %s", path, code, out)
		}
	}
	if _, _, out := w.do("GET", "/readyz", "", "Authorization", ""); strings.TrimSpace(string(out)) != `{"status":"ready"}` {
		t.Errorf("/readyz: got %s", out)
	}
	not = errors.New("it is draining")
	w.refused(http.StatusServiceUnavailable, "draining", "GET", "/readyz", "", "Authorization", "")
	w.refused(http.StatusNotFound, "no metrics", "GET", "/metrics", "")
}

// The intake takes jobs while a provider of models is away, and says which, why, since when, and when it
// is tried again; it says nothing else of it, for no token is needed.
func TestReadyWithoutAProvider(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w := newWeb(t, func(o *jobapi.IntakeOptions) {
		o.Providers = func() []jobapi.Provider {
			return []jobapi.Provider{{Name: "anthropic", Circuit: "closed"},
				{Name: "ollama", Circuit: "open", Class: "unreachable", Since: noon, Until: noon.Add(time.Minute)},
				{Name: "openai", Circuit: "closed", Class: "auth", Since: noon}}
		}
	})
	const want = `{"status":"ready","away":[{"provider":"ollama","class":"unreachable","since":"2026-01-31T12:00:00Z","until":"2026-01-31T12:01:00Z"},` +
		`{"provider":"openai","class":"auth","since":"2026-01-31T12:00:00Z"}]}`
	if code, _, out := w.do("GET", "/readyz", "", "Authorization", ""); code != http.StatusOK || strings.TrimSpace(string(out)) != want {
		t.Errorf("got %d %s, want %s", code, out, want)
	}
}

// A wait for a job ends with its end.
func TestWait(t *testing.T) {
	w := newWeb(t, nil)
	j := w.job(http.StatusCreated, "POST", "/v1/jobs", `{"prompt":"x"}`)
	cancelled := make(chan error, 1)
	go func() {
		_, err := w.store.CancelJob(context.Background(), j.ID)
		cancelled <- err
	}()
	if got := w.job(http.StatusOK, "GET", "/v1/jobs/"+j.ID+"?wait=30s", ""); got.State != store.JobCancelled {
		t.Errorf("got %s, want the end", got.State)
	}
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
}

// An error of the store is the intake's, and what it says stays in the log.
func TestStoreFails(t *testing.T) {
	w := newWeb(t, nil)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.refused(http.StatusServiceUnavailable, "store", "POST", "/v1/jobs", `{"prompt":"x"}`)
}

// file is a store with a size.
type file struct{ store.Store }

func (file) Space() (size, free int64, err error) { return 4096, 1 << 20, nil }

func TestMetrics(t *testing.T) {
	s := file{memstore.New(nil)}
	if _, err := s.AddJob(t.Context(), store.Job{Agent: "main", Prompt: "x"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		if err := s.OpenAsk(t.Context(), store.Ask{ID: id, Kind: "tool"}); err != nil {
			t.Fatal(err)
		}
	}
	for name, paused := range map[string]bool{"nightly": false, "never": true} {
		if _, err := s.PutSchedule(t.Context(), store.Schedule{Name: name, Cron: "c", Agent: "main", Prompt: "x", Paused: paused}); err != nil {
			t.Fatal(err)
		}
	}
	sys := newSystem2(t)
	probe := jobapi.NewStoreProbe(sys, s, func() int { return 0 }, slog.New(slog.DiscardHandler))
	m := jobapi.NewMetrics(jobapi.MetricsOptions{System: sys, Store: s, Version: "v1", Commit: "abc", Probe: probe, Now: func() jobapi.Places { return jobapi.Places{Running: 2, Waiting: 3, MaxWaiting: 9} },
		Stalled: func() int { return 4 }, Providers: func() []jobapi.Provider {
			return []jobapi.Provider{{Name: "a", Circuit: "closed"}, {Name: "b", Circuit: "open", Class: "server", Errors: map[string]int64{"server": 5, "auth": 1}},
				{Name: "c", Circuit: "half-open", Class: "server"}, {Name: "d\xff", Circuit: "closed", Class: "auth"}}
		}})
	m.Event("job.started")
	m.Started(store.Job{Agent: "main"}, 2*time.Second)
	m.Hook("delivered")
	m.Ended(store.Job{Agent: "main", State: store.JobDone, Result: json.RawMessage(
		`{"runId":"r","spent":{"tokens":120,"cost":"0.25","modelCalls":3,"toolCalls":2}}`)}, 4*time.Second)
	m.Ended(store.Job{Agent: "main", State: store.JobFailed, Result: json.RawMessage(`rubbish`)}, 0)
	w := newWeb(t, func(o *jobapi.IntakeOptions) { o.Metrics = m.Handler() })
	_, h, out := w.do("GET", "/metrics", "")
	if !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("the type: got %q", h.Get("Content-Type"))
	}
	for _, want := range []string{
		`troupe_jobs{state="queued"} 1`, `troupe_jobs{state="unknown"} 0`, `troupe_worker_jobs{state="waiting"} 3`, `troupe_questions{kind="tool"} 2`, `troupe_questions_oldest_age_seconds `, `troupe_jobs_queued_oldest_age_seconds `,
		`troupe_jobs_parked 0`, `troupe_store_bytes 4096`, `troupe_store_free_bytes 1.048576e+06`, `troupe_schedule_last_success_timestamp_seconds{schedule="nightly"} `, `troupe_build_info{commit="abc",go="go`,
		`troupe_jobs_ended_total{agent="main",state="done"} 1`, `troupe_jobs_ended_total{agent="main",state="failed"} 1`,
		`troupe_job_duration_seconds_sum{agent="main"} 4`, `troupe_job_wait_seconds_sum{agent="main"} 2`,
		`troupe_tokens_total{agent="main"} 120`, `troupe_cost_total{agent="main"} 0.25`,
		`troupe_worker_max_parked_jobs 9`, `troupe_model_calls_total{agent="main"} 3`, `troupe_tool_calls_total{agent="main"} 2`,
		`troupe_provider_circuit{provider="a"} 0`, `troupe_provider_circuit{provider="b"} 1`, `troupe_provider_circuit{provider="c"} 0.5`,
		"troupe_provider_circuit{provider=\"d\uFFFD\"} 1", `troupe_model_errors_total{class="server",provider="b"} 5`, `troupe_model_errors_total{class="auth",provider="b"} 1`,
		`troupe_webhooks_total{result="delivered"} 1`, `troupe_job_events_total{event="job.started"} 1`,
		`troupe_actors{kind="runtime"} 1`, `troupe_messages_dropped_total 0`, `troupe_store_up 1`, `troupe_runs_stalled 4`, "go_goroutines", "process_",
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if bytes.Contains(out, []byte("never")) {
		t.Error("a schedule that is paused is among those that should succeed")
	}
}

// FuzzRequest holds that whatever is handed in is a job or an error, and nothing else.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{"prompt":"x"}`, `{"input":{}}`, `{"prompt":1}`, `null`, ``, `{"timeout":"1h","prompt":"x","notBefore":"2026-01-01T00:00:00Z"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := jobapi.ParseRequest(data)
		if err != nil {
			return
		}
		j, err := r.Job(nil)
		if err == nil && (j.Agent == "" || j.Hook != "" || j.Timeout < 0 || j.Prompt == "" && len(j.Input) == 0) {
			t.Errorf("ParseRequest(%q): got %+v", data, j)
		}
	})
}
