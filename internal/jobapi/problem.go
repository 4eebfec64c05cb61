package jobapi

import (
	"net/http"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Problem is the answer to a faulty request (RFC 9457).
type Problem struct {
	Type   string `json:"type"` // "about:blank": the status says what kind it is
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	Job    *Job   `json:"job,omitempty"` // the job that conflicts
}

func problem(w http.ResponseWriter, status int, detail string) {
	writeProblem(w, Problem{Status: status, Detail: detail})
}

func writeProblem(w http.ResponseWriter, p Problem) {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	writeJSON(w, p.Status, "application/problem+json", p)
}

// writeJSON writes an answer. It ignores a client that has gone.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := jsonx.Marshal(v)
	if err != nil {
		http.Error(w, "the answer cannot be written", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
