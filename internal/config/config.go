package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/llm"
)

// Version is the only version of the format.
const Version = 1

// Config is what the files say. The zero value is that of no file.
type Config struct {
	// Files are those that were read, the one that counts most first.
	Files    []string
	Models   Models
	Sampling Sampling
	Limits   Limits
	MCP      MCP
	// Agents are by name: those of the files and those that have files of their own.
	Agents    map[string]Agent
	Store     Store
	Serve     Serve
	Worker    Worker
	Telemetry Telemetry
	// Notes say what of a project's file does not count, and why.
	Notes []Problem

	refs     []ref            // where the files name models
	values   map[string]Value // what the files say and counts, by key
	sections map[string]bool  // those that the file has
	resolved map[string]bool  // sections whose variables were put in
}

// Models says which models there are and which are used.
type Models struct {
	// Default is used where nothing names a model. Empty means what is found.
	Default string
	// Fallback are asked, in this order, when the chosen one fails. Nil means none.
	Fallback []string
	// Providers are servers by their name, which is the first half of their models' names.
	Providers map[string]Provider
	// Cards say more of models than their servers do, by full names.
	Cards map[string]Card
	// Aliases are more names for models, maybe those of other vendors.
	Aliases map[string][]string
	// Prices are by full names.
	Prices map[string]Price
}

// Price is what a model costs, and where that is written.
type Price struct {
	llm.Price
	Source string // file and line
}

// Card overrides what is known of a model. What is nil or zero is left as it is.
type Card struct {
	Tools, Vision, Audio, Thinking, JSON *bool
	Context                              int
	Cost, Speed, Intelligence            *float64 // from 0 to 1
	Parameters                           float64  // billions
	Aliases                              []string
}

// Sampling says what MCP servers may ask of models.
type Sampling struct {
	// Model answers them. Empty means the one of the run.
	Model   string
	Default SamplingPolicy
	// Servers are exceptions, by the servers' names.
	Servers map[string]SamplingPolicy
}

// SamplingPolicy is what one server may. Zero values mean what agent.SamplingPolicy says
// of them.
type SamplingPolicy struct {
	Mode           string // "", ask, allow or deny
	MaxTokensTotal int
	MaxCost        llm.Money
	MaxRequests    int
	PerMinute      int
	MaxTokens      int
	Models         []string // names; nil means all
	Context        string   // "", thisServer or allServers
}

// MainAgent is the name of the agent that flags make up; none of a file has it.
const MainAgent = "main"

// Agent is an agent as a file defines it. Zero values mean what agent.Config says of
// them.
type Agent struct {
	Description  string
	Instructions string
	// Model is a name; empty means the one of the run.
	Model string
	// Servers are names; nil means all.
	Servers []string
	// Allow and Deny choose among the servers' tools, by patterns of the names that the
	// model sees; nil allows all, and Deny wins.
	Allow, Deny []string
	Limits      Limits
	Approve     string     // "", never, tainted, writes or all
	Thinking    llm.Effort // one of [llm.Efforts]; empty leaves it to the model
	// Input and Output are JSON schemas; nil means none.
	Input, Output json.RawMessage

	// Source is its file, and the line where that has more in it.
	Source string
	// Foreign says that it came with a project whose file the user has not named.
	Foreign bool
	// Err says that it cannot be used, and why; only agents of files of their own have
	// one, since those are shared with other programs.
	Err error
}

// Provider is a server of models as a file has it: variables are not expanded.
type Provider struct {
	Type string // [TypeOpenAI] or [TypeOllama]
	// What API, MaxTokensField and APIVersion mean is said in openai.Options.
	API            string // "", auto, chat or responses
	MaxTokensField string
	APIVersion     string
	// Concurrency and PerMinute bound the requests. Zero means not said.
	Concurrency, PerMinute int
	// KeepAlive is how long Ollama keeps a model loaded; below zero is for ever.
	KeepAlive time.Duration
	// Context is the window that Ollama is asked for, in tokens.
	Context int

	baseURL string
	headers map[string]Key // variables not expanded, but maybe secret as they are
	apiKey  string         // only variables
	keyEnv  string
	keyFile string
	dir     string // relative names of files are below it
}

// MCP says where servers are defined and how they are talked to.
type MCP struct {
	// Files are in the format of .mcp.json, in the order in which they count. Nil means
	// the usual ones.
	Files []string
	// Protocol is auto, legacy, modern or a date. Empty means auto.
	Protocol string
	// Instances bounds the processes of a server whose definition does not say it. Zero is
	// the program's own bound.
	Instances int
	// HeldInstances is [mcpclient.Server].HeldInstances for a server whose definition does not say
	// it: below zero is none.
	HeldInstances int
	// Polls are patterns of tools whose calls may be repeated, as [agent.Options].Polls.
	Polls []string
}

// KeepRule says how long runs and jobs of an agent, or in a state, are kept once they have ended.
type KeepRule struct {
	Agent  string        // empty for any
	States []string      // as [store.EndStates] lists them; none for any
	Keep   time.Duration // below zero is for ever
}

// Store is where runs are kept.
type Store struct {
	// Path is a file. Empty means the one in the state folder.
	Path string
	// Keep is how long workers keep runs and jobs that have ended. Zero means 180 days.
	Keep time.Duration
	// KeepRuns bounds the runs, and the jobs, that have ended and are kept. Zero is no bound.
	KeepRuns int
	// Rules are for some runs and jobs in place of Keep and KeepRuns: the first that has one decides. At most 100.
	Rules []KeepRule
}

// Auth says who may use an endpoint.
type Auth struct {
	Type  string // "", none, bearer or oauth
	Token Key    // of bearer

	// What follows is of oauth: whose tokens are accepted, and what they must be for.
	Issuer, Resource string
	Users            string              // a file; the server is the issuer itself then
	Scopes           []string            // that each request needs
	Tools            map[string][]string // that tools, prompts and resources need beside those, by pattern
	// ClientID and ClientSecret are those with which the issuer is asked about each token.
	// Without ClientID it is not asked.
	ClientID     string
	ClientSecret Key
	Login        Login // as Users; people log in at an OpenID provider

	MaxLife        time.Duration // of a token since it was issued
	ClientSubjects *bool         // tokens without a subject are accepted
	RetryPublic    *bool         // a client without a secret may ask again for an answer that was lost
}

// Login is an OpenID provider at which people log in, and the client that the server is there.
type Login struct {
	Issuer, ClientID string
	ClientSecret     Key
}

// Metrics is where operators ask for metrics and readiness.
type Metrics struct {
	HTTP  string // the address to listen on; empty for none
	Token Key
}

// Serve is what "troupe serve" does where the command line says nothing.
type Serve struct {
	HTTP     string   // the address to listen on; empty means stdio has to be asked for
	Protocol string   // "", both, legacy or modern
	Expose   []string // of agents and tools; nil means agents
	Agents   []string // names; nil means all
	Servers  []string // names, of the gateway; nil means all
	Names    string   // "", qualified or plain
	// Unanswered is what happens to questions that the client cannot be asked: "",
	// inbox or decline.
	Unanswered     string
	AllowedHosts   []string
	AllowedOrigins []string
	Auth           Auth
	Metrics        Metrics
	ShareLogins    *bool // all clients act with the logins of this program at the servers behind
	BehindProxy    *bool // a proxy adds the address of its client to X-Forwarded-For
}

// Worker is what "troupe worker" does where the command line says nothing. Zero values
// mean its defaults.
type Worker struct {
	Concurrency int
	MaxParked   int
	Lease       time.Duration
	Drain       time.Duration
	Attempts    int
	ParkAfter   time.Duration
	GiveUp      time.Duration // of waiting for a model's provider
	OnUnknown   string        // ask, tell, again or end
	HTTP        string        // the address of the intake; empty for none
	BehindProxy *bool         // clients of the intake come through a proxy
	Token       Key           // that the intake asks for
	HookSecret  Key           // that webhooks are signed with
	// HookHosts are hosts, "host:port" and networks that webhooks may go to although
	// they are not public, or are not https.
	HookHosts []string
	Notify    Notify
	Schedules map[string]Schedule
}

// Notify says how people are notified of questions that begin to wait.
type Notify struct {
	URL     string   // gets a webhook that is signed with HookSecret
	Command []string // is started with the same JSON on stdin
	Details bool     // it has what is asked, too
}

// IsZero reports whether no notification is sent.
func (n *Notify) IsZero() bool { return n.URL == "" && len(n.Command) == 0 }

// Schedule is a job that comes again.
type Schedule struct {
	Cron     string
	Agent    string // empty means main
	Prompt   string
	Timezone string // of the IANA; empty means UTC
	Source   string // file and line
}

// Telemetry says what is told of runs, and where; the variables OTEL_* come first.
type Telemetry struct {
	// Endpoint is the URL that takes OTLP over HTTP. Empty means none.
	Endpoint string
	// Content says that prompts, answers and arguments are told too.
	Content bool
}

// ref is a place where a file names a model, to be looked at once all providers are known.
type ref struct {
	Problem        // without text
	name    string // the model
	full    bool   // it must be a whole name, provider/model
}

// Values are all that the files say and that counts, sorted by key.
func (c *Config) Values() []Value {
	return slices.SortedFunc(maps.Values(c.values), func(a, b Value) int { return strings.Compare(a.Key, b.Key) })
}

// Value returns what the files say under a key.
func (c *Config) Value(key string) (Value, bool) {
	v, ok := c.values[key]
	return v, ok
}

// problemAt is a problem with the value of a key.
func (c *Config) problemAt(key, format string, args ...any) Problem {
	v := c.values[key]
	return Problem{File: v.File, Line: v.Line, Column: v.Column, Text: fmt.Sprintf(format, args...)}
}

// Fault is err with the key that it is about, and the place of the key in the files; nil for nil.
func (c *Config) Fault(key string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := c.values[key]; !ok {
		return fmt.Errorf("%s: %w", key, err)
	}
	p := c.problemAt(key, "%s: %v", key, err)
	return &p
}

// FileName is how a file is called.
const FileName = "troupe.yaml"
