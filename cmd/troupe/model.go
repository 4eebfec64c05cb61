package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

// defaultOpenAI is asked of OpenAI itself where nothing names a model.
const defaultOpenAI = "gpt-5-mini"

// chooseModel returns the model that name stands for: "provider/model", or a
// bare name that Ollama has. Without a name it is whatever is there: Ollama
// first, then what the OPENAI_ variables lead to.
func (p *program) chooseModel(ctx context.Context, name string) (llm.Model, error) {
	name = cmp.Or(name, os.Getenv("TROUPE_MODEL"))
	provider, model, qualified := strings.Cut(name, "/")
	switch {
	case name == "":
		return p.findModel(ctx)
	case qualified && provider == "ollama" && model != "":
		return ollama.New(model, nil), nil
	case qualified && provider == "openai" && model != "":
		client, err := openai.FromEnv(model)
		if err != nil {
			return nil, usagef("the model %s: %w", name, err)
		}
		return client, nil
	}
	server := ollama.NewServer(nil)
	models, err := server.Models(ctx)
	if err != nil {
		return nil, exitWith(exitUnreachable, fmt.Errorf("looking for the model %q at %s: %w; "+
			"name its provider too: ollama/%[1]s or openai/%[1]s", name, server, err))
	}
	for _, m := range models {
		if m.Name == name || m.Name == name+":latest" {
			return server.Model(m.Name), nil
		}
	}
	return nil, usagef("%s has no model %q; get it with \"ollama pull %[2]s\", or name another provider: openai/%[2]s", server, name)
}

// probeTime bounds the look for an Ollama that nobody has mentioned.
const probeTime = 2 * time.Second

// errNoModel says how to get a model.
var errNoModel = errors.New(`no model was found. Either
  - start Ollama (https://ollama.com) and get a model that can use tools: ollama pull qwen3:8b
  - or set OPENAI_API_KEY
  - or set OPENAI_BASE_URL to any OpenAI-compatible server
and name another than the default with -m provider/model`)

func (p *program) findModel(ctx context.Context) (llm.Model, error) {
	server := ollama.NewServer(nil)
	probe, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if _, err := server.Ping(probe); err == nil {
		model, err := server.DefaultModel(probe)
		if err == nil {
			p.note("no model set: found Ollama at %s, using %s", server, model)
			return server.Model(model), nil
		}
		p.note("found Ollama at %s, but no model to use: %v", server, err)
	}
	if os.Getenv("OPENAI_API_KEY") == "" && os.Getenv("OPENAI_BASE_URL") == "" {
		return nil, exitWith(exitUnreachable, errNoModel)
	}
	model := os.Getenv("OPENAI_MODEL")
	switch {
	case model != "":
	case os.Getenv("OPENAI_BASE_URL") == "":
		model = defaultOpenAI
	default:
		client, err := openai.FromEnv("any")
		if err != nil {
			return nil, usagef("%w", err)
		}
		listing, cancel := context.WithTimeout(ctx, 5*probeTime)
		defer cancel()
		models, err := client.Models(listing)
		if err != nil {
			return nil, exitWith(exitUnreachable, fmt.Errorf("asking the server of OPENAI_BASE_URL for its models: %w", err))
		}
		if len(models) == 0 {
			return nil, exitWith(exitUnreachable, errors.New("the server of OPENAI_BASE_URL lists no models: name one with -m openai/NAME"))
		}
		model = models[0]
	}
	client, err := openai.FromEnv(model)
	if err != nil {
		return nil, usagef("%w", err)
	}
	p.note("no model set: using %s", client)
	return client, nil
}
