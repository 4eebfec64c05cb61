package ollama_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
)

func TestPull(t *testing.T) {
	s := llmtest.NewServer()
	server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: memhttp.Serve(t, s)})
	var got []ollama.Progress
	if err := server.Pull(t.Context(), "tiny", func(p ollama.Progress) { got = append(got, p) }); err != nil {
		t.Fatalf("Pull: %v", err)
	}
	if len(got) != 7 || got[6].Status != "success" || got[2].Completed != 1000 || got[2].Total != 4000 {
		t.Errorf("Pull: got progress %+v", got)
	}
	if f := s.Failures(); len(f) > 0 {
		t.Errorf("Pull: the server found %q", f)
	}
}

// TestPullFaults: only the word success is success, whatever the status of the answer.
func TestPullFaults(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  error
		text  string
	}{
		{"error line", []string{`{"status":"pulling manifest"}`, `{"error":"pull model manifest: file does not exist"}`}, llm.ErrNotFound, "file does not exist"},
		{"other error", []string{`{"error":"max retries exceeded"}`}, nil, "max retries exceeded"},
		{"early end", []string{`{"status":"pulling manifest"}`}, llm.ErrStreamCut, ""},
		{"nothing", []string{}, llm.ErrStreamCut, ""},
		{"no JSON", []string{`<html>`}, llm.ErrBadResponse, ""},
		{"cut line", []string{`{"status":"succ`}, llm.ErrBadResponse, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := llmtest.NewServer()
			s.Pulls = tt.lines
			server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: memhttp.Serve(t, s)})
			err := server.Pull(t.Context(), "tiny", nil)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Pull: got error %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

// TestPullCancel: a cancel ends it with its cause, in the middle.
func TestPullCancel(t *testing.T) {
	cause := errors.New("the user has had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	ended := make(chan struct{})
	hc := memhttp.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":"pulling manifest"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(ended)
	}))
	server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: hc})
	var seen []string
	err := server.Pull(ctx, "tiny", func(p ollama.Progress) { seen = append(seen, p.Status); cancel(cause) })
	if !errors.Is(err, cause) || !slices.Equal(seen, []string{"pulling manifest"}) {
		t.Errorf("Pull: got error %v after %q, want %v", err, seen, cause)
	}
	<-ended
}

// FuzzPull: whatever a server says, a pull ends, and well only at the word success.
func FuzzPull(f *testing.F) {
	for _, seed := range []string{
		`{"status":"pulling manifest"}` + "\n" + `{"status":"success"}`,
		`{"error":{"message":"x"}}`, `{"status":1}`, `{"status":"pulling","total":-1,"completed":1e99}`, "\n\n{", "",
	} {
		f.Add([]byte(seed))
	}
	var body []byte
	hc := memhttp.Serve(f, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	server := ollama.NewServer(&ollama.Options{Host: "llm.test", HTTPClient: hc})
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		last := ""
		err := server.Pull(t.Context(), "tiny", func(p ollama.Progress) { last = p.Status })
		if (err == nil) != (last == "success") {
			t.Fatalf("Pull(%q): got error %v after %q", data, err, last)
		}
	})
}
