package modelservers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/troupe-dev/troupe/internal/tests/modelservers/tinygguf"
)

// LlamaOptions changes how a llama-server works; nil is the same as the zero value.
type LlamaOptions struct {
	// Parallel is how many requests it answers at once; others wait. Zero means 2.
	Parallel int
	// Context is the window of each, in tokens. Zero means 4096.
	Context int
}

// LlamaModel is the name of the one model that a llama-server has.
const LlamaModel = "tiny"

// StartLlama starts the program with a model, which is as the spec but for its template.
func StartLlama(program string, spec *tinygguf.Spec, opts *LlamaOptions) (*Server, error) {
	o := *cmp.Or(opts, new(LlamaOptions))
	parallel := cmp.Or(o.Parallel, 2)
	templated := *spec
	templated.ChatTemplate = jinjaTemplate
	model, err := templated.Encode()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "llama-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "tiny.gguf")
	if err := os.WriteFile(file, model, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing a model: %w", err), os.RemoveAll(dir))
	}
	// The slots share the context that the server is started with. One thread is enough
	// for so little; several would wait for each other in loops, and on a busy machine for
	// most of a second at each token.
	server, err := start(dir, program, nil, "-m", file, "--alias", LlamaModel,
		"--host", "127.0.0.1", "--port", "0", "--jinja", "--offline", "--no-webui", "--temp", "0",
		"-t", "1", "-tb", "1", "-c", strconv.Itoa(parallel*cmp.Or(o.Context, 4096)), "-np", strconv.Itoa(parallel))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server, nil
}

// ServeLlama starts a llama-server for a test, at whose end it is killed. Without the
// program it does what [Program.Require] does.
func ServeLlama(t testing.TB, spec *tinygguf.Spec, opts *LlamaOptions) *Server {
	t.Helper()
	s, err := StartLlama(LlamaServer.Require(t), spec, opts)
	if err != nil {
		t.Fatal(err)
	}
	ends(t, s)
	return s
}
