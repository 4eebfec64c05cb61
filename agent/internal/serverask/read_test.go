package serverask

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// SECA-41: what was changed in the store after it was asked is not shown as what could
// be agreed to.
func TestStoredQuestionIsWhatWasAsked(t *testing.T) {
	asked := &mcpclient.Ask{Kind: mcpclient.AskSampling, Server: "bank", Origin: "npx bank", Path: []string{"a"},
		Sampling: &mcp.CreateMessageParams{MaxTokens: 100, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.Contents{mcp.Text("Hi")}}}}}
	var err error
	if asked.Hash, err = asked.ContentHash(); err != nil {
		t.Fatal(err)
	}
	payload, err := jsonx.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	row := store.Ask{ID: "1", Kind: runlog.AskSampling, Server: "bank", Origin: "npx", Hash: asked.Hash, Payload: payload}
	if q := Read(&row); q == nil || q.Sampling == nil || q.Sampling.Messages[0].Content.Text() != "Hi" || q.Hash != asked.Hash || q.Origin != "npx" {
		t.Errorf("Read: got %+v", q)
	}
	for name, change := range map[string]func(*store.Ask){
		"its text": func(r *store.Ask) { r.Payload = []byte(strings.Replace(string(payload), `"Hi"`, `"secrets"`, 1)) },
		"its hash": func(r *store.Ask) { r.Hash = "other" },
	} {
		changed := row
		change(&changed)
		if q := Read(&changed); q == nil || q.Sampling != nil || q.Kind != mcpclient.AskSampling || q.Message == "" {
			t.Errorf("Read with another %s: got %+v, want nothing to agree to", name, q)
		}
	}
}
