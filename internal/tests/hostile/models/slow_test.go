package models

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/troupe-dev/troupe/internal/mcptest"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

// A server that says just enough not to be silent does not hold a turn for ever (ROB-7).
func TestSlow(t *testing.T) {
	tests := []struct {
		name  string
		serve func(d *dialect, w http.ResponseWriter, r *http.Request)
		want  error // nil: the turn completes
	}{
		{"a byte now and then", func(d *dialect, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			_, _ = io.WriteString(w, d.text("hi"))
			drip(r, w, "x", 200*time.Millisecond)
		}, llm.ErrIdle},
		{"comments after the finish", func(d *dialect, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			_, _ = io.WriteString(w, d.text("hi")+d.finish("stop"))
			if d.name == "ollama" {
				_, _ = io.WriteString(w, d.usage("1", "1"))
			}
			drip(r, w, ": ping\n\n", 200*time.Millisecond)
		}, nil},
		{"bytes after the end", func(d *dialect, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			_, _ = io.WriteString(w, d.whole())
			drip(r, w, "\n", 20*time.Millisecond)
		}, nil},
		{"silence after the end", func(d *dialect, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", d.kind)
			_, _ = io.WriteString(w, d.whole())
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, nil},
		{"an error a byte at a time", func(_ *dialect, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			drip(r, w, "x", 200*time.Millisecond)
		}, llm.ErrInvalidRequest},
		{"a document a byte at a time", func(_ *dialect, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			drip(r, w, " ", 200*time.Millisecond)
		}, llm.ErrIdle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachDialect(t, func(t *testing.T, d *dialect) {
				t.Parallel()
				m := d.client(serve(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					tt.serve(d, w, r)
				}))
				if _, err := run(t, m, hello()); !errors.Is(err, tt.want) {
					t.Errorf("Generate: got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// The small questions have a bound for all of their answer.
func TestSlowLookups(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { drip(r, w, " ", 200*time.Millisecond) })
	for name, ask := range map[string]func() error{
		"openai": func() error {
			_, err := openai.New("m", &openai.Options{BaseURL: url}).Models(t.Context())
			return err
		},
		"ollama": func() error { _, err := ollama.NewServer(&ollama.Options{Host: url}).Models(t.Context()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			if err := ask(); !errors.Is(err, llm.ErrIdle) {
				t.Errorf("Models: got %v, want %v", err, llm.ErrIdle)
			}
			if took := time.Since(begin); took > mcptest.Patience {
				t.Errorf("Models took %v", took)
			}
		})
	}
}

// What a server asks for is not waited for where that is too long, and what is no time is
// none.
func TestRetryAfter(t *testing.T) {
	for _, value := range []string{
		"315360000", "1e300", "NaN", "Inf", "-5", "-1e300", "soon", "", "Fri, 01 Jan 2126 00:00:00 GMT", "Fri, 01 Jan 1926 00:00:00 GMT",
		"0x10", strings.Repeat("9", 10_000),
	} {
		t.Run(value[:min(len(value), 30)], func(t *testing.T) {
			eachDialect(t, func(t *testing.T, d *dialect) {
				m := d.client(serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Retry-After", value)
					w.WriteHeader(http.StatusTooManyRequests)
				}))
				_, err := run(t, llm.Retry(m, &llm.RetryOptions{MaxAttempts: 3, InitialWait: time.Millisecond, MaxWait: 5 * time.Millisecond}), hello())
				e, ok := errors.AsType[*llm.Error](err)
				if !ok || !errors.Is(err, llm.ErrRateLimit) || e.RetryAfter < 0 {
					t.Errorf("Generate: got %v, want %v", err, llm.ErrRateLimit)
				}
			})
		})
	}
}
