package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/modelconfig"
	"github.com/troupe-dev/troupe/llm"
)

// chooseModel returns the model of a run: the one that the command line names, or else
// $TROUPE_MODEL, or else the default of the configuration, or else what is found. It is a
// router: the fallbacks of the configuration follow when the model fails.
func (p *program) chooseModel(ctx context.Context, name string) (llm.Model, error) {
	s, err := p.config()
	if err != nil {
		return nil, err
	}
	return p.routed(ctx, s, cmp.Or(name, os.Getenv("TROUPE_MODEL"), s.Models.Default), false)
}

// samplingModel returns the model of the configuration that answers servers, with all others
// that the configuration speaks of, since servers may prefer one.
func (p *program) samplingModel(ctx context.Context, s *settings) (llm.Model, error) {
	return p.routed(ctx, s, s.Sampling.Model, true)
}

// routed returns the router whose default is the named model.
func (p *program) routed(ctx context.Context, s *settings, name string, all bool) (llm.Model, error) {
	full, err := p.modelName(ctx, s, name)
	if err != nil {
		return nil, err
	}
	model, left, err := s.backends.Router(ctx, full, all)
	if err != nil {
		return nil, usagef("the model %s: %w", full, err)
	}
	for _, err := range left {
		p.note("without the fallback %v", err)
	}
	return model, nil
}

// modelName returns the full name of the model that name stands for.
func (p *program) modelName(ctx context.Context, s *settings, name string) (string, error) {
	if name == "" {
		return p.findModel(ctx, s)
	}
	full, err := s.backends.Resolve(ctx, name)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, llm.ErrUnreachable):
		return "", exitWith(exitUnreachable, fmt.Errorf("%w; name its provider too: ollama/%[2]s or openai/%[2]s", err, name))
	case errors.Is(err, llm.ErrNotFound):
		return "", usagef("%w; get it with \"troupe models pull %[2]s\", or name its provider: openai/%[2]s", err, name)
	case err != nil:
		return "", usagef("%w", err)
	}
	return full, nil
}

// noModel says how to get a model.
const noModel = `Either
  - start Ollama (https://ollama.com) and get a model that can use tools: troupe models pull qwen3:8b
  - or set OPENAI_API_KEY
  - or set OPENAI_BASE_URL to any OpenAI-compatible server
and name another than the default with -m provider/model`

// findModel picks a model where none is named.
func (p *program) findModel(ctx context.Context, s *settings) (string, error) {
	full, err := s.backends.Find(ctx)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, modelconfig.ErrNone):
		return "", exitWith(exitUnreachable, fmt.Errorf("%w\n%s", err, noModel))
	case err != nil:
		return "", err
	}
	name, model, _ := s.backends.Qualified(full)
	provider, err := s.backends.Provider(name)
	switch {
	case err != nil:
		return "", usagef("%w", err)
	case name == config.TypeOllama:
		p.note("no model set: found Ollama at %s, using %s", provider.Models, model)
	default:
		p.note("no model set: using %s at %s", full, provider.Models)
	}
	return full, nil
}
