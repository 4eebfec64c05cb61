package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Person answers what servers ask, and remembers it. The zero value accepts every
// form with nothing but its defaults, and every page.
type Person struct {
	// Fills are the values of forms, by the name of a field: those that a form has are
	// filled in.
	Fills map[string]json.RawMessage
	// Action is what is answered. Empty accepts.
	Action string
	// Says is the sample for every request of one.
	Says string

	mu     sync.Mutex
	asks   []*mcpclient.Ask
	opened []string
}

// Decide implements [mcpclient.Human].
func (p *Person) Decide(_ context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks = append(p.asks, ask)
	d := &mcpclient.Decision{Action: p.Action}
	d.Action = cmp.Or(d.Action, mcp.ActionAccept)
	if ask.Form == nil || d.Action != mcp.ActionAccept {
		return d, nil
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := mcp.Unmarshal(ask.Form.RequestedSchema, &schema); err != nil {
		return nil, err
	}
	d.Content = map[string]json.RawMessage{}
	for name := range schema.Properties {
		if value, ok := p.Fills[name]; ok {
			d.Content[name] = value
		}
	}
	return d, nil
}

// Sample implements [mcpclient.Sampler].
func (p *Person) Sample(_ context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	if len(req.Params.Messages) == 0 {
		return nil, errors.New("there are no messages")
	}
	return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{mcp.Text(p.Says)}, Model: "scripted", StopReason: "endTurn"}, nil
}

func (p *Person) open(_ context.Context, url string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = append(p.opened, url)
	return nil
}

// Asks returns what was asked so far.
func (p *Person) Asks() []*mcpclient.Ask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*mcpclient.Ask(nil), p.asks...)
}

// Opened returns the pages that were opened so far.
func (p *Person) Opened() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.opened...)
}

// Offering returns the options of a client that offers everything: p answers, and
// samples are reviewed by them too.
func Offering(p *Person, roots ...mcp.Root) *mcpclient.Options {
	return &mcpclient.Options{AskOptions: mcpclient.AskOptions{
		Human: p, Sampler: p, SamplingTools: true, OpenURL: p.open, Roots: append([]mcp.Root{}, roots...),
	}}
}

// Root returns a folder of the test's as a root.
func Root(t testing.TB) mcp.Root {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Root{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), Name: "folder"}
}

// Quote returns a text as JSON.
func Quote(s string) json.RawMessage {
	raw, _ := mcp.Marshal(s) // a text of the test's
	return raw
}
