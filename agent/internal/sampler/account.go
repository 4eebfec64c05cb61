package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"golang.org/x/time/rate"
)

const (
	defaultTokens = 200_000
	defaultRate   = 60
)

// Policy limits the use of the model by one server, as agent.SamplingPolicy describes it.
type Policy struct {
	Mode      mcpclient.SamplingMode
	Tokens    int
	Cost      llm.Money
	Requests  int
	PerMinute int
	MaxTokens int
	Models    []string
	Context   string
}

// Check returns the error of a bad policy.
func (p *Policy) Check() error {
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

// account is the share of one server in the model, and its use of it.
type account struct {
	name   string
	policy Policy
	models []string // the ones that may answer
	price  func(model string) (llm.Price, bool)
	budget *budget.Account
	rate   *rate.Limiter
}

// openAccount makes the account of a server.
func openAccount(name string, p Policy, models []string, price func(model string) (llm.Price, bool)) (*account, error) {
	one := &account{name: name, policy: p, price: price}
	for _, model := range models {
		if p.Models == nil || slices.ContainsFunc(p.Models, func(allowed string) bool { return isModel(model, allowed) }) {
			one.models = append(one.models, model)
		}
	}
	if p.Mode == mcpclient.SamplingDeny {
		return one, nil
	}
	if len(one.models) == 0 {
		return nil, fmt.Errorf("none of its models %q is among those that answer, %q", p.Models, models)
	}
	if p.Cost > 0 {
		if _, unknown := one.dearest(); unknown != "" {
			return nil, fmt.Errorf("a limit of money needs the price of %s", unknown)
		}
	}
	limits := budget.Limits{Tokens: cmp.Or(p.Tokens, defaultTokens), Cost: p.Cost, ModelCalls: p.Requests}
	limits.Tokens = max(limits.Tokens, 0) // below zero is no limit here
	one.budget = budget.New("sampling of the server "+name, limits)
	perMinute := cmp.Or(p.PerMinute, defaultRate)
	one.rate = rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), perMinute)
	return one, nil
}

// isModel reports whether a name means a model, with or without its provider.
func isModel(model, name string) bool {
	_, short, found := strings.Cut(model, "/")
	return strings.EqualFold(model, name) || found && strings.EqualFold(short, name)
}

// refuse is the error for a server that gets no answer: the code of a user's refusal, and
// the reason, which the user reads in the server's error (SAMP-41).
func refuse(format string, args ...any) error {
	return mcp.Errorf(mcp.CodeUserRejected, "sampling refused: "+format, args...)
}

// reserve holds a turn in the account of the server, and in that of the run. If it is
// only to be tried, nothing is held.
func (one *account) reserve(run *budget.Account, req *llm.Request, keep bool) (held []*budget.Hold, output int, err error) {
	turn := budget.Turn{Input: llm.EstimateTokens(req), Output: req.MaxTokens}
	price, unknown := one.dearest()
	if unknown == "" {
		turn.Price = price
	}
	for _, a := range []*budget.Account{one.budget, run} {
		if a == nil {
			continue
		}
		var h *budget.Hold
		if h, turn.Output, err = a.ReserveTurn(turn); err != nil {
			err = one.refusal(err, a)
			break
		}
		held = append(held, h)
		if unknown != "" && a.Left().Cost != budget.Unlimited {
			err = refuse("the price of %s is not known, and there is a limit of money", unknown)
			break
		}
	}
	if err != nil || !keep {
		release(held)
		held = nil
	}
	return held, turn.Output, err
}

func release(held []*budget.Hold) {
	for _, h := range held {
		h.Release()
	}
}

// refusal is the error of a reservation of account a as the server gets it.
func (one *account) refusal(err error, a *budget.Account) error {
	limit, ok := errors.AsType[*budget.LimitError](err)
	switch {
	case ok && a == one.budget:
		what := limit.Max + " " + limit.Limit
		if limit.Limit == budget.Cost {
			what = "a cost of " + limit.Max
		}
		return refuse("the server %s has had what it was given of the model: %s", one.name, what)
	case ok:
		return refuse("%v", limit)
	case errors.Is(err, budget.ErrClosed):
		return refuse("the run has ended")
	}
	return fmt.Errorf("reserving a turn: %w", err)
}

// dearest returns the price at which a turn is reserved that any of the models may answer, or
// the name of one without a known price.
func (one *account) dearest() (most llm.Price, unknown string) {
	for _, model := range one.models {
		p, ok := one.price(model)
		if !ok {
			return llm.Price{}, model
		}
		most.Input, most.Output = max(most.Input, p.Input), max(most.Output, p.Output)
	}
	return most, ""
}
