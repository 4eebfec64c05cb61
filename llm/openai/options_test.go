package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/openai"
)

// TestProvider: another server of the kind has a name of its own, in names and errors, and
// gets headers of its own, for turns and for the list of its models.
func TestProvider(t *testing.T) {
	s := llmtest.NewServer(llmtest.Say("yes"), llmtest.Reply(400, `{"error":{"message":"no"}}`))
	c := client(t, s, openai.Options{Provider: "box", Header: http.Header{"X-Title": {"troupe"}}})
	if !strings.HasPrefix(c.Name(), "box/") {
		t.Errorf("Name: got %s, want one that begins with box/", c.Name())
	}
	req := &llm.Request{Messages: []llm.Message{llm.User("hello")}}
	if _, err := llm.Generate(t.Context(), c, req); err != nil {
		t.Errorf("Generate: %v", err)
	}
	if _, err := llm.Generate(t.Context(), c, req); err == nil || !strings.HasPrefix(err.Error(), "box/") {
		t.Errorf("Generate: got error %v, want one of box", err)
	}
	if _, err := c.Models(t.Context()); err != nil {
		t.Errorf("Models: %v", err)
	}
	for _, r := range s.Requests() {
		if r.Header.Get("X-Title") != "troupe" {
			t.Errorf("%s: got header %v, want X-Title", r.Path, r.Header)
		}
	}
}
