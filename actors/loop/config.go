package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/store"
)

// Journal is what a run needs of a [store.Store].
type Journal interface {
	Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error)
	Append(ctx context.Context, a store.Append) (last int64, err error)
	Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error
	Release(ctx context.Context, run, owner string, epoch int64) error
	OpenAsk(ctx context.Context, a store.Ask) error
	SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error)
	Ask(ctx context.Context, id string) (store.Ask, error)
}

// Sink is told what happens in a run. Its methods must not block. Journalled and
// Closed are called by the run's actor, the others by the goroutines of its tasks,
// also at the same time and after Closed.
type Sink interface {
	// Journalled takes events that are durable, in order.
	Journalled(entries []Entry)
	// Text and Thinking take what the model says as it comes.
	Text(turn int, delta string)
	Thinking(turn int, delta string)
	// Progress takes how far the call with that key is.
	Progress(key string, p Progress)
	// Closed comes once, after everything else that is journalled. The run's
	// last event is missing where it could not be written.
	Closed(out Outcome)
}

// Progress is how far a tool call is, in units of its own.
type Progress struct {
	Done, Total float64 // Total is zero where it is unknown
	Message     string
}

// Config describes a run. It is not changed once the run has started.
type Config struct {
	ID        string
	Agent     string   // name of the agent
	Path      []string // agents from the root to this one
	InputHash string   // of what the run was started with, see [store.Run]
	Hash      string   // of the agent's configuration

	System string
	Input  []llm.Message
	Model  llm.Model
	Tools  Tools // nil means none
	// MaxTokens bounds the output of one turn. Zero means the provider's limit.
	MaxTokens int
	// Temperature is left to the provider where nil.
	Temperature *float64

	// Schema asks for an answer that is JSON of this schema; Check decides whether
	// one is, and its error is what the model is told. Both are optional.
	Schema json.RawMessage
	Check  func(text string) (json.RawMessage, error)

	// Gate decides on a call whose arguments are in order. It runs in a task; nil,
	// like a panic in it, asks for every call.
	Gate func(ctx context.Context, tool *Tool, args json.RawMessage) Verdict

	Journal Journal
	Owner   string // of the lease
	Sink    Sink

	Limits   Limits
	Parallel int // tool calls at once; zero means 8
	// MaxResult bounds what the model sees of one tool result, in bytes. Zero means
	// 100,000. The journal keeps all of it.
	MaxResult int
	// AskExpiry is how long a question waits for a human. Zero means 10 minutes.
	AskExpiry time.Duration
	// Grace is how long a run that ends waits for calls that do not heed their
	// cancelled context, and once more for its journal. Zero means 5 seconds.
	Grace time.Duration

	// Nonce tells this run from any other of the same ID in the keys its calls
	// carry. Empty makes one up.
	Nonce string
}

// Verdict is what a gate says of a call.
type Verdict uint8

// The verdicts. The zero value asks.
const (
	Ask Verdict = iota
	Allow
	Deny
)

const (
	leaseTime  = time.Minute // renewed three times in it
	askPoll    = time.Second // how often the store is asked for an answer given elsewhere
	maxCalls   = 128         // of one turn; more are refused
	maxRedos   = 2           // answers that may miss the schema before the run fails
	maxErrText = 4 << 10     // bytes of an error the model sees
)

func (c *Config) withDefaults() (*Config, error) {
	d := *c
	if d.ID == "" || d.Model == nil || d.Journal == nil || d.Sink == nil {
		return nil, errors.New("loop: a run needs an ID, a Model, a Journal and a Sink")
	}
	if err := d.Limits.Validate(); err != nil {
		return nil, err
	}
	d.Limits = d.Limits.withDefaults()
	d.Parallel = cmp.Or(d.Parallel, 8)
	d.MaxResult = cmp.Or(d.MaxResult, 100_000)
	d.AskExpiry = cmp.Or(d.AskExpiry, 10*time.Minute)
	d.Grace = cmp.Or(d.Grace, 5*time.Second)
	d.Owner = cmp.Or(d.Owner, "loop")
	d.Nonce = cmp.Or(d.Nonce, uuid.NewString())
	return &d, nil
}
