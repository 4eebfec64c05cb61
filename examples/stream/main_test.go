package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func TestEvents(t *testing.T) {
	model := llmtest.Script(llmtest.Call("roll", nil), llmtest.Say("A ", "story."))
	rt := agenttest.Open(t, &agenttest.Options{Model: model, Runtime: agent.Options{Tools: []agent.Tool{agent.Func("roll", "Rolls a die.", roll)}}})
	h := newHandler(rt)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/runs", strings.NewReader("Roll.")))
	path := "/runs/" + w.Body.String()
	for i := range 2 { // a browser that comes again sees the same run
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		var types []string
		text := ""
		for block := range strings.SplitSeq(strings.TrimSpace(w.Body.String()), "\n\n") {
			event, data, ok := strings.Cut(block, "\n")
			if !ok || !strings.HasPrefix(event, "event: ") || !strings.HasPrefix(data, "data: {") {
				t.Fatalf("this is no event: %q", block)
			}
			types = append(types, event[len("event: "):])
			var ev struct{ Delta string }
			if err := json.Unmarshal([]byte(data[len("data: "):]), &ev); err != nil {
				t.Fatal(err)
			}
			text += ev.Delta
		}
		if got := strings.Join(types, " "); !strings.HasPrefix(got, "run_started ") || !strings.Contains(got, " tool_started tool_result ") || !strings.HasSuffix(got, " run_finished") {
			t.Errorf("stream %d: got %s", i, got)
		}
		if !strings.Contains(w.Body.String(), `"content":[{"type":"text","text":"`) { // what the page shows of a result
			t.Errorf("stream %d: no result in %s", i, w.Body)
		}
		if text != "A story." {
			t.Errorf("stream %d: got the text %q", i, text)
		}
	}
	if n := model.Remaining(); n != 0 {
		t.Errorf("%d turns are left", n)
	}
}

func TestHandler(t *testing.T) {
	h := newHandler(agenttest.Open(t, nil))
	tests := []struct {
		method, path, origin string
		want                 int
	}{
		{http.MethodGet, "/", "", http.StatusOK},
		{http.MethodGet, "/other", "", http.StatusNotFound},
		{http.MethodGet, "/runs/unknown", "", http.StatusNotFound},
		{http.MethodPost, "/runs", "http://evil.example", http.StatusForbidden},
	}
	for _, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), tt.method, tt.path, strings.NewReader("Roll."))
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s %s: got %d, want %d", tt.method, tt.path, w.Code, tt.want)
		}
		if tt.path == "/" && !strings.Contains(w.Body.String(), "EventSource") {
			t.Error("the page does not read events")
		}
	}
}
