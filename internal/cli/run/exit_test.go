package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestExitCodesOfModels: all that is the fault of a model's service has one exit code, whether the run is left or fails. What is wrong
// with the request, and what the model writes, is a failure of the run.
func TestExitCodesOfModels(t *testing.T) {
	ofRun := []error{llm.ErrContextLength, llm.ErrInvalidRequest, llm.ErrUnsupported, llm.ErrBadCall}
	for _, api := range []string{"openai", "ollama"} {
		for i, f := range llmtest.FaultsOf(api, time.Now()) {
			t.Run(api+"/"+f.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := memhttp.Serve(t, llmtest.NewServer(llmtest.FaultsOf(api, time.Now())[i].Turn))
					model := llm.Model(openai.New("m", &openai.Options{BaseURL: "http://llm.test", HTTPClient: s}))
					if api == "ollama" {
						model = ollama.New("m", &ollama.Options{Host: "llm.test", HTTPClient: s})
					}
					_, err := llm.Generate(t.Context(), model, &llm.Request{Messages: []llm.Message{llm.User("Hello")}})
					want := env.ExitUnreachable
					for _, kind := range ofRun {
						if errors.Is(err, kind) {
							want = env.ExitFailed
						}
					}
					failed := runError(fmt.Errorf("asking the model: %w", err))
					if got := env.ExitCode(failed); got != want {
						t.Errorf("%v: got the exit code %d, want %d", err, got, want)
					}
					if errors.Is(err, llm.ErrContextLength) != strings.Contains(failed.Error(), "(--model)") {
						t.Errorf("the error says %q", failed)
					}
					if _, _, away := llm.Outage(err); away {
						if got := env.ExitCode(runError(&agent.OutageError{Err: err})); got != want {
							t.Errorf("%v, and the run is left: got the exit code %d, want %d", err, got, want)
						}
					}
				})
			})
		}
	}
	for _, err := range []error{llm.ErrCircuitOpen, llm.ErrBusy, llm.ErrStreamCut} {
		if got := env.ExitCode(runError(&llm.Error{Err: err})); got != env.ExitUnreachable {
			t.Errorf("%v: got the exit code %d", err, got)
		}
	}
	if got := env.ExitCode(runError(context.Canceled)); got != env.ExitFailed {
		t.Errorf("another error: got the exit code %d", got)
	}
}
