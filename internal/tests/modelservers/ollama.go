package modelservers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
)

// OllamaOptions changes how an Ollama works; nil is the same as the zero value.
type OllamaOptions struct {
	// Parallel is how many requests a model answers at once. Zero means 4.
	Parallel int
	// Queue is how many more may wait. Zero means 64.
	Queue int
	// Context is the window of every model, in tokens. Zero means 4096.
	Context int
}

// OllamaServer is an Ollama that runs.
type OllamaServer struct {
	*Server
	client *api.Client
}

// StartOllama starts the program. It has no models yet.
func StartOllama(program string, opts *OllamaOptions) (*OllamaServer, error) {
	o := *cmp.Or(opts, new(OllamaOptions))
	dir, err := os.MkdirTemp("", "ollama-")
	if err != nil {
		return nil, err
	}
	env := []string{
		"OLLAMA_HOST=127.0.0.1:0", "OLLAMA_NO_CLOUD=1", "OLLAMA_KEEP_ALIVE=10m", "OLLAMA_MAX_LOADED_MODELS=24",
		"OLLAMA_NUM_PARALLEL=" + strconv.Itoa(cmp.Or(o.Parallel, 4)),
		"OLLAMA_MAX_QUEUE=" + strconv.Itoa(cmp.Or(o.Queue, 64)),
		"OLLAMA_CONTEXT_LENGTH=" + strconv.Itoa(cmp.Or(o.Context, 4096)),
	}
	server, err := start(dir, program, env, "serve")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	base, err := url.Parse(server.URL)
	if err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return &OllamaServer{server, api.NewClient(base, new(http.Client))}, nil
}

// ServeOllama starts an Ollama for a test, at whose end it is killed. Without the program
// it does what [Program.Require] does.
func ServeOllama(t testing.TB, opts *OllamaOptions) *OllamaServer {
	t.Helper()
	s, err := StartOllama(Ollama.Require(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, s.Server)
	return s
}

// ends stops a server when a test ends.
func ends(t testing.TB, s *Server) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", s.URL, s.Log())
		}
		if err := s.Stop(); err != nil {
			t.Errorf("stopping a model server: %v", err)
		}
	})
}

// Create gives the server a model of this name.
func (s *OllamaServer) Create(ctx context.Context, name string, spec *tinygguf.Spec) error {
	return s.CreateWith(ctx, name, spec, ollamaTemplate)
}

// CreateWith is Create with another template, which decides what the model can do.
func (s *OllamaServer) CreateWith(ctx context.Context, name string, spec *tinygguf.Spec, template string) error {
	model, err := spec.Encode()
	if err != nil {
		return err
	}
	sum := sha256.Sum256(model)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	if err := s.client.CreateBlob(ctx, digest, bytes.NewReader(model)); err != nil {
		return fmt.Errorf("giving Ollama a model: %w", err)
	}
	err = s.client.Create(ctx, &api.CreateRequest{
		Model: name, Files: map[string]string{"tiny.gguf": digest}, Template: strings.TrimSpace(template),
		Parameters: map[string]any{"temperature": 0, "num_thread": 1}, // see StartLlama
	}, func(api.ProgressResponse) error { return nil })
	if err != nil {
		return fmt.Errorf("creating the model %s: %w", name, err)
	}
	return nil
}
