package main

import (
	"slices"
	"testing"
)

// TestRealModelIsAskedFor: the demo uses a real model only if it is told to, whatever there is here, and does not allow
// the calls of one beforehand.
func TestRealModelIsAskedFor(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "a-key-that-is-not-used")
	env, flags, err := choose("")
	if err != nil || !slices.Contains(flags, "openai/scripted") || !slices.Contains(env, "OPENAI_API_KEY=") {
		t.Errorf("without a model: got %q, %q, %v", env, flags, err)
	}
	env, flags, err = choose("openai/gpt-x")
	if err != nil || len(env) != 0 || slices.Contains(flags, "--yes") || !slices.Contains(flags, "openai/gpt-x") {
		t.Errorf("with one: got %q, %q, %v", env, flags, err)
	}
}
