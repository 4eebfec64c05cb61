package models

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/llm"
)

func testCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "test [MODEL]",
		Short: "Ask a model for a text, a tool call and JSON",
		Long: `Ask a model, or the default, three things, and say which of them work and how long each took: a text,
a call of a tool, and JSON of a schema. Tokens are spent as by any other run.

The exit code is 0 if the model answers, even if it cannot do everything; 6 if it cannot be
reached or does not exist; 1 if its answer to the first question is no text.`,
		Example: "  troupe models test ollama/qwen3:8b\n  troupe models test openai/gpt-5-mini --json",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return env.Usagef("%s takes one model, got %q\nSee %[1]s --help", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return env.Usagef("--timeout %v: want a time above zero", timeout)
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, env.ErrTimeout)
			defer cancel()
			return testModel(ctx, e, strings.Join(args, ""), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "end all of it after this `TIME`")
	return cmd
}

// trial is one question to a model.
type trial struct {
	name    string
	request llm.Request
	// judge says what the answer shows; an error says what is wrong with it.
	judge func(*llm.Response) (string, error)
}

// trialResult is what came of it.
type trialResult struct {
	Name   string `json:"name"`
	Works  bool   `json:"works"`
	Ms     int64  `json:"ms"`
	Detail string `json:"detail"`
	Tokens [2]int `json:"tokens"` // input and output
	err    error  // why there was no answer; nil if there was one
}

type modelTest struct {
	Model  string        `json:"model"`
	Server string        `json:"server"`
	Says   string        `json:"says,omitempty"` // the name the server gives
	Trials []trialResult `json:"trials"`
}

// maxTrial bounds the output of one answer, thinking included.
const maxTrial = 2048

// trials are the questions.
func trials() []trial {
	return []trial{
		{"text", llm.Request{Messages: []llm.Message{llm.User("Reply with the word ready.")}}, judgeText},
		{"tools", llm.Request{
			Messages: []llm.Message{llm.User("What is the weather in Oslo? Use the tool.")},
			Tools: []llm.Tool{{
				Name: "get_weather", Description: "Tells the weather of a city.",
				InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
			}},
			ToolChoice: llm.ToolChoiceRequired,
		}, judgeCall},
		{"json", llm.Request{
			Messages: []llm.Message{llm.User(`Is water wet? Answer with a JSON object like {"wet": true}.`)},
			Schema:   json.RawMessage(`{"type":"object","properties":{"wet":{"type":"boolean"}},"required":["wet"],"additionalProperties":false}`),
		}, judgeJSON},
	}
}

func judgeText(r *llm.Response) (string, error) {
	if strings.TrimSpace(r.Text()) == "" {
		return "", fmt.Errorf("no text came (it ended with %q after %d tokens)", r.Finish, r.Usage.Output)
	}
	return fmt.Sprintf("%q", env.Shorten(env.Plain(r.Text()), 60)), nil
}

func judgeCall(r *llm.Response) (string, error) {
	calls := r.Calls()
	if len(calls) == 0 {
		return "", errors.New("it made no call")
	}
	if calls[0].Name != "get_weather" {
		return "", fmt.Errorf("it called %q, which there is not", env.Shorten(env.Plain(calls[0].Name), 40))
	}
	return env.Shorten(env.Plain(fmt.Sprintf("%s(%s)", calls[0].Name, calls[0].Input)), 60), nil
}

func judgeJSON(r *llm.Response) (string, error) {
	var answer struct {
		Wet *bool `json:"wet"`
	}
	if err := jsonx.UnmarshalKnown([]byte(r.Text()), &answer); err != nil || answer.Wet == nil {
		return "", fmt.Errorf("%q is not of the schema", env.Shorten(env.Plain(r.Text()), 60))
	}
	return env.Shorten(env.Plain(r.Text()), 60), nil
}

func testModel(ctx context.Context, e *env.Env, name string, asJSON bool) error {
	s, err := e.Config()
	if err != nil {
		return err
	}
	full, err := setup.ModelName(ctx, e, s, cmp.Or(name, os.Getenv("TROUPE_MODEL"), s.Models.Default))
	if err != nil {
		return err
	}
	card, err := s.Backends.Card(ctx, full)
	if err != nil {
		return env.Usagef("%w", err)
	}
	test := modelTest{Model: full}
	if provider, _, ok := s.Backends.Qualified(full); ok {
		if at, err := s.Backends.Provider(provider); err == nil {
			test.Server = at.Models.String()
		}
	}
	if !asJSON {
		e.Note("asking %s at %s", full, test.Server)
	}
	for _, t := range trials() {
		result := t.run(ctx, card.Model, &test)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		test.Trials = append(test.Trials, result)
		if result.err != nil && env.Unreachable(result.err) {
			break // the others would wait for the same
		}
	}
	if asJSON {
		err = e.PrintJSON(test)
	} else {
		err = showTest(e, &test)
	}
	if err != nil {
		return err
	}
	return test.exit()
}

// run asks one question.
func (t *trial) run(ctx context.Context, model llm.Model, test *modelTest) trialResult {
	t.request.MaxTokens = maxTrial
	result := trialResult{Name: t.name}
	began := time.Now()
	resp, err := llm.Generate(ctx, model, &t.request)
	result.Ms = time.Since(began).Milliseconds()
	if err != nil {
		result.err, result.Detail = err, env.Plain(err.Error())
		return result
	}
	test.Says = cmp.Or(test.Says, resp.Model)
	result.Tokens = [2]int{resp.Usage.Input, resp.Usage.Output}
	result.Detail, err = t.judge(resp)
	if err != nil {
		result.Detail = err.Error()
	}
	result.Works = err == nil
	return result
}

func showTest(e *env.Env, test *modelTest) error {
	rows := [][]string{{"WHAT", "WORKS", "TIME", "TOKENS", "ANSWER"}}
	for _, r := range test.Trials {
		works, tokens := "no", ""
		if r.Works {
			works = "yes"
		}
		if r.err == nil {
			tokens = fmt.Sprintf("%d+%d", r.Tokens[0], r.Tokens[1])
		}
		took := (time.Duration(r.Ms) * time.Millisecond).String()
		rows = append(rows, []string{r.Name, works, took, tokens, r.Detail})
	}
	return e.Table(rows)
}

// exit is the error of the command: what came of the first question counts.
func (t *modelTest) exit() error {
	first := t.Trials[0]
	switch {
	case first.Works:
		return nil
	case first.err != nil && env.Unreachable(first.err):
		return env.ExitWith(env.ExitUnreachable, fmt.Errorf("the model %s cannot be used: %w", t.Model, first.err))
	case first.err != nil:
		return fmt.Errorf("the model %s did not answer: %w", t.Model, first.err)
	}
	return fmt.Errorf("the model %s: %s", t.Model, first.Detail)
}
