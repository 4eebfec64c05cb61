package llmtest

import (
	"errors"
	"io"
	"net/http"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// pulled are the lines of a model that comes well.
var pulled = []string{
	`{"status":"pulling manifest"}`,
	`{"status":"pulling 0123456789ab","digest":"sha256:0123456789ab","total":4000}`,
	`{"status":"pulling 0123456789ab","digest":"sha256:0123456789ab","total":4000,"completed":1000}`,
	`{"status":"pulling 0123456789ab","digest":"sha256:0123456789ab","total":4000,"completed":4000}`,
	`{"status":"verifying sha256 digest"}`,
	`{"status":"writing manifest"}`,
	`{"status":"success"}`,
}

var errNoModel = errors.New("model is required")

// pull answers /api/pull.
func (s *Server) pull(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	s.record(r, body, nil)
	var in struct {
		Model  string `json:"model"`
		Stream *bool  `json:"stream"`
	}
	if err == nil {
		err = jsonx.UnmarshalKnown(body, &in)
	}
	if err != nil || in.Model == "" {
		s.fail("%s: %v", r.URL.Path, err)
		s.refuse(w, ollama{}, http.StatusBadRequest, "", errNoModel)
		return
	}
	lines := s.Pulls
	if lines == nil {
		lines = pulled
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	for _, line := range lines {
		_, _ = io.WriteString(w, line+"\n") // a peer that is gone needs no answer
		_ = http.NewResponseController(w).Flush()
	}
}
