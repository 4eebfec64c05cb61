package env

import (
	"cmp"
	"os"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
)

// Config reads the configuration, once.
func (e *Env) Config() (*Settings, error) {
	if e.settings != nil {
		return e.settings, nil
	}
	cfg, err := config.Here().Load(cmp.Or(e.ConfigPath, os.Getenv("TROUPE_CONFIG")))
	if err != nil {
		return nil, Usagef("%w", err)
	}
	e.settings = &Settings{Config: cfg, Backends: modelconfig.New(cfg, os.Getenv)}
	return e.settings, nil
}

// Reload has the configuration read again, where it is looked for now.
func (e *Env) Reload() { e.settings = nil }

// Section is Config with the variables of one of its sections in place.
func (e *Env) Section(name string) (*Settings, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	s.resolving.Lock()
	defer s.resolving.Unlock()
	if err := s.Resolve(name, os.Getenv); err != nil {
		return nil, Usagef("%w", err)
	}
	return s, nil
}

// FoundConfig reports whether a file is the project's and no flag or variable names it.
func (e *Env) FoundConfig(file string) bool {
	return cmp.Or(e.ConfigPath, os.Getenv("TROUPE_CONFIG")) == "" && file == config.Here().ProjectFile()
}

// AgentNamed is the definition of an agent; the one of the flags alone has an empty name.
func (s *Settings) AgentNamed(name string) (config.Agent, error) {
	if name == "" || name == config.MainAgent {
		return config.Agent{}, nil
	}
	a, err := s.Agent(name)
	if err != nil {
		return a, Usagef("--agent: %w", err)
	}
	return a, nil
}

// Providers are the limits of requests that the configuration sets.
func (s *Settings) Providers() map[string]agent.ProviderOptions {
	all := make(map[string]agent.ProviderOptions, len(s.Models.Providers))
	for name, p := range s.Models.Providers {
		all[name] = agent.ProviderOptions{Concurrency: p.Concurrency, PerMinute: p.PerMinute}
	}
	return all
}
