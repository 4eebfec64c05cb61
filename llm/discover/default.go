package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
)

// defaultOpenAI is asked at OpenAI itself where no model is named.
const defaultOpenAI = "gpt-5-mini"

// Default returns a model for a program that names none, as troupe run finds one. The first
// that is there counts:
//
//   - $TROUPE_MODEL, such as ollama/qwen3:8b or openai/gpt-5-mini,
//   - the newest model of Ollama that takes tools (at $OLLAMA_HOST, or on this machine),
//   - what OPENAI_API_KEY or OPENAI_BASE_URL lead to, OPENAI_MODEL if that is set.
//
// Servers are only asked where no model is named. The error says what to do; it wraps
// [llm.ErrNotFound] if there is no model, or none of that name.
func Default(ctx context.Context) (llm.Model, error) {
	if named := os.Getenv("TROUPE_MODEL"); named != "" {
		return byName(named)
	}
	server := ollama.NewServer(nil)
	name, atOllama := server.DefaultModel(ctx)
	if atOllama == nil {
		return server.Model(name), nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	model, atOpenAI := fromEnv(ctx)
	if atOpenAI == nil {
		return model, nil
	}
	return nil, fmt.Errorf("%w: no model is named, and none was found: start Ollama and pull one that takes tools, "+
		"or set OPENAI_API_KEY, or set TROUPE_MODEL to provider/model: %w", llm.ErrNotFound, errors.Join(atOllama, atOpenAI))
}

// byName returns the model of $TROUPE_MODEL.
func byName(named string) (llm.Model, error) {
	provider, model, _ := strings.Cut(named, "/")
	switch {
	case model == "":
	case provider == "ollama":
		return ollama.New(model, nil), nil
	case provider == "openai":
		m, err := openai.FromEnv(model)
		if err != nil { // not m, which is no nil interface
			return nil, fmt.Errorf("TROUPE_MODEL is %q: %w", named, err)
		}
		return m, nil
	}
	return nil, fmt.Errorf("%w: TROUPE_MODEL is %q: want ollama/MODEL or openai/MODEL", llm.ErrNotFound, named)
}

// fromEnv returns a model of what the variables of OpenAI lead to.
func fromEnv(ctx context.Context) (llm.Model, error) {
	model := os.Getenv("OPENAI_MODEL")
	base := os.Getenv("OPENAI_BASE_URL")
	if model == "" && base != "" {
		cards, err := OpenAI(&openai.Options{APIKey: os.Getenv("OPENAI_API_KEY"), BaseURL: base}).List(ctx, 1)
		if err != nil {
			return nil, err
		}
		if len(cards) == 0 {
			return nil, fmt.Errorf("%s has no models", base)
		}
		_, model, _ = strings.Cut(cards[0].Name(), "/")
	}
	return openai.FromEnv(cmp.Or(model, defaultOpenAI))
}
