package main

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
)

const sessionHeader = "Mcp-Session-Id"

// web serves sessions.
type web struct {
	mu       sync.Mutex
	sessions map[string]*peer
}

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(sessionHeader)
	s.mu.Lock()
	client := s.sessions[id]
	if r.Method == http.MethodDelete {
		delete(s.sessions, id)
	}
	s.mu.Unlock()
	switch {
	case client == nil && id != "":
		http.Error(w, "no such session", http.StatusNotFound)
	case r.Method == http.MethodGet:
		stream(w)
		<-r.Context().Done()
	case r.Method == http.MethodPost:
		s.post(w, r, client)
	}
}

func (s *web) post(w http.ResponseWriter, r *http.Request, client *peer) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case m.Method == "initialize":
		id := rand.Text()
		s.mu.Lock()
		s.sessions[id] = newPeer()
		s.mu.Unlock()
		w.Header().Set(sessionHeader, id)
		answer(w, &m, handshake)
		return
	case client == nil:
		http.Error(w, "no session", http.StatusBadRequest)
		return
	case m.Method == "notifications/cancelled":
		client.cancel(m.Params.RequestID)
	case m.Method == "":
		client.answered(&m)
	}
	if m.Method != "tools/call" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	switch m.Params.Name {
	case "echo":
		answer(w, &m, textResult(m.Params.Arguments.Message))
	case "wait":
		client.wait(r.Context(), string(m.ID), m.Params.Arguments.Key)
	case "ask":
		send := stream(w)
		send(response{"2.0", m.ID, client.ask(r.Context(), m.Params.Arguments.N, send)})
	}
}

// modern serves 2026-07-28, which has no sessions.
type modern struct{}

func (modern) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.Params.Name == "wait" {
		block(r.Context(), m.Params.Arguments.Key)
		return
	}
	answer(w, &m, textResult(m.Params.Arguments.Message))
}

func answer(w http.ResponseWriter, m *message, result any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(response{"2.0", m.ID, result}) // its reader has gone
}

// stream opens an event stream and returns what sends on it.
func stream(w http.ResponseWriter) (send func(any)) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	_ = flush()
	return func(v any) {
		data, err := json.Marshal(v)
		if err != nil {
			panic(err) // our own types
		}
		_, _ = w.Write(append(append([]byte("data: "), data...), "\n\n"...)) // its reader has gone
		_ = flush()
	}
}
