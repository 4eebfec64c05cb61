package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Sampling lets servers ask a model, at the user's cost (sampling/createMessage): with
// and without tools, which the server alone carries out. The zero value asks a person
// before each request is made and before its answer goes out: who answers for the run
// whose call it belongs to, or [mcpclient.AskOptions].Human of [Options].Host where it
// belongs to none. Without a person nothing is sampled.
//
// What is sampled during a call of a run is charged to that run, and holds to its
// limits; everything is charged to the server, and holds to its policy.
type Sampling struct {
	// Model answers. Nil means the runtime's.
	Model llm.Model
	// Default is the policy for servers that are not in Servers.
	Default SamplingPolicy
	// Servers are the policies by the servers' names.
	Servers map[string]SamplingPolicy
}

// SamplingPolicy says what one server may have of the model (SECA-43). Tokens, Cost and
// Requests are for the life of the runtime.
type SamplingPolicy struct {
	// Mode is ask, allow or deny. Empty means that of the [mcpclient.Server], and else ask.
	Mode mcpclient.SamplingMode
	// Tokens bounds input and output of all requests. Zero means 200,000, and below
	// zero there is no limit.
	Tokens int
	// Cost bounds what they cost. Zero means no limit; with one, the price of every
	// model that may answer must be known.
	Cost llm.Money
	// Requests bounds how often a model is asked. Zero means no limit.
	Requests int
	// PerMinute bounds how often the server may ask within a minute (SAMP-32). Zero
	// means 60.
	PerMinute int
	// MaxTokens bounds the output of one answer. Zero means as much as is asked for.
	MaxTokens int
	// Models are the only models that may answer, by their names with or without the
	// provider. Nil means all.
	Models []string
	// Context is how much of a run the server may have added to what it asks:
	// [mcp.ContextThisServer] for its own instructions and what its tools were asked
	// and have answered, [mcp.ContextAllServers] for all servers of the run. Empty
	// means nothing, and then it is not even declared (SAMP-07).
	Context string
}

const (
	defaultSampleTokens = 200_000
	defaultSampleRate   = 60
)

// check says what is wrong with a policy.
func (p *SamplingPolicy) check() error {
	switch p.Mode {
	case mcpclient.SamplingDefault, mcpclient.SamplingAsk, mcpclient.SamplingAllow, mcpclient.SamplingDeny:
	default:
		return fmt.Errorf("unknown mode %q: want ask, allow or deny", p.Mode)
	}
	switch p.Context {
	case "", mcp.ContextNone, mcp.ContextThisServer, mcp.ContextAllServers:
	default:
		return fmt.Errorf("unknown context %q: want none, thisServer or allServers", p.Context)
	}
	if p.Cost < 0 || p.Requests < 0 || p.PerMinute < 0 || p.MaxTokens < 0 {
		return fmt.Errorf("a Cost, Requests, PerMinute or MaxTokens below zero: zero means no limit")
	}
	return nil
}

// samplingService answers the sampling requests of servers. It does not change.
type samplingService struct {
	model   llm.Model // as it is asked, with its retries
	names   []string  // of all models that may answer
	price   func(model string) (llm.Price, bool)
	journal store.Journal
	log     *slog.Logger
	servers map[string]*serverAccount
	// instructions are what a server says of itself. It is set before the first request.
	instructions func(server string) string
}

// serverAccount is the share of one server in the model, and its use of it.
type serverAccount struct {
	name    string
	policy  SamplingPolicy
	models  []string // those that may answer
	account *budget.Account
	rate    *rate.Limiter
}

// openSampling makes what answers these servers, and tells each of them apart.
func (rt *Runtime) openSampling(servers []mcpclient.Server) (*samplingService, error) {
	model := rt.opts.Sampling.Model
	if model == nil {
		model = rt.opts.Model
	}
	if model == nil {
		return nil, errors.New("sampling: there is no model: set Options.Model or Sampling.Model")
	}
	s, err := newSamplingService(rt.opts.Sampling, servers, model, func(name string) (llm.Price, bool) { return rt.price(model, name) })
	if err != nil {
		return nil, err
	}
	s.model, s.journal, s.log = rt.model(model), rt.store, rt.opts.Logger
	return s, nil
}

// newSamplingService checks the policies of all servers and opens their accounts.
func newSamplingService(o *Sampling, servers []mcpclient.Server, model llm.Model, price func(string) (llm.Price, bool)) (*samplingService, error) {
	s := &samplingService{names: namesOfModel(model), price: price, servers: make(map[string]*serverAccount)}
	for name := range o.Servers {
		if !slices.ContainsFunc(servers, func(srv mcpclient.Server) bool { return srv.Name == name }) {
			return nil, fmt.Errorf("sampling: there is no server %q", name)
		}
	}
	for i := range servers {
		srv := &servers[i]
		policy, named := o.Servers[srv.Name]
		if !named {
			policy = o.Default
			policy.Mode = cmp.Or(srv.Sampling, policy.Mode)
		}
		policy.Mode = cmp.Or(policy.Mode, srv.Sampling, mcpclient.SamplingAsk)
		if policy.Context == mcp.ContextNone {
			policy.Context = ""
		}
		if err := policy.check(); err != nil {
			return nil, fmt.Errorf("sampling of %s: %w", srv.Name, err)
		}
		one, err := s.open(srv.Name, policy)
		if err != nil {
			return nil, fmt.Errorf("sampling of %s: %w", srv.Name, err)
		}
		s.servers[srv.Name] = one
		srv.Sampling, srv.SamplingContext = policy.Mode, policy.Context != ""
	}
	return s, nil
}

// open makes the account of a server.
func (s *samplingService) open(name string, p SamplingPolicy) (*serverAccount, error) {
	one := &serverAccount{name: name, policy: p}
	for _, model := range s.names {
		if p.Models == nil || slices.ContainsFunc(p.Models, func(allowed string) bool { return isModel(model, allowed) }) {
			one.models = append(one.models, model)
		}
	}
	if p.Mode == mcpclient.SamplingDeny {
		return one, nil
	}
	if len(one.models) == 0 {
		return nil, fmt.Errorf("none of its models %q is among those that answer, %q", p.Models, s.names)
	}
	if p.Cost > 0 {
		if _, unknown := s.dearest(one.models); unknown != "" {
			return nil, fmt.Errorf("a limit of money needs the price of %s", unknown)
		}
	}
	limits := budget.Limits{Tokens: cmp.Or(p.Tokens, defaultSampleTokens), Cost: p.Cost, ModelCalls: p.Requests}
	limits.Tokens = max(limits.Tokens, 0) // below zero is no limit here
	one.account = budget.New("sampling of the server "+name, limits)
	perMinute := cmp.Or(p.PerMinute, defaultSampleRate)
	one.rate = rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), perMinute)
	return one, nil
}

// isModel reports whether a name means a model, with or without its provider.
func isModel(model, name string) bool {
	_, short, found := strings.Cut(model, "/")
	return strings.EqualFold(model, name) || found && strings.EqualFold(short, name)
}

// namesOfModel are the names of all models that may answer in its place.
func namesOfModel(m llm.Model) []string {
	r, ok := beneath[*router.Router](m)
	if !ok {
		return []string{m.Name()}
	}
	var names []string
	for _, card := range r.Cards() {
		names = append(names, card.Name())
	}
	return names
}

// dearest is the price at which a turn is reserved that any of these models may answer,
// or the name of one without a known price.
func (s *samplingService) dearest(models []string) (most llm.Price, unknown string) {
	for _, model := range models {
		p, ok := s.price(model)
		if !ok {
			return llm.Price{}, model
		}
		most.Input, most.Output = max(most.Input, p.Input), max(most.Output, p.Output)
	}
	return most, ""
}
