package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Options are the parts and settings of a runtime; nil is the same as the zero value.
type Options struct {
	// Model is asked by agents that have none of their own.
	Model llm.Model
	// Retry changes how a model that fails is asked again; see [llm.Retry]. Nil means
	// its defaults, MaxAttempts 1 switches it off.
	Retry *llm.RetryOptions
	// Providers are the settings of each provider of models, by its name: "openai" and
	// "ollama" for their usual servers, "openai@host" for others, or the name that a
	// client was given; see package actors/provider. "" is for all that are not named.
	// Where Retry is nil there it is the one above. Nil means the defaults.
	Providers map[string]ProviderOptions
	// Prices are the prices of models, by their full names such as "openai/gpt-5-mini", in
	// the currency of [Limits].Cost. A router's own prices count where the name is not
	// here. Nothing else is a price: no public list is trusted.
	Prices map[string]llm.Price
	// Servers are the MCP servers whose tools agents may use. Those that come from a
	// file start only with consent, see Consent; naming one here in Go is consent.
	Servers []mcpclient.Server
	// Consent decides on a server that comes from a file, before its command is
	// started, unless the store has a recorded approval of exactly this definition.
	// An error refuses it, and is shown as the reason. Nil refuses.
	Consent func(ctx context.Context, server mcpclient.Server) error
	// Sampling lets servers ask a model, and limits each server's use of it. It takes the
	// place of the Host's Sampler. Nil refuses.
	Sampling *Sampling
	// Host changes the connections to servers; its Consent is not used. Nil means the
	// defaults; its Pins, if they are nil, are those of the Store: see [Pins].
	Host *mcpclient.HostOptions
	// Tools are functions of the program that every agent has.
	Tools []Tool
	// Polls are the tools of servers that look whether something has changed, by patterns as in
	// [path.Match] of the names that the model sees, such as "ci__status": their calls may be
	// repeated, and [Config.MaxRepeats] does not count them. Nil means none.
	Polls []string
	// Approve decides which calls wait for a human, for agents without a policy of their
	// own. Nil means [AskBeforeWrites].
	Approve ApprovePolicy
	// OnAsk answers the questions of runs, those of sub-agents among them: may this call be
	// made, which values go into this server's form? Nil leaves them to readers of
	// [Run.Events] and to the store's other users. They can still answer the questions
	// that it leaves open. A question without an answer is declined after [Config].AskExpiry, 10 minutes: in a
	// program without a person, set it, or Approve, or trust a server whose tools only read.
	OnAsk AskFunc
	// Store keeps runs, questions, approvals and pins, and is left open by Close. Nil keeps
	// them in memory, the last 128 runs that have ended among them.
	Store store.Store
	// OnClose says what becomes of the runs under way when the runtime closes. The zero value
	// suspends them, if there is a Store.
	OnClose CloseMode
	// OnUnknown is what becomes of a call of unknown outcome: its process has ended, its connection
	// was lost, its time was over, or what came as its answer cannot be used. The zero value
	// asks a person. A call that is declared safe is made again without that.
	OnUnknown UnknownPolicy
	// OnDrift is what becomes of a resumed run whose agent or tools are not as it has recorded
	// them. The zero value is [AdoptDrift].
	OnDrift DriftPolicy
	// StartedWith is that of runs without one of their own: see [RunOptions]. Empty is none.
	StartedWith json.RawMessage
	// Tracer observes runs, turns and tool calls. Nil means none.
	Tracer Tracer
	// Lease is how long the lease on a run lasts, which is renewed three times in it: after
	// that others may take a run over whose process has gone or stands still. Zero means a
	// minute, and that there are no others. It is also how long a run waits for a Store that
	// is locked, full or out of reach: see [Runtime.Stalled]. With zero it waits until it is
	// cancelled.
	Lease time.Duration
	// MaxRuns bounds the runs at once. Zero means 10,000.
	MaxRuns int
	// MaxTenants bounds the tenants at once. Zero means 1000.
	MaxTenants int
	// Grace is how long a run that was cancelled waits for tools that do not heed it,
	// and once more for its store. Zero means 5 seconds.
	Grace time.Duration
	// Logger takes structured logs. Nil passes warnings and errors to [slog.Default], as it
	// is when the runtime is opened, and discards the rest: a server that does not start or
	// a tool that panics is seen without any set-up. [slog.DiscardHandler] silences all.
	Logger *slog.Logger
}

type options struct {
	Options
	Retry llm.RetryOptions
}

func (o *Options) withDefaults() options {
	d := options{Options: *cmp.Or(o, new(Options))}
	if d.Options.Retry != nil {
		d.Retry = *d.Options.Retry
	}
	if d.Approve == nil {
		d.Approve = AskBeforeWrites
	}
	d.MaxRuns = cmp.Or(d.MaxRuns, 10_000)
	d.MaxTenants = cmp.Or(d.MaxTenants, maxTenants)
	d.Grace = cmp.Or(d.Grace, 5*time.Second)
	if d.Logger == nil {
		d.Logger = slog.New(warnings{slog.Default().Handler()})
	}
	return d
}

// warnings is a handler that drops all records below a warning.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// maxTenants is the default of [Options].MaxTenants.
const maxTenants = 1000
