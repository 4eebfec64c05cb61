package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/llm"
)

// ChooseModel returns the model of a run: the one that the command line names, or else
// $TROUPE_MODEL, or else the default of the configuration, or else what is found. It is a
// router: the fallbacks of the configuration follow when the model fails.
func ChooseModel(ctx context.Context, e *env.Env, name string) (llm.Model, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	return routed(ctx, e, s, cmp.Or(name, os.Getenv("TROUPE_MODEL"), s.Models.Default), false)
}

// samplingModel returns the model of the configuration that answers servers, with all others
// that the configuration speaks of, since servers may prefer one.
func samplingModel(ctx context.Context, e *env.Env, s *env.Settings) (llm.Model, error) {
	return routed(ctx, e, s, s.Sampling.Model, true)
}

// routed returns the router whose default is the named model.
func routed(ctx context.Context, e *env.Env, s *env.Settings, name string, all bool) (llm.Model, error) {
	full, err := name, error(nil)
	if e.DryRun {
		if full = s.Backends.Unasked(name); full == "" {
			return unknownModel{}, nil
		}
		unasked, cancel := context.WithCancel(ctx)
		cancel() // what servers do not answer is left out of what is known of models
		ctx = unasked
	} else if full, err = ModelName(ctx, e, s, name); err != nil {
		return nil, err
	}
	model, left, err := s.Backends.Router(ctx, full, all)
	if err != nil {
		return nil, env.Usagef("the model %s: %w", full, err)
	}
	for _, err := range left {
		e.Note("without the fallback %v", err)
	}
	return model, nil
}

// unknownModel stands in a dry run for a model of which only servers know what it is.
type unknownModel struct{}

// Name implements [llm.Model].
func (unknownModel) Name() string { return "unknown/unknown" }

// Stream implements [llm.Model].
func (unknownModel) Stream(context.Context, *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) { yield(nil, llm.ErrUnreachable) }
}

// ModelName returns the full name of the model that name stands for.
func ModelName(ctx context.Context, e *env.Env, s *env.Settings, name string) (string, error) {
	if name == "" {
		return findModel(ctx, e, s)
	}
	full, err := s.Backends.Resolve(ctx, name)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, llm.ErrUnreachable):
		return "", env.ExitWith(env.ExitUnreachable, fmt.Errorf("%w; name its provider too: ollama/%[2]s or openai/%[2]s", err, name))
	case errors.Is(err, llm.ErrNotFound):
		return "", env.Usagef("%w; get it with \"troupe models pull %[2]s\", or name its provider: openai/%[2]s", err, name)
	case err != nil:
		return "", env.Usagef("%w", err)
	}
	return full, nil
}

// NoModel says how to get a model.
const NoModel = `Either
  - start Ollama (https://ollama.com) and get a model that can use tools: troupe models pull qwen3:8b
  - or set OPENAI_API_KEY
  - or set OPENAI_BASE_URL to any OpenAI-compatible server
and name another than the default with -m provider/model`

// findModel picks a model where none is named.
func findModel(ctx context.Context, e *env.Env, s *env.Settings) (string, error) {
	full, err := s.Backends.Find(ctx)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, modelconfig.ErrNone):
		return "", env.ExitWith(env.ExitUnreachable, fmt.Errorf("%w\n%s", err, NoModel))
	case err != nil:
		return "", err
	}
	name, model, _ := s.Backends.Qualified(full)
	provider, err := s.Backends.Provider(name)
	switch {
	case err != nil:
		return "", env.Usagef("%w", err)
	case name == config.TypeOllama:
		e.Note("no model set: found Ollama at %s, using %s", provider.Models, model)
	default:
		e.Note("no model set: using %s at %s", full, provider.Models)
	}
	return full, nil
}
