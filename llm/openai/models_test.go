package openai_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

func TestModels(t *testing.T) {
	s := llmtest.NewServer()
	s.Models, s.Key = []string{"a", "b"}, key
	if got, err := client(t, s, openai.Options{}).Models(t.Context()); err != nil || !slices.Equal(got, s.Models) {
		t.Errorf("Models: got %q and error %v, want %q", got, err, s.Models)
	}
	html := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if got, err := client(t, html, openai.Options{}).Models(t.Context()); !errors.Is(err, llm.ErrBadResponse) {
		t.Errorf("Models of a web page: got %q and error %v, want %v", got, err, llm.ErrBadResponse)
	}
}
