package setup

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcpclient"
)

// samplingFlags say which servers may ask the model.
type samplingFlags struct{ modes []string }

func (f *samplingFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.modes, "sampling", nil, "may the server ask the model, at your cost: `SERVER=MODE`, where MODE is ask (on the terminal, "+
		"before and after), allow or deny, and SERVER may be * (repeat for more; default: ask, or deny without a terminal)")
}

// samplingOf joins the flags with the configuration: a flag that names the server comes
// first, then one for all, the file's policy, and the file's default. Interactive says that
// there is a terminal to ask on: without one, ask is deny, since a server should know
// that it will get no answer.
func (f *samplingFlags) samplingOf(c *config.Sampling, servers []mcpclient.Server, interactive bool) (*agent.Sampling, error) {
	modes := make(map[string]mcpclient.SamplingMode)
	for _, flag := range f.modes {
		name, mode, found := strings.Cut(flag, "=")
		switch m := mcpclient.SamplingMode(mode); {
		case !found || m != mcpclient.SamplingAsk && m != mcpclient.SamplingAllow && m != mcpclient.SamplingDeny:
			return nil, env.Usagef("--sampling %q: want SERVER=ask, SERVER=allow or SERVER=deny", flag)
		case name != "*" && !slices.ContainsFunc(servers, func(s mcpclient.Server) bool { return s.Name == name }):
			return nil, NoServer(name, servers)
		default:
			modes[name] = m
		}
	}
	s := &agent.Sampling{Servers: make(map[string]agent.SamplingPolicy)}
	for _, server := range servers {
		policy, named := c.Servers[server.Name]
		if !named {
			policy = c.Default
		}
		p := policyOf(&policy)
		p.Mode = cmp.Or(modes[server.Name], modes["*"], p.Mode, mcpclient.SamplingMode(c.Default.Mode), mcpclient.SamplingAsk)
		if p.Mode == mcpclient.SamplingAsk && !interactive {
			p.Mode = mcpclient.SamplingDeny
		}
		s.Servers[server.Name] = p
	}
	return s, nil
}

func policyOf(p *config.SamplingPolicy) agent.SamplingPolicy {
	return agent.SamplingPolicy{
		Mode: mcpclient.SamplingMode(p.Mode), Tokens: p.MaxTokensTotal, Cost: p.MaxCost, Requests: p.MaxRequests,
		PerMinute: p.PerMinute, MaxTokens: p.MaxTokens, Models: p.Models, Context: p.Context,
	}
}

// samplingFor makes what answers servers that ask the model.
func samplingFor(ctx context.Context, e *env.Env, f *samplingFlags, servers []mcpclient.Server) (*agent.Sampling, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	interactive := e.NewPrompter(nil) != nil
	sampling, err := f.samplingOf(&s.Sampling, servers, interactive)
	if err == nil && !interactive && slices.ContainsFunc(f.modes, func(flag string) bool { return strings.HasSuffix(flag, "=ask") }) {
		e.Note("there is no terminal to ask on: --sampling with ask is deny")
	}
	if err != nil || s.Sampling.Model == "" {
		return sampling, err
	}
	sampling.Model, err = samplingModel(ctx, e, s)
	return sampling, err
}
