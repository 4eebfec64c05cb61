package setup

import (
	"cmp"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/llm"
)

// limitFlags are the flags that bound what a run may spend.
type limitFlags struct {
	maxSteps      int
	maxTokens     int
	maxCalls      int
	maxModelCalls int
	maxCost       string
	onLimit       string
	prices        []string
	timeout       time.Duration

	HeldOutside bool // the command holds the timeout itself, the time of questions included; no flag
}

func (f *limitFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.maxSteps, "max-steps", 0, "take at most `N` turns with the model (default 32)")
	flags.IntVar(&f.maxTokens, "max-tokens-total", 0, "spend at most `N` tokens, input and output (default: no limit)")
	flags.StringVar(&f.maxCost, "max-cost", "", "spend at most this `AMOUNT`, such as 0.25; needs the model's price (default: no limit)")
	flags.IntVar(&f.maxModelCalls, "max-model-calls", 0, "ask models at most `N` times, for servers that sample too (default: no limit)")
	flags.IntVar(&f.maxCalls, "max-tool-calls", 0, "make at most `N` tool calls (default 256)")
	flags.StringVar(&f.onLimit, "on-limit", "", "`WHAT` to do at a limit: stop, ask for more, or wrap-up: answer once more without calling tools (default stop)")
	flags.StringArrayVar(&f.prices, "price", nil, "`MODEL=IN,OUT`: what a million tokens of input and of output cost; may be repeated")
	flags.DurationVar(&f.timeout, "timeout", 0, "end the run after this `TIME`, such as 90s (default 1h)")
}

// check refuses what is wrong before anything is started.
func (f *limitFlags) check() error {
	if f.maxSteps < 0 || f.maxTokens < 0 || f.maxCalls < 0 || f.maxModelCalls < 0 || f.timeout < 0 {
		return env.Usagef("a limit is negative; leave the flag out for its default")
	}
	if _, err := f.cost(); err != nil {
		return err
	}
	switch agent.OnLimit(f.onLimit) {
	case "", agent.LimitStop, agent.LimitAsk, agent.LimitWrapUp:
	default:
		return env.Usagef("--on-limit %q: want stop, ask or wrap-up", f.onLimit)
	}
	_, err := f.stated()
	return err
}

// cost is the limit of money, zero for none.
func (f *limitFlags) cost() (llm.Money, error) {
	if f.maxCost == "" {
		return 0, nil
	}
	m, err := llm.ParseMoney(f.maxCost)
	if err != nil {
		return 0, env.Usagef("--max-cost: %w", err)
	}
	if m == 0 {
		return 0, env.Usagef("--max-cost %s allows nothing", f.maxCost)
	}
	return m, nil
}

// stated are the prices of the command line.
func (f *limitFlags) stated() (map[string]llm.Price, error) {
	all := make(map[string]llm.Price, len(f.prices))
	for _, flag := range f.prices {
		name, amounts, ok := strings.Cut(flag, "=")
		in, out, two := strings.Cut(amounts, ",")
		if !ok || !two || name == "" {
			return nil, env.Usagef("--price %q: want MODEL=IN,OUT, such as openai/gpt-5-mini=0.25,2", flag)
		}
		var p llm.Price
		for _, part := range []struct {
			to   *llm.Money
			text string
		}{{&p.Input, in}, {&p.Output, out}} {
			m, err := llm.ParseMoney(part.text)
			if err != nil {
				return nil, env.Usagef("--price %s: %w", flag, err)
			}
			*part.to = m
		}
		all[name] = p
	}
	return all, nil
}

// limits are those of the flags, and own ones, of the configuration, where there is no
// flag.
func (f *limitFlags) limits(own config.Limits) (agent.Limits, error) {
	cost, err := f.cost()
	if err != nil {
		return agent.Limits{}, err
	}
	wall := 24 * time.Hour // --timeout ends it before
	if !f.HeldOutside {
		wall = f.Wall(own)
	}
	return agent.Limits{
		Steps: cmp.Or(f.maxSteps, own.Steps), Tokens: cmp.Or(f.maxTokens, own.Tokens), Cost: cmp.Or(cost, own.Cost),
		ModelCalls: cmp.Or(f.maxModelCalls, own.ModelCalls), ToolCalls: cmp.Or(f.maxCalls, own.ToolCalls), Depth: own.Depth,
		OnLimit: agent.OnLimit(cmp.Or(f.onLimit, own.OnLimit)),
		Wall:    wall,
	}, nil
}

// Stated returns the limits that the flags state; the others are zero.
func (f *limitFlags) Stated() (agent.Limits, error) {
	held := *f
	held.HeldOutside = false
	l, err := held.limits(config.Limits{})
	l.Wall = f.timeout
	return l, err
}

// Wall is how long all of it may take.
func (f *limitFlags) Wall(own config.Limits) time.Duration {
	return cmp.Or(f.timeout, own.Wall, time.Hour)
}

// allPrices are the prices of the flags over those of the configuration.
func (f *limitFlags) allPrices(s *env.Settings) (map[string]llm.Price, error) {
	all := s.Backends.Prices()
	stated, err := f.stated()
	maps.Copy(all, stated)
	return all, err
}

// priceError says how to state a price that is missing.
func priceError(err error) error {
	if e, ok := errors.AsType[*agent.NoPriceError](err); ok {
		return env.Usagef("%w: state what a million tokens of it cost, with --price %s=IN,OUT or under models.prices in troupe.yaml; 0,0 if it costs nothing", e, e.Model)
	}
	return err
}
