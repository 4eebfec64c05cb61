package openai_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestEveryFault holds that none of the faults that the double knows ends in success, in
// a hang, or in the wrong kind of error, and that no error shows the key (SECA-27).
func TestEveryFault(t *testing.T) {
	for _, api := range []openai.API{openai.APIChat, openai.APIResponses} {
		t.Run(string(api), func(t *testing.T) { everyFault(t, api) })
	}
}

func everyFault(t *testing.T, api openai.API) {
	for i, f := range llmtest.FaultsOf("openai", time.Now()) {
		if api == openai.APIResponses && (f.Name == "a finish reason error" || f.Name == "a call without a name") {
			continue // of chat completions
		}
		t.Run(f.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := llmtest.FaultsOf("openai", time.Now())[i] // its dates are the bubble's
				s := llmtest.NewServer(f.Turn)
				begun, ends := false, 0
				var got error
				for ev, err := range client(t, s, openai.Options{API: api}).Stream(t.Context(), hello()) {
					switch {
					case err != nil:
						got = err
						ends++
					default:
						begun = true
						if _, ok := ev.(llm.Finish); ok {
							t.Error("Stream: the turn has completed")
						}
					}
				}
				e, ok := errors.AsType[*llm.Error](got)
				if !ok || ends != 1 {
					t.Fatalf("Stream: got %d errors, the last %v, want one *llm.Error", ends, got)
				}
				if f.Err != nil && !errors.Is(got, f.Err) {
					t.Errorf("Stream: got error %v, want %v", got, f.Err)
				}
				if api == openai.APIResponses {
					begun = f.Begun // the first events of a response say nothing
				}
				if e.Retryable != f.Retryable || e.RetryAfter != f.RetryAfter || begun != f.Begun {
					t.Errorf("Stream: error %v: got Retryable %v, RetryAfter %v, begun %v, want %v, %v, %v", got, e.Retryable, e.RetryAfter, begun, f.Retryable, f.RetryAfter, f.Begun)
				}
				if len(got.Error()) > 2048 || strings.Contains(got.Error(), key) {
					t.Errorf("Stream: the error is too long or holds the key: %.3000q", got)
				}
				synctest.Wait()
				if n := s.Active(); n != 0 {
					t.Errorf("the server still answers %d requests", n)
				}
			})
		})
	}
}
