package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/llm/llmtest"
)

// On a terminal a pull has a bar.
func TestPullOnATerminal(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.plays("ollama", llmtest.NewServer())
	cmd := h.command("models", "pull", "tiny")
	term := openTerminal(t, cmd)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, term.text())
	}
	<-term.closed
	if shown := term.text(); !strings.Contains(shown, "########] 100% 4 kB of 4 kB") || !strings.Contains(shown, "ollama/tiny is there") {
		t.Errorf("the terminal shows\n%s", shown)
	}
}

// SIGINT ends a pull: the server is left, and the exit code says why.
func TestPullIsInterrupted(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":"pulling manifest"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		close(left)
	}))
	t.Cleanup(srv.Close)
	h := newHome(t)
	h.env = append(h.env, "OLLAMA_HOST="+srv.URL)
	cmd := h.command("models", "pull", "tiny")
	term := openTerminal(t, cmd)
	waitFor(t, "the first progress", func() bool { return strings.Contains(term.text(), "pulling manifest") })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	<-left
	<-term.closed
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != env.ExitInterrupt || !strings.Contains(term.text(), "what was got is kept") {
		t.Errorf("got %v, want exit code %d, and\n%s", err, env.ExitInterrupt, term.text())
	}
}
