package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/memstore"
)

// hands is a control that notes what it is asked for.
type hands struct {
	mu   sync.Mutex // guards did: handlers of requests write it
	did  []string
	fail error
}

func (h *hands) note(format string, args ...any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, fmt.Sprintf(format, args...))
	return h.fail
}

func (h *hands) Cancel(_ context.Context, run, cause string) error {
	return h.note("cancel %s: %s", run, cause)
}
func (h *hands) Park(_ context.Context, run string) error   { return h.note("park %s", run) }
func (h *hands) Resume(_ context.Context, run string) error { return h.note("resume %s", run) }
func (h *hands) Fork(_ context.Context, run string, f console.Fork) error {
	return h.note("fork %s at %d, prompt %q, say %q", run, f.At, f.Prompt, f.Say)
}
func (h *hands) Saying(context.Context, string) (int, string, error) { return 2, hostile, nil }

// free releases the lease of a run.
func free(t *testing.T, s store.Store, id string) {
	t.Helper()
	if err := s.Release(t.Context(), id, "w", 1); err != nil {
		t.Fatal(err)
	}
}

// TestOperations: an operator cancels, parks, resumes and forks runs, after a page that says what will
// happen; what is not possible is refused with a reason, before and after the form is sent.
func TestOperations(t *testing.T) {
	tests := []struct {
		name, run, op string
		form          url.Values
		shows         string // by the page that asks
		did           string // empty for nothing
		status        int    // of the form; the redirect is followed to a run, which a fork of this control is not
	}{
		{"cancel", "live", "cancel", nil, "It cannot be resumed", "cancel live: cancelled by console:ada", 200},
		{"cancel what is parked", "parked", "cancel", nil, "its effect", "", 200},
		{"park", "live", "park", nil, "Nothing more begins", "park live", 200},
		{"park what is parked", "parked", "park", nil, "No process works on the run", "", 409},
		{"resume", "parked", "resume", nil, "may have had its effect", "resume parked", 200},
		{"resume what runs", "live", "resume", nil, "A process works on the run", "", 409},
		{"cancel what has ended", "done", "cancel", nil, "has ended, as finished", "", 409},
		{"a part of another run", "part", "cancel", nil, "a part of the run live", "", 409},
		{"an attempt of a job", "job-1.1", "cancel", nil, "troupe jobs cancel job-1", "", 409},
		{"fork", "done", "fork", url.Values{"at": {"3"}, "say": {"Go on."}, "prompt": {"Book a room"}}, "This run stays as it is", `fork done at 3, prompt "", say "Go on."`, 404},
		{"fork with another prompt", "done", "fork", url.Values{"prompt": {"Book two\r\nrooms"}}, "takes over 6 events, with 1 turn of", `fork done at 6, prompt "Book two\nrooms", say ""`, 404},
		{"no operation", "live", "explode", nil, "no such page", "", 404},
		{"no run", "nothing", "cancel", nil, "no such page", "", 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := new(hands)
			d := newDesk(t, func(o *console.Options) { o.Runs = h })
			entries := plain("m", "Book a room", "desk", "book", "done", 1)
			record(t, d.store, store.Run{ID: "live"}, entries...)
			record(t, d.store, store.Run{ID: "done", State: store.Finished}, entries...)
			record(t, d.store, store.Run{ID: "part", Parent: "live"}, entries...)
			record(t, d.store, store.Run{ID: "parked", State: store.Waiting}, entries[:5]...)
			free(t, d.store, "parked")
			addJob(t, d.store)
			_, page := d.get(d.browser, "/runs/"+tt.run+"/"+tt.op)
			if !strings.Contains(page, tt.shows) && tt.name != "cancel what is parked" {
				t.Errorf("the page does not say %q:\n%s", tt.shows, page)
			}
			status, page := d.post(d.browser, "/runs/"+tt.run+"/"+tt.op, tt.form)
			if status != tt.status || status == http.StatusConflict && !strings.Contains(page, tt.shows) {
				t.Errorf("the form: %d\n%s", status, page)
			}
			if got := strings.Join(h.did, ", "); got != tt.did {
				t.Errorf("done: %q, want %q", got, tt.did)
			}
		})
	}
}

// addJob adds a job whose attempt is under way.
func addJob(t *testing.T, s store.Store) {
	t.Helper()
	if _, err := s.AddJob(t.Context(), store.Job{ID: "job-1", Agent: "a", Prompt: "x"}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ClaimJobs(t.Context(), "w", 1, time.Hour, []string{"a"}); err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	record(t, s, store.Run{ID: "job-1.1"}, plain("m", "x", "s", "t", "r", 0)...)
}

// TestCancelParked: a run that no process works on ends as cancelled, with those below it; its questions are
// withdrawn, and a call that was sent is of unknown outcome.
func TestCancelParked(t *testing.T) {
	d := newDesk(t, nil)
	entries := plain("m", "Book a room", "desk", "book", "done", 7)[:4]
	record(t, d.store, store.Run{ID: "r", State: store.Waiting}, append(entries,
		runlog.Entry{Type: store.ToolDispatched, Key: "n-1-0", Body: &runlog.ToolDispatched{Turn: 1, CallID: "c1", Run: "below"}})...)
	record(t, d.store, store.Run{ID: "below", Parent: "r", State: store.Waiting}, plain("m", "x", "s", "t", "r", 5)...)
	free(t, d.store, "r")
	free(t, d.store, "below")
	d.openCall("a")
	if status, page := d.post(d.browser, "/runs/r/cancel", nil); status != http.StatusOK || !strings.Contains(page, "cancelled by console:ada") {
		t.Errorf("%d:\n%s", status, page)
	}
	for _, id := range []string{"r", "below"} {
		if r, err := d.store.Run(t.Context(), id); err != nil || r.State != store.Cancelled {
			t.Errorf("%s: %s, %v", id, r.State, err)
		}
	}
	if a, err := d.store.Ask(t.Context(), "a"); err != nil || a.Status != store.AskCancelled {
		t.Errorf("the question: %s, %v", a.Status, err)
	}
	s, err := runlog.Fold(t.Context(), d.store, "r")
	if err != nil || s.Finished == nil || s.Finished.Spent.Cost != 12 || s.Calls[0].Open() {
		t.Errorf("the journal: %+v, %v", s.Finished, err)
	}
}

// TestOperationsNeedOperators: who may only look or answer, and a form of another site, change no run (SECA-41).
func TestOperationsNeedOperators(t *testing.T) {
	h, s, role := new(hands), memstore.New(nil), console.Viewer
	record(t, s, store.Run{ID: "live"}, plain("m", "x", "s", "t", "r", 0)...)
	c, err := console.New(&console.Options{Store: s, Runs: h, Hosts: []string{"c"}, Visitor: func(*http.Request) (string, console.Role) { return "eve", role }})
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, func(o *console.Options) { o.Runs = h })
	record(t, d.store, store.Run{ID: "live"}, plain("m", "x", "s", "t", "r", 0)...)
	for _, op := range []string{"cancel", "park", "resume", "fork"} {
		for _, role = range []console.Role{console.Viewer, console.Answerer} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				if status, _ := visit(c, method, "/runs/live/"+op, nil); status != http.StatusForbidden {
					t.Errorf("%s %s by %d: %d", method, op, role, status)
				}
			}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.server.URL+"/runs/live/"+op, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", "https://evil.example")
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		if status, _ := d.do(d.browser, req); status != http.StatusForbidden {
			t.Errorf("%s by another site: %d", op, status)
		}
		if status, _ := d.get(d.browser, "/runs/live/"+op); status != http.StatusOK { // asks only
			t.Errorf("the page of %s: %d", op, status)
		}
	}
	if status, _ := visit(c, http.MethodGet, "/runs/live/export", nil); status != http.StatusForbidden {
		t.Errorf("an export for an answerer: %d", status)
	}
	if _, page := visit(c, http.MethodGet, "/runs/live", nil); strings.Contains(page, `class="button"`) {
		t.Error("an answerer is shown what only operators may do")
	}
	if len(h.did) > 0 {
		t.Errorf("done: %q", h.did)
	}
}

// TestWithoutControl: a console that reaches no process says which command does what it cannot.
func TestWithoutControl(t *testing.T) {
	d := newDesk(t, nil)
	record(t, d.store, store.Run{ID: "r", State: store.Waiting}, plain("m", "x", "s", "t", "r", 0)...)
	_, page := d.get(d.browser, "/runs/r")
	if !strings.Contains(page, "is shown when its turn has ended") {
		t.Errorf("the page does not say when the text comes:\n%s", page)
	}
	if _, page := d.get(d.browser, "/runs/r/fork"); !strings.Contains(page, "<pre>troupe runs fork r</pre>") {
		t.Errorf("fork:\n%s", page)
	}
	free(t, d.store, "r")
	if _, page := d.get(d.browser, "/runs/r/resume"); !strings.Contains(page, "<pre>troupe runs resume r</pre>") {
		t.Errorf("resume:\n%s", page)
	}
}

// TestHostileRun: what models, servers and people write in a run is text on each page of it (SECA-34).
func TestHostileRun(t *testing.T) {
	d := newDesk(t, func(o *console.Options) { o.Runs = new(hands) })
	arguments := json.RawMessage(`{"<img src=x>":"</pre><script>alert(1)</script>"}`)
	entries := []runlog.Entry{
		{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: hostile, Model: hostile, System: hostile, Input: []llm.Message{llm.User(hostile)}, Nonce: "n"}},
		{Type: runlog.ToolsListedType, Body: &runlog.ToolsListed{Tools: []runlog.ToolRef{{Name: hostile, Server: hostile}}, Texts: []runlog.ServerText{{Server: hostile, Text: hostile}}}},
		{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: 1}},
		{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Finish: llm.FinishReason(hostile), Thinking: hostile, Usage: runlog.Usage{Input: 3},
			Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text(hostile), &mcp.ToolUseContent{ID: "c1", Name: hostile, Input: arguments}}}}},
		{Type: store.ToolIntent, Key: "n-1-0", Body: &runlog.ToolIntent{Turn: 1, CallID: "c1", Tool: hostile, Server: hostile, Arguments: arguments}},
		{Type: runlog.ToolWaitingType, Key: "n-1-0", Body: &runlog.ToolWaiting{Turn: 1, Tool: hostile, For: hostile}},
		{Type: store.ToolDispatched, Key: "n-1-0", Body: &runlog.ToolDispatched{Turn: 1, CallID: "c1", Run: "below"}},
		{Type: store.ToolResult, Key: "n-1-0", Body: &runlog.ToolResult{Turn: 1, CallID: "c1", Tool: hostile, Server: hostile, Made: true,
			Result: &mcp.CallToolResult{StructuredContent: arguments, Content: mcp.Contents{mcp.Text(hostile), &mcp.ResourceLink{URI: "javascript:alert(1)", Description: hostile},
				&mcp.EmbeddedResource{Resource: mcp.ResourceContents{URI: `"><script>`, Text: hostile}}, &mcp.ImageContent{MIMEType: `"><script>`}}}}},
		{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: 2}},
		{Type: runlog.ModelFailedType, Body: &runlog.ModelFailed{Turn: 2, Error: hostile}},
	}
	record(t, d.store, store.Run{ID: "r", Agent: hostile, Title: hostile}, entries...)
	record(t, d.store, store.Run{ID: "below", Parent: "r", Agent: hostile, Title: hostile}, entries[:5]...)
	record(t, d.store, store.Run{ID: "other", Agent: hostile, Title: hostile}, entries[:3]...)
	for _, path := range []string{"/runs/r", "/runs/r/turns/1", "/runs/r/turns/2", "/runs/r/cancel", "/runs/r/park", "/runs/r/resume", "/runs/r/fork", "/runs/r/fork?say=%3Cscript%3E&prompt=%3C/textarea%3E%3Cscript%3E",
		"/runs/r/diff?with=other", "/runs/r/diff?with=%3Cscript%3E", "/runs?text=%22%3E%3Cscript%3E&tool=%3Cscript%3E"} {
		_, page := d.get(d.browser, path)
		page = strings.ReplaceAll(page, `<script src="/assets/live.js"`, "")
		for _, bad := range []string{"<script", "<img", `href="javascript:`} {
			if i := strings.Index(page, bad); i >= 0 {
				t.Errorf("%s has %q:\n%s", path, bad, page[max(0, i-200):min(len(page), i+200)])
			}
		}
		if strings.Contains(page, "cannot be shown") {
			t.Errorf("%s cannot be shown", path)
		}
	}
	_, page := d.get(d.browser, "/runs/r")
	for _, want := range []string{`href="/runs/below"`, "The turn under way", "no answer"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

// TestCompareAndExport: the difference of two runs, and a run as a file without its secrets.
func TestCompareAndExport(t *testing.T) {
	d := newDesk(t, nil)
	record(t, d.store, store.Run{ID: "a"}, plain("m", "Book a room", "desk", "book", "done", 1)...)
	record(t, d.store, store.Run{ID: "b"}, plain("m", "Book a room", "desk", "book", "password=hunter22", 1)...)
	if _, page := d.get(d.browser, "/runs/b/diff?with=a"); !strings.Contains(page, `class="gone"`) || !strings.Contains(page, `class="new"`) {
		t.Errorf("the comparison:\n%s", page)
	}
	if _, page := d.get(d.browser, "/runs/a/diff?with=a"); !strings.Contains(page, "do not differ") {
		t.Errorf("the comparison with itself:\n%s", page)
	}
	if _, page := d.get(d.browser, "/runs/a/diff?with=c"); !strings.Contains(page, "There is no run with this ID") {
		t.Errorf("the comparison with none:\n%s", page)
	}
	status, file := d.get(d.browser, "/runs/b/export")
	if status != http.StatusOK || !strings.Contains(file, `"run.started"`) || strings.Contains(file, "hunter22") {
		t.Errorf("the export: %d\n%s", status, file)
	}
}

// TestRuntimeControl: over a runtime of this process a run is parked, resumed, forked and cancelled, and what
// its model says is seen while it says it.
func TestRuntimeControl(t *testing.T) {
	s := memstore.New(nil)
	gate := llmtest.NewGate()
	rt, err := agent.Open(t.Context(), &agent.Options{Store: s, Model: llmtest.Script(
		llmtest.Join(llmtest.Say("It is …"), llmtest.Hold(gate)), llmtest.Say("It is done."))})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	control := console.ControlOf(rt)
	if _, _, err := control.Saying(t.Context(), "nothing"); err == nil {
		t.Error("a run that does not exist says something")
	}
	run, err := rt.Start(t.Context(), "Do it.", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-gate.Reached()
	for ev, err := range run.Events(t.Context()) {
		if _, said := ev.(agent.Text); said || err != nil {
			break
		}
	}
	if turn, text, err := control.Saying(t.Context(), run.ID()); turn != 1 || text != "It is …" || err != nil {
		t.Errorf("Saying: %d, %q, %v", turn, text, err)
	}
	if err := control.Cancel(t.Context(), run.ID(), "cancelled by a test"); err != nil {
		t.Error(err)
	}
	if _, err := run.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "cancelled by a test") {
		t.Errorf("the run ended with %v", err)
	}
	if err := control.Fork(t.Context(), run.ID(), console.Fork{ID: "fork", At: 1}); err != nil {
		t.Fatal(err)
	}
	forked, err := rt.Find(t.Context(), "fork")
	if err != nil {
		t.Fatal(err)
	}
	if res, err := forked.Wait(t.Context()); err != nil || res.Text != "It is done." {
		t.Errorf("the fork: %+v, %v", res, err)
	}
	if err := control.Park(t.Context(), "fork"); err == nil {
		t.Error("a run that has ended was parked")
	}
}
