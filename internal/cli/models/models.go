// Package models has the commands "troupe models", which list, test and pull models.
package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "models",
		Short: "Models: which there are, whether they work, and getting them",
		Long: `Models are named PROVIDER/MODEL. Providers are ollama, openai, anthropic, gemini, and those
of troupe.yaml. Which one a run uses is said by --model, or else $TROUPE_MODEL, or else
models.default in troupe.yaml, or else by what is found.`,
	}, listCommand(e), testCommand(e), pullCommand(e))
}

func listCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the models there are",
		Long: `List the models of every provider that is configured, and of Ollama: what each can do, its
context in tokens, and what a million tokens cost where troupe.yaml says it. The default has a star.
A provider that does not answer is shown with the reason; if none answers the exit code is 6.`,
		Example: "  troupe models ls\n  troupe models ls --json | jq -r '.models[].name'",
		Args:    env.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listModels(cmd.Context(), e, asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// ModelList is what "models ls" writes.
type ModelList struct {
	Models []ModelRow `json:"models"`
	// Unreachable are the providers that gave no models.
	Unreachable []absentProvider `json:"unreachable"`
}

type ModelRow struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Server   string `json:"server"`
	Default  bool   `json:"default,omitempty"`
	// Listed is false for a model that only the configuration speaks of.
	Listed       bool      `json:"listed"`
	Capabilities []string  `json:"capabilities"`
	Context      int       `json:"context,omitempty"`
	Parameters   float64   `json:"parametersBillions,omitempty"`
	Aliases      []string  `json:"aliases,omitempty"`
	Price        *priceRow `json:"price,omitempty"`
}

type priceRow struct {
	In     string `json:"in"` // for a million tokens
	Out    string `json:"out"`
	Source string `json:"source"` // file and line
}

type absentProvider struct {
	Provider string `json:"provider"`
	Server   string `json:"server,omitempty"`
	Reason   string `json:"reason"`
	Fix      string `json:"fix"`

	Kind errorKind `json:"-"`
}

func listModels(ctx context.Context, e *env.Env, asJSON bool) error {
	s, err := e.Config()
	if err != nil {
		return err
	}
	list := AllModels(ctx, s)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if asJSON {
		err = e.PrintJSON(list)
	} else {
		err = showModels(e, &list)
	}
	if err == nil && len(list.Models) == 0 {
		err = env.ExitWith(env.ExitUnreachable, fmt.Errorf("%w\n%s", modelconfig.ErrNone, setup.NoModel))
	}
	return err
}

// AllModels collects the models of all providers.
func AllModels(ctx context.Context, s *env.Settings) ModelList {
	list := ModelList{Models: []ModelRow{}, Unreachable: []absentProvider{}}
	for _, provider := range s.Backends.Providers() {
		if provider.Err != nil && provider.Listed() {
			list.Unreachable = append(list.Unreachable, absentProvider{
				Provider: provider.Name, Reason: env.Plain(provider.Err.Error()), Fix: fix(&provider, provider.Err),
			})
		}
	}
	for _, found := range s.Backends.Discover(ctx) {
		name := found.Server.Provider()
		for i := range found.Cards {
			list.Models = append(list.Models, modelRowOf(s, &found.Cards[i], found.Server.String(), true))
		}
		if found.Err == nil {
			continue
		}
		absent := absentProvider{Provider: name, Server: found.Server.String(), Reason: env.Plain(found.Err.Error()), Kind: kindOf(found.Err)}
		if provider, err := s.Backends.Provider(name); err == nil {
			absent.Fix = fix(provider, found.Err)
		}
		list.Unreachable = append(list.Unreachable, absent)
	}
	for _, name := range modelsNamed(s) {
		provider, _, _ := s.Backends.Qualified(name)
		if slices.ContainsFunc(list.Models, func(r ModelRow) bool { return r.Name == name || r.Name == name+":latest" }) ||
			slices.ContainsFunc(list.Unreachable, func(a absentProvider) bool { return a.Provider == provider }) {
			continue
		}
		at, err := s.Backends.Provider(provider)
		if err != nil {
			continue // a built-in one without a key
		}
		if card, err := s.Backends.Card(ctx, name); err == nil {
			list.Models = append(list.Models, modelRowOf(s, &card, at.Models.String(), false))
		}
	}
	return list
}

// modelsNamed are the models that the configuration speaks of, by full names, sorted.
func modelsNamed(s *env.Settings) []string {
	var names []string
	add := func(name string) {
		if _, _, ok := s.Backends.Qualified(name); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	add(s.Models.Default)
	for _, name := range s.Models.Fallback {
		add(name)
	}
	for name := range s.Models.Cards {
		add(name)
	}
	for name := range s.Models.Prices {
		add(name)
	}
	slices.Sort(names)
	return names
}

// modelRowOf is what is shown of a model.
func modelRowOf(s *env.Settings, c *router.Card, server string, listed bool) ModelRow {
	provider, bare, _ := strings.Cut(c.Name(), "/")
	r := ModelRow{
		Name: c.Name(), Provider: provider, Server: server, Listed: listed,
		Capabilities: []string{}, Context: c.Context, Parameters: c.Parameters, Aliases: c.Aliases,
	}
	name := cmp.Or(os.Getenv("TROUPE_MODEL"), s.Models.Default)
	r.Default = name != "" && (name == r.Name || name+":latest" == r.Name || name == bare || name+":latest" == bare || slices.Contains(c.Aliases, name))
	for _, can := range []struct {
		does bool
		what string
	}{{c.Tools, "tools"}, {c.Vision, "vision"}, {c.Audio, "audio"}, {c.Thinking, "thinking"}, {c.JSON, "json"}} {
		if can.does {
			r.Capabilities = append(r.Capabilities, can.what)
		}
	}
	if price, ok := s.Models.Prices[c.Name()]; ok {
		r.Price = &priceRow{In: price.Input.String(), Out: price.Output.String(), Source: price.Source}
	}
	return r
}

func showModels(e *env.Env, list *ModelList) error {
	if len(list.Models) > 0 {
		rows := [][]string{{"MODEL", "CAN", "CONTEXT", "PRICE IN/OUT", "SERVER"}}
		for _, m := range list.Models {
			name, context, price := m.Name, "", ""
			if m.Default {
				name += " *"
			}
			if m.Context > 0 {
				context = strconv.Itoa(m.Context)
			}
			if m.Price != nil {
				price = fmt.Sprintf("%s/%s (%s)", m.Price.In, m.Price.Out, m.Price.Source)
			}
			server := m.Server
			if !m.Listed {
				server += " (configured)"
			}
			rows = append(rows, []string{name, strings.Join(m.Capabilities, ","), context, price, server})
		}
		if err := e.Table(rows); err != nil {
			return err
		}
	}
	for _, u := range list.Unreachable {
		at := ""
		if u.Server != "" {
			at = " at " + env.Plain(u.Server)
		}
		e.Note("no models of %s%s: %s", env.Plain(u.Provider), at, u.Reason)
		if u.Fix != "" {
			e.Note("  %s", u.Fix)
		}
	}
	return nil
}

// fix says what to do about a provider that gave no models.
func fix(provider *modelconfig.Provider, err error) string {
	switch kind := kindOf(err); {
	case provider.Err != nil:
		return "give it what is missing, or change models.providers." + provider.Name + " in troupe.yaml"
	case kind == authError:
		return "look at its key: " + keyOf(provider)
	case kind == Missing:
		return "it has no list of models; name one: -m " + provider.Name + "/MODEL"
	case provider.Name == "ollama":
		return "start it with \"ollama serve\", or say where it is: OLLAMA_HOST"
	}
	return "is it running, and is its base_url right?"
}

// keyOf says where the key of a provider comes from.
func keyOf(provider *modelconfig.Provider) string {
	switch provider.Name {
	case "openai", "anthropic", "gemini":
		return "see " + strings.ToUpper(provider.Name) + "_API_KEY, or models.providers." + provider.Name + " in troupe.yaml"
	case "ollama":
		return "see OLLAMA_API_KEY"
	}
	return "see models.providers." + provider.Name + " in troupe.yaml"
}

// errorKind is what an error of a server is about.
type errorKind int

const (
	otherError errorKind = iota
	authError
	Missing
)

func kindOf(err error) errorKind {
	switch {
	case errors.Is(err, llm.ErrAuth), errors.Is(err, llm.ErrQuota):
		return authError
	case errors.Is(err, llm.ErrNotFound), errors.Is(err, llm.ErrUnsupported):
		return Missing
	}
	return otherError
}
