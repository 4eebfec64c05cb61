package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
	"github.com/troupe-dev/troupe/store/sqlite"
)

// record writes a run with these events, and ends it with a state that ends runs.
func record(t testing.TB, s store.Store, r store.Run, entries ...runlog.Entry) {
	t.Helper()
	var events []store.Event
	for i := range entries {
		if entries[i].Time.IsZero() {
			entries[i].Time = time.Now().Add(time.Duration(i) * time.Millisecond)
		}
		ev, err := entries[i].Encode()
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	state := r.State
	if state.Ended() {
		r.State = ""
	}
	if r.InputHash = "h"; r.Parent != "" {
		r.Epoch = 1
	}
	made, err := s.Create(t.Context(), r, "w", time.Hour, events...)
	if err == nil && state.Ended() {
		_, err = s.Append(t.Context(), store.Append{Run: r.ID, Owner: made.Owner, Epoch: made.Epoch, After: store.Unchecked, State: state})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// plain is a run of one turn and one call.
func plain(model, prompt, server, tool, result string, cost llm.Money) []runlog.Entry {
	return []runlog.Entry{
		{Type: store.RunStarted, Body: &runlog.RunStarted{Agent: "clerk", Model: model, Input: []llm.Message{llm.User(prompt)}, Nonce: "n"}},
		{Type: runlog.ModelIntentType, Body: &runlog.ModelIntent{Turn: 1}},
		{Type: store.ModelResult, Body: &runlog.ModelResult{Turn: 1, Finish: llm.FinishToolCalls, Usage: runlog.Usage{Input: 100, Output: 10, Cost: cost},
			Message: llm.Message{Role: llm.RoleAssistant, Content: mcp.Contents{mcp.Text("I look."), &mcp.ToolUseContent{ID: "c1", Name: tool, Input: json.RawMessage(`{"q":"x"}`)}}}}},
		{Type: store.ToolIntent, Key: "n-1-0", Body: &runlog.ToolIntent{Turn: 1, CallID: "c1", Tool: tool, Server: server, Arguments: json.RawMessage(`{"q":"x"}`)}},
		{Type: store.ToolDispatched, Key: "n-1-0", Body: &runlog.ToolDispatched{Turn: 1, CallID: "c1"}},
		{Type: store.ToolResult, Key: "n-1-0", Body: &runlog.ToolResult{Turn: 1, CallID: "c1", Tool: tool, Server: server, Made: true,
			Result: &mcp.CallToolResult{Content: mcp.Contents{mcp.Text(result)}}}},
	}
}

var runLinks = regexp.MustCompile(`data-name="Run"><a href="/runs/([^"]*)"`)

// listed are the runs of a list.
func listed(page string) (ids []string) {
	for _, found := range runLinks.FindAllStringSubmatch(page, -1) {
		ids = append(ids, found[1])
	}
	return ids
}

// TestFilters: runs are found by how they stand, what they have used and cost, what was said in them,
// and when they were begun.
func TestFilters(t *testing.T) {
	d := newDesk(t, nil)
	record(t, d.store, store.Run{ID: "r1", Agent: "clerk", Title: "Book a room", State: store.Finished}, plain("m/small", "Book a room", "desk", "desk__book", "Room 12, Zürich", 1_000_000)...)
	record(t, d.store, store.Run{ID: "r2", Agent: "clerk", Title: "Pay the bill", State: store.Failed}, plain("m/large", "Pay the bill", "bank", "bank__pay", "It was \"declined\"\nby the bank", 500_000_000)...)
	record(t, d.store, store.Run{ID: "r3", Agent: "scout", Title: "Look around"}, plain("m/large", "Look around", "", "look", "nothing", 0)...)
	future := time.Now().Add(time.Hour).Format("2006-01-02T15:04")
	tests := []struct {
		name  string
		query url.Values
		want  []string
	}{
		{"none", url.Values{}, []string{"r3", "r2", "r1"}},
		{"state", url.Values{"state": {"failed"}}, []string{"r2"}},
		{"agent", url.Values{"agent": {"scout"}}, []string{"r3"}},
		{"id", url.Values{"id": {"r2"}}, []string{"r2"}},
		{"model", url.Values{"model": {"LARGE"}}, []string{"r3", "r2"}},
		{"tool", url.Values{"tool": {"book"}}, []string{"r1"}},
		{"server", url.Values{"server": {"bank"}}, []string{"r2"}},
		{"tool of another server", url.Values{"server": {"bank"}, "tool": {"book"}}, nil},
		{"title", url.Values{"text": {"pay the"}}, []string{"r2"}},
		{"result", url.Values{"text": {"zürich"}}, []string{"r1"}},
		{"result with quotes and lines", url.Values{"text": {`"Declined"`}}, []string{"r2"}},
		{"name of a member, which is no text", url.Values{"text": {"callId"}}, nil},
		{"pattern", url.Values{"text": {"%"}}, nil},
		{"cost", url.Values{"cost": {"0.25"}}, []string{"r2"}},
		{"two", url.Values{"model": {"large"}, "text": {"nothing"}}, []string{"r3"}},
		{"until", url.Values{"until": {"2020-01-01"}}, nil},
		{"since", url.Values{"since": {"2020-01-01T10:00"}, "agent": {"clerk"}}, []string{"r2", "r1"}},
		{"since a later time", url.Values{"since": {future}}, nil},
	}
	for _, tt := range tests {
		status, page := d.get(d.browser, "/runs?"+tt.query.Encode())
		if got := listed(page); status != http.StatusOK || !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %d, %v, want %v", tt.name, status, got, tt.want)
		}
	}
	for _, bad := range []string{"state=asleep", "cost=much", "since=yesterday", "after=x"} {
		if status, page := d.get(d.browser, "/runs?"+bad); status != http.StatusBadRequest || !strings.Contains(page, "no filter") {
			t.Errorf("%s: got %d", bad, status)
		}
	}
}

var nextPage = regexp.MustCompile(`<a href="(/runs\?[^"]*after=[^"]*)"`)

// TestPages: each run is on exactly one page, and the filter goes from page to page.
func TestPages(t *testing.T) {
	d := newDesk(t, nil)
	for i := range 250 {
		record(t, d.store, store.Run{ID: fmt.Sprint("r", i), Agent: []string{"a", "b"}[i%2], Title: "x"}, plain("m", "x", "s", "t", "done", 0)...)
	}
	for _, tt := range []struct {
		query string
		want  int
	}{{"", 250}, {"agent=a", 125}, {"agent=a&tool=t", 125}} {
		seen, pages := make(map[string]bool), 0
		for path := "/runs?" + tt.query; path != ""; pages++ {
			_, page := d.get(d.browser, path)
			for _, id := range listed(page) {
				if seen[id] {
					t.Errorf("%q: %s is there twice", tt.query, id)
				}
				seen[id] = true
			}
			path = ""
			if next := nextPage.FindStringSubmatch(page); next != nil {
				path = strings.ReplaceAll(next[1], "&amp;", "&")
			}
		}
		if len(seen) != tt.want || pages != (tt.want+99)/100 {
			t.Errorf("%q: got %d runs on %d pages, want %d", tt.query, len(seen), pages, tt.want)
		}
	}
}

// The page of a run, and that of a job, say what an answer lacks that is not whole.
func TestIncompleteAnswer(t *testing.T) {
	d := newDesk(t, nil)
	end := runlog.Entry{Type: store.RunFinished, Body: &runlog.RunFinished{State: store.Finished, Stop: "length", Incomplete: runlog.IncompleteLength, Text: "so far"}}
	record(t, d.store, store.Run{ID: "cut", Agent: "clerk"}, append(plain("m", "x", "s", "t", "done", 0), end)...)
	if _, page := d.get(d.browser, "/runs/cut"); !strings.Contains(page, "so far") || !strings.Contains(page, "the limit of output tokens cut it") {
		t.Errorf("the run's page does not say that its answer was cut:\n%s", page)
	}
	ctx := t.Context()
	if _, err := d.store.AddJob(ctx, store.Job{ID: "j", Agent: "clerk", Prompt: "x"}); err != nil {
		t.Fatal(err)
	}
	claimed, err := d.store.ClaimJobs(ctx, "w", 1, time.Hour, []string{"clerk"})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("ClaimJobs: got %v, %v", claimed, err)
	}
	done := store.JobUpdate{JobLease: store.JobLease{ID: "j", Epoch: claimed[0].Epoch}, Owner: "w", State: store.JobDone, Result: []byte(`{"runId":"r","stopReason":"stop","incomplete":"empty"}`)}
	if _, err := d.store.UpdateJob(ctx, done); err != nil {
		t.Fatal(err)
	}
	if _, page := d.get(d.browser, "/jobs/j"); !strings.Contains(page, "the answer is empty") {
		t.Errorf("the job's page does not say that its answer is empty:\n%s", page)
	}
}

// BenchmarkRuns loads pages of a store of 10,000 runs.
func BenchmarkRuns(b *testing.B) {
	s, err := sqlite.Open(filepath.Join(b.TempDir(), "troupe.db"), &sqlite.Options{Synchronous: sqlite.Normal})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 10_000 {
		record(b, s, store.Run{ID: fmt.Sprintf("run-%05d", i), Agent: "clerk", Title: fmt.Sprint("Look at the file ", i), State: store.Finished},
			plain("m", fmt.Sprint("Look at the file ", i), "files", "files__read", strings.Repeat("All is well. ", 80), 1000)...)
	}
	c, err := console.New(&console.Options{Store: s, Hosts: []string{"c"}, Visitor: func(*http.Request) (string, console.Role) { return "ada", console.Viewer }})
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"/runs", "/runs?agent=clerk&state=finished", "/runs?state=failed", "/runs?since=2020-01-01", "/runs?id=run-00001", "/runs/run-00007", "/runs?text=all+is+well", "/runs?text=file+9990", "/runs?text=nowhere"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if status, page := visit(c, http.MethodGet, path, nil); status != http.StatusOK {
					b.Fatal(status, page)
				}
			}
		})
	}
}
