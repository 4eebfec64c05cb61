package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/guard"
	"github.com/troupe-dev/troupe/internal/runlog"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/store"
)

// Journal is the part of a [store.Store] that a run needs.
type Journal interface {
	Create(ctx context.Context, r store.Run, owner string, ttl time.Duration, first ...store.Event) (store.Run, error)
	Append(ctx context.Context, a store.Append) (last int64, err error)
	Renew(ctx context.Context, run, owner string, epoch int64, ttl time.Duration) error
	Release(ctx context.Context, run, owner string, epoch int64) error
	SettleAsk(ctx context.Context, id string, d store.Decision) (store.Ask, error)
	Ask(ctx context.Context, id string) (store.Ask, error)
}

// Sink receives the events of a run. Its methods must not block. The run's actor calls
// Journalled, Stalled, Resumed and Closed, the goroutines of its tasks call the others, also
// at the same time and after Closed.
type Sink interface {
	// Journalled takes events that are durable, in order. It must not keep the slice.
	Journalled(entries []runlog.Entry)
	// Text and Thinking take the pieces of the model's answer as they come.
	Text(turn int, delta string)
	Thinking(turn int, delta string)
	// Retried comes before each wait for another attempt, Chose when a router has chosen a
	// model. Restarted says that all text and thinking of the turn so far is void: the model is
	// asked again.
	Retried(turn int, a llm.Attempt)
	Chose(turn int, c llm.Choice)
	Restarted(turn int)
	// Progress takes how far the call with that key is, in units of its own; total is zero
	// where it is unknown.
	Progress(key string, done, total float64, message string)
	// Stalled reports that the run waits for its store, with the store's first error. Resumed
	// ends the wait; it does not come at the end of the run.
	Stalled(err error)
	Resumed()
	// Closed comes once, after everything else that is journalled. The run's
	// last event is missing where it could not be written.
	Closed(out Outcome)
}

// Trace observes each turn and each tool call: as it begins, and by the function that the
// method returns how it ended, which may be on another goroutine. The work is done in the
// context that it returns, which must be derived from the one it is given. Its methods may be
// called from any goroutine, must not block, and are called in pairs: what has begun ends,
// also by a panic.
type Trace interface {
	// Turn is one turn of the model with all attempts. The request must not be changed, nor
	// kept. The response is nil with an error.
	Turn(ctx context.Context, turn int, model string, req *llm.Request) (context.Context, func(*llm.Response, error))
	// Tool is one call that is being made.
	Tool(ctx context.Context, call *Call) (context.Context, func(*mcp.CallToolResult, error))
}

// Answers reports to runs the decisions on their asks that come from elsewhere, other
// processes too: one that looks at the store for all runs, in place of each that looks for
// itself. Its methods must not block.
type Answers interface {
	// Watch calls settled, which does not block, once the ask is decided. It may do so
	// more than once, and not for one that expires. It ends with Forget, or with run.
	Watch(ask string, run actors.Ref, settled func(store.Ask))
	Forget(ask string)
}

// Own is the part of a configuration that is one run's own.
type Own struct {
	ID      string
	*Origin          // nil is none of it; released once the run has begun
	Path    []string // agents from the root to this one
	Tools   Tools    // nil means none
	// Schema asks for an answer that is JSON of this schema; Check decides whether
	// one is, and the model reads its error. Both are optional.
	Schema json.RawMessage
	Check  func(text string) (json.RawMessage, error)
	// Gate decides on a call whose arguments are in order. It runs in a task, but for
	// [Config].GateNow; nil, like a panic in it, asks for every call.
	Gate func(ctx context.Context, tool *Tool, args json.RawMessage) guard.Verdict
	// Taint is the taint of the tree of runs. Nil means a tree of its own.
	Taint *guard.TaintState
	Sink  Sink
	// Trace observes turns and calls. Nil means none.
	Trace Trace
	// Nonce tells this run from any other of the same ID in the keys its calls
	// carry. Empty makes one up.
	Nonce string
	Wall  time.Duration // in place of Limits.Wall; zero leaves that
	// Resumes has the run go on that a process has left. Its limits, schema and keys are those
	// that it was begun with. Nil begins a run.
	Resumes *Resumption
	// EndsJob returns the end of the job whose attempt the run is, which is written with the
	// run's last event; nil for one that is not written with it. It is called once, and must not block. Nil is no job.
	EndsJob func(*Outcome) *store.JobUpdate
	// Unknown is what becomes of a call whose outcome is unknown and that may not be made twice:
	// [runlog.OutcomeAsk] (so is empty), OutcomeAgain, OutcomeTell or OutcomeEnd. A run without a
	// Journal tells where it would ask.
	Unknown string
	// Grace is how long a run that ends waits for calls that do not heed their
	// cancelled context, and once more for its journal. Zero means that of the template, and
	// there 5 seconds.
	Grace time.Duration

	// Job is the job whose attempt the run is, or that at the root of its tree; empty for none. Owner and Epoch are those of
	// the lease that a run is begun under which is a job's, or that another one starts, see [Run.Below]. Any other gets a
	// lease of its own. An empty Owner and a zero Lease, which is how long the lease lasts, mean those of the template.
	Job   string
	Owner string
	Epoch int64
	Lease time.Duration
	Held  bool   // the lease is the caller's, who gives it up once the run is left: a run does not
	Asks  string // tells its questions from those of the run whose nonce it has: see [runlog.RunStarted]
}

// Origin is the input and the parent of a run.
type Origin struct {
	Parent    string // the run that this one is a part of; empty for none
	InputHash string // of what the run was started with, see [store.Run]
	Input     []llm.Message
	With      json.RawMessage // what the program keeps for itself of how it started the run; empty for nothing
	// Budget is the account that the run's own is made a child of, [Call.Budget] of the
	// call that starts it. Nil makes a tree of its own.
	Budget *budget.Account
}

// Config describes runs that are alike. It is not changed once a run has started.
type Config struct {
	Own           // of which a [Template] takes Grace; a hand-off takes Tools and Gate
	Agent  string // name of the agent
	Hash   string // of the agent's configuration
	System string
	Model  llm.Model
	// MaxTokens bounds the output of one turn. Zero means the provider's limit.
	MaxTokens int
	// Temperature is left to the provider where nil.
	Temperature *float64
	// Effort is how much the model thinks. Empty leaves it to the model.
	Effort llm.Effort

	// GateNow says that Gate looks nothing up: the run's actor calls it, and no task.
	GateNow bool
	// Guards check the input and output, in this order.
	Guards []guard.Guard
	// StopWhen ends the run after a turn that the model has not ended it with, and
	// says why. It runs in a task. Nil never does.
	StopWhen func(*guard.TurnInfo) (reason string, stop bool)
	// Repeats is how often in a row the model may come to the same before it is told: the same calls and no others in
	// each turn, the same two to four turns in turn, or results that are the same whatever it calls, see [runlog.Repeats].
	// At twice as often the run wraps up as at a limit, which is called [budget.Repeats]. Zero means 3, below zero
	// switches it off.
	Repeats int
	// Context is how many tokens the model takes, input and output together. What
	// does not fit is left out of the conversation, the oldest first. Zero means that
	// nothing is left out before the model says that it is too much.
	Context int
	// Summarise says in a few words what is left out, in place of what it has said
	// before. It runs in a task, and what it spends is the run's: by has its account. Nil, or
	// an error, leaves a mark only.
	Summarise func(ctx context.Context, by *Call, before string, dropped []llm.Message) (string, error)

	// Journal keeps the events of the run. Nil keeps none: there is no lease, no person can
	// be asked, so that a call whose verdict is [guard.Ask] is refused, and the sink gets the
	// events as they happen.
	Journal Journal
	Owner   string // of the leases
	// Lease is how long the lease on the run lasts; it is renewed three times in it. A run
	// whose store does not take its events at the moment waits, also when the lease is over: it
	// then goes on, or another process has claimed it. Zero means a minute.
	Lease time.Duration
	// Stored says that the Journal outlives the process: a run whose actor dies, or whose model cannot
	// be asked at the moment, is left in it to go on later, where any other run fails.
	Stored bool
	// Answers tells the run of answers that were given elsewhere. Nil lets it look at the
	// Journal once a second, for itself.
	Answers Answers
	// Kind is what the run is to the census: [actors.KindLoop] for a loop that serves
	// another's work. Zero means [actors.KindRun].
	Kind actors.Kind
	// LastAnswers says [llm.ToolChoiceNone] in the last turn that Limits.Steps permits, with
	// the tools still there. Calls that come all the same are left out.
	LastAnswers bool

	Limits Limits
	// Pricing has the price of the model. Nil means that money is not counted; a run
	// with a limit of money, its own or that of Budget, needs it.
	Pricing  *Pricing
	Parallel int // tool calls at once; zero means 8
	// MaxResult bounds the part of one tool result that the model sees, in bytes. Zero means
	// 100,000. The journal keeps all of it.
	MaxResult int
	// AskExpiry is how long a question waits for a human. Zero means 10 minutes.
	AskExpiry time.Duration
}

const (
	maxCalls = 128 // of one turn; more are refused
	maxRedos = 2   // answers that may miss the schema before the run fails
)

func (c *Config) withDefaults() (*shared, error) {
	d := shared{Config: *c}
	if d.Model == nil {
		return nil, errIncomplete
	}
	if err := d.Limits.Validate(); err != nil {
		return nil, err
	}
	d.Limits = d.Limits.withDefaults()
	if d.Limits.OnLimit == runlog.LimitAsk && d.Journal == nil {
		return nil, errors.New("loop: a run without a Journal cannot ask for more at a limit")
	}
	d.Parallel = cmp.Or(d.Parallel, 8)
	d.Repeats = cmp.Or(d.Repeats, 3)
	d.MaxResult = cmp.Or(d.MaxResult, 100_000)
	d.AskExpiry = cmp.Or(d.AskExpiry, 10*time.Minute)
	d.Own = Own{Grace: cmp.Or(c.Grace, 5*time.Second)}
	d.Owner = cmp.Or(d.Owner, "loop")
	d.Lease = cmp.Or(d.Lease, time.Minute)
	d.Kind = cmp.Or(d.Kind, actors.KindRun)
	return &d, nil
}

var errIncomplete = errors.New("loop: a run needs an ID, a Model and a Sink")

// Template makes runs that are alike: what they have in common they share, as thousands of
// runs of one agent do. It does not change, and its methods may be called from any
// goroutine.
type Template struct{ common *shared }

// shared is a configuration that any number of runs may have.
type shared struct {
	Config
}

// config is that of one run. What it has of its own hides what the template says of the
// same.
type config struct {
	Own
	*shared
}

// NewTemplate checks a configuration.
func NewTemplate(cfg *Config) (*Template, error) {
	common, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Template{common}, nil
}

// Limits returns the limits of the runs.
func (t *Template) Limits() runlog.Limits { return *t.common.recordedLimits() }

// recordedLimits are the limits as a journal has them.
func (s *shared) recordedLimits() *runlog.Limits {
	l := &s.Limits
	return &runlog.Limits{Steps: l.Steps, Tokens: l.Tokens, ToolCalls: l.ToolCalls, Cost: l.Cost, ModelCalls: l.ModelCalls, Depth: l.Depth,
		OnLimit: l.OnLimit, WallMS: l.Wall.Milliseconds(), MaxResult: s.MaxResult}
}

// takeOver returns the configuration of the same run with another agent: its name,
// instructions, model, tools, and what it allows. Input, schema, limits and journal
// are the run's.
func (c *config) takeOver(next *Config) *config {
	d, s := *c, *c.shared
	s.Agent, s.Hash, s.System, s.Model = next.Agent, next.Hash, next.System, next.Model
	s.MaxTokens, s.Temperature, s.Effort, s.GateNow = next.MaxTokens, next.Temperature, next.Effort, next.GateNow
	s.Guards, s.StopWhen = next.Guards, next.StopWhen
	s.Context, s.Summarise, s.Pricing = next.Context, next.Summarise, next.Pricing
	d.shared, d.Tools, d.Gate = &s, next.Tools, next.Gate
	d.Path = append(slices.Clone(c.Path), next.Agent)
	return &d
}
