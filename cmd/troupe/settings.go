package main

import (
	"cmp"
	"os"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/backend"
	"github.com/troupe-dev/troupe/internal/config"
)

// settings are the configuration and what follows from it.
type settings struct {
	*config.Config
	backends *backend.Set
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
	p.settings = &settings{Config: cfg, backends: backend.New(cfg, os.Getenv)}
	return p.settings, nil
}

// providers are the limits of requests that the configuration sets.
func (s *settings) providers() map[string]agent.ProviderOptions {
	all := make(map[string]agent.ProviderOptions, len(s.Models.Providers))
	for name, p := range s.Models.Providers {
		all[name] = agent.ProviderOptions{Concurrency: p.Concurrency, PerMinute: p.PerMinute}
	}
	return all
}
