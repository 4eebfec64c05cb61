package main

import (
	"cmp"
	"os"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
)

// settings are the configuration and what follows from it.
type settings struct {
	*config.Config
	backends *modelconfig.Set
}

// config reads the configuration, once.
func (p *program) config() (*settings, error) {
	if p.settings != nil {
		return p.settings, nil
	}
	cfg, err := config.Here().Load(cmp.Or(p.configPath, os.Getenv("TROUPE_CONFIG")))
	if err != nil {
		return nil, usagef("%w", err)
	}
	p.settings = &settings{Config: cfg, backends: modelconfig.New(cfg, os.Getenv)}
	return p.settings, nil
}

// foundConfig reports whether a file is the project's, which nobody has named.
func (p *program) foundConfig(file string) bool {
	return cmp.Or(p.configPath, os.Getenv("TROUPE_CONFIG")) == "" && file == config.Here().ProjectFile()
}

// agent is the definition of an agent; the one of the flags alone has an empty name.
func (s *settings) agent(name string) (config.Agent, error) {
	if name == "" || name == config.MainAgent {
		return config.Agent{}, nil
	}
	a, err := s.Agent(name)
	if err != nil {
		return a, usagef("--agent: %w", err)
	}
	return a, nil
}

// providers are the limits of requests that the configuration sets.
func (s *settings) providers() map[string]agent.ProviderOptions {
	all := make(map[string]agent.ProviderOptions, len(s.Models.Providers))
	for name, p := range s.Models.Providers {
		all[name] = agent.ProviderOptions{Concurrency: p.Concurrency, PerMinute: p.PerMinute}
	}
	return all
}
