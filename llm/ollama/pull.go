package ollama

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// pullIdle bounds the silence of a server that gets a model: it says nothing while it
// checks what it has got, gigabytes of it.
const pullIdle = 10 * time.Minute

// Progress is how far a server is with getting a model.
type Progress struct {
	Status string // the server's words, such as "pulling manifest"
	Digest string // of the part it is getting; empty between parts
	// Total and Completed are bytes of that part. Zero means not known, or none yet.
	Total, Completed int64
}

// Pull lets the server get a model from its registry, and tells progress as it comes; nil
// is not told. It returns nil once the server has said that it has all of it. What was got
// is kept if it ends early, and not got again.
//
// A server answers with status 200 before it knows whether it can: an error in its answer
// is returned as an [*llm.Error], a name that no registry has as one that wraps
// [llm.ErrNotFound].
func (s *Server) Pull(ctx context.Context, model string, progress func(Progress)) error {
	call := rest.NewCall(ctx, s.origin(model), rest.Limits{Idle: pullIdle, Endless: true})
	defer call.Close()
	if err := s.send(call, http.MethodPost, "api/pull", struct {
		Model string `json:"model"`
	}{model}); err != nil {
		return err
	}
	lines := rest.NewLines(call)
	for {
		data, end := lines.Next()
		if end != nil && !errors.Is(end, io.EOF) {
			return call.Err(end)
		}
		if len(data) > 0 {
			p, err := s.progress(model, data)
			switch {
			case err != nil && end != nil && errors.Is(err, llm.ErrBadResponse):
				return call.Err(end) // a line that was cut
			case err != nil:
				return err
			case progress != nil:
				progress(p)
			}
			if p.Status == "success" {
				call.Drain()
				return nil
			}
		}
		if end != nil {
			return call.Err(end)
		}
	}
}

// progress reads one line.
func (s *Server) progress(model string, data []byte) (Progress, error) {
	var line struct {
		Status    string      `json:"status"`
		Digest    string      `json:"digest"`
		Total     int64       `json:"total"`
		Completed int64       `json:"completed"`
		Error     jsonx.Value `json:"error"`
	}
	if err := jsonx.Unmarshal(data, &line); err != nil {
		return Progress{}, s.origin(model).Retryable(llm.ErrBadResponse, "%v", err)
	}
	if len(line.Error) > 0 {
		if e := s.origin(model).Decode(data); e != nil {
			if strings.Contains(e.Message, "file does not exist") { // its words for a 404 of the registry
				e.Err, e.Retryable = llm.ErrNotFound, false
			}
			return Progress{}, e
		}
	}
	return Progress{Status: line.Status, Digest: line.Digest, Total: line.Total, Completed: line.Completed}, nil
}
