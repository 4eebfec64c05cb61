package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/llm"
)

// Template makes runs that are alike: what they have in common they share, as thousands of
// runs of one agent do. It does not change, and its methods may be called from any
// goroutine.
type Template struct{ common *shared }

// shared is a configuration that any number of runs may have.
type shared struct {
	Config
	claimed bool // others may claim the run once its lease is over
}

// Own is what one run of a template has of its own. All of it is as in [Config], and takes
// the place of what the template says.
type Own struct {
	ID     string
	Origin *Origin // nil is none of it; let go once the run has begun
	Path   []string
	Tools  Tools
	Schema json.RawMessage
	Check  func(text string) (json.RawMessage, error)
	Gate   func(ctx context.Context, tool *Tool, args json.RawMessage) Verdict
	Taint  *TaintState
	Sink   Sink
	Trace  Trace
	Nonce  string
	Wall   time.Duration // in place of Limits.Wall; zero leaves that
	Grace  time.Duration // zero leaves the template's
}

// Origin is what a run begins with and comes from, as in [Config].
type Origin struct {
	Parent    string
	InputHash string
	Input     []llm.Message
	Budget    *budget.Account
}

// config is that of one run. What it has of its own hides what the template says of the
// same.
type config struct {
	Own
	*shared
}

// NewTemplate checks a configuration. Of what is in [Own] it takes only Limits.Wall and
// Grace.
func NewTemplate(cfg *Config) (*Template, error) {
	common, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Template{common}, nil
}

// New returns a run that has not started.
func (t *Template) New(own Own) (*Run, error) {
	if own.ID == "" || own.Sink == nil {
		return nil, errIncomplete
	}
	if own.Origin == nil {
		own.Origin = new(Origin)
	}
	if own.Taint == nil {
		own.Taint = new(TaintState)
	}
	if own.Nonce == "" {
		own.Nonce = uuid.NewString()
	}
	own.Wall = cmp.Or(own.Wall, t.common.Limits.Wall)
	own.Grace = cmp.Or(own.Grace, t.common.Grace)
	return &Run{cfg: config{own, t.common}}, nil
}

// New checks a configuration and returns a run that has not started.
func New(cfg *Config) (*Run, error) {
	t, err := NewTemplate(cfg)
	if err != nil {
		return nil, err
	}
	return t.New(Own{ID: cfg.ID, Path: cfg.Path, Tools: cfg.Tools, Schema: cfg.Schema, Check: cfg.Check, Gate: cfg.Gate,
		Origin: &Origin{Parent: cfg.Parent, InputHash: cfg.InputHash, Input: cfg.Input, Budget: cfg.Budget},
		Taint:  cfg.Taint, Sink: cfg.Sink, Trace: cfg.Trace, Nonce: cfg.Nonce, Wall: cfg.Limits.Wall, Grace: cfg.Grace})
}
