package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/agenttest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

func post(ctx context.Context, t *testing.T, h http.Handler, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/ask", strings.NewReader(body)))
	return w
}

// handler is the service with a scripted model.
func handler(t *testing.T, model llm.Model) (http.Handler, *agent.Runtime) {
	t.Helper()
	rt := agenttest.Open(t, &agenttest.Options{Model: model, Runtime: agent.Options{MaxRuns: 1}})
	h, err := newHandler(rt)
	if err != nil {
		t.Fatal(err)
	}
	return h, rt
}

func TestAsk(t *testing.T) {
	h, _ := handler(t, llmtest.Script(llmtest.Say("Air."), llmtest.Fail(llm.ErrNotFound)))
	tests := []struct {
		body, text string
		status     int
	}{
		{`{"question":"Why is the sky blue?"}`, "Air.", http.StatusOK},
		{`{"question":"Why?"}`, "", http.StatusBadGateway},
		{`{"question":""}`, "", http.StatusBadRequest},
		{`why`, "", http.StatusBadRequest},
	}
	for _, tt := range tests {
		w := post(t.Context(), t, h, tt.body)
		var res agent.Result
		if w.Code == http.StatusOK {
			if err := json.Unmarshal(w.Body.Bytes(), &res); err != nil {
				t.Error(err)
			}
		}
		if w.Code != tt.status || res.Text != tt.text {
			t.Errorf("%s: got %d and %q, want %d and %q", tt.body, w.Code, res.Text, tt.status, tt.text)
		}
	}
}

// A client that goes away takes its run with it, and makes room.
func TestGone(t *testing.T) {
	agenttest.Bubble(t, func(t *testing.T) {
		gate := llmtest.NewGate()
		h, rt := handler(t, llmtest.Loop(llmtest.Join(llmtest.Hold(gate), llmtest.Say("Air."))))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			post(ctx, t, h, `{"question":"Why?"}`)
		}()
		<-gate.Reached()
		if w := post(t.Context(), t, h, `{"question":"Me too?"}`); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a second question: got %d, want %d", w.Code, http.StatusServiceUnavailable)
		}
		cancel()
		<-done
		if live := rt.System().Census().Live(); live == 0 {
			t.Error("the runtime has ended with the request")
		}
		time.Sleep(time.Second) // virtual: the run's actor has stopped
		gate.Open()
		if w := post(t.Context(), t, h, `{"question":"And now?"}`); w.Code != http.StatusOK {
			t.Errorf("after that: got %d, want %d", w.Code, http.StatusOK)
		}
	})
}
