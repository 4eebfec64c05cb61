package agent

import (
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
)

// ProviderOptions says what one provider of models is asked for at once and in a minute,
// and when it is left alone; see [Options].Providers.
type ProviderOptions = provider.Options

// openProviders starts what is between the runtime and its models.
func (rt *Runtime) openProviders() (err error) {
	all := map[string]ProviderOptions{"": {}}
	for name, o := range rt.opts.Providers {
		all[name] = o
	}
	for name, o := range all {
		if o.Retry == nil {
			o.Retry = &rt.opts.Retry
			all[name] = o
		}
	}
	rt.llm, err = provider.Open(rt.sys, &provider.GroupOptions{Providers: all})
	return err
}

// model returns a model behind its provider, and a router with each of its models behind
// theirs: every model that the runtime asks has gone through here, once or more often.
func (rt *Runtime) model(m llm.Model) llm.Model {
	switch m := m.(type) {
	case nil:
		return nil
	case *router.Router:
		return m.Wrap(rt.llm.Model)
	}
	return rt.llm.Model(m)
}

// Providers returns what the providers of the runtime's models do at the moment, by name.
func (rt *Runtime) Providers() map[string]provider.State { return rt.llm.States() }
