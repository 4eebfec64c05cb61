package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/terminal"
)

// questions puts the questions of a run on the terminal.
type questions struct {
	env   *env.Env
	ask   *terminal.Prompter   // nil if there is no terminal to ask on
	local localFiles           // what calls may change here
	tools *setup.ToolApprovals // takes what is allowed for good; nil if that cannot be kept
	// allowed are the tools that were allowed for the rest of a run, with whether a question was one that asks in spite of that.
	allowed map[allowedTool]bool
	forRun  bool // the answer to the question is for the whole run
}

// allowedTool is exactly one tool, in one run.
type allowedTool struct{ run, server, tool, definition string }

// allowMore asks whether a run that has reached a limit may have more.
func (t *questions) allowMore(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	l := q.Limit
	text := fmt.Sprintf("\nThe run has reached its limit of %s: %s, and has spent %s. May it have %s more?",
		env.Plain(l.Limit), env.Plain(l.Max), env.Plain(l.Spent), env.Plain(l.More))
	for {
		line, err := t.ask.Ask(ctx, text, "[y]es, another amount, or [n]o: ")
		if err != nil {
			return unanswered(ctx, agent.Decline("the question was not answered"))
		}
		switch line = strings.ToLower(strings.TrimSpace(line)); line {
		case "y", "yes":
			return agent.Accept(), nil
		case "n", "no":
			return agent.Decline(""), nil
		}
		if m, err := llm.ParseMoney(line); err == nil && m > 0 && (l.Limit == "cost" || !strings.Contains(line, ".")) {
			return agent.AcceptMore(line), nil
		}
		text = "Please say y, n or how much more."
	}
}

// question asks on the terminal: whether a call may be made, or what a server wants
// to know.
func (t *questions) question(ctx context.Context, q agent.Ask) error {
	if !q.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Expires, env.ErrExpired)
		defer cancel()
	}
	key := allowedTool{q.RunID, q.Server, q.Tool, q.Definition}
	if again, ok := t.allowed[key]; ok && q.Kind == agent.KindTool && q.Definition != "" && (again || !q.Again) { // it was asked before that
		t.env.Note("%s is called once more: it is allowed for the whole run", env.Plain(q.Tool))
		if err := q.Answer(context.WithoutCancel(ctx), agent.Accept().By("terminal")); !errors.Is(err, agent.ErrSettled) {
			return err
		}
		return nil
	}
	t.forRun = false
	ask := t.approve
	switch {
	case q.Limit != nil:
		ask = t.allowMore
	case q.Kind == agent.KindOutcome:
		ask = t.outcome
	case q.Kind == agent.KindJob:
		ask = t.goOn
	case q.Question != nil:
		ask = t.forward
	}
	answer, err := ask(ctx, q)
	switch {
	case err != nil && ctx.Err() != nil: // it is withdrawn, and its reader was told
		return nil
	case err != nil:
		return err
	}
	// An answer that was given counts, whatever has ended meanwhile.
	if err := q.Answer(context.WithoutCancel(ctx), answer.By("terminal")); err != nil {
		return err
	}
	if t.forRun {
		if t.allowed == nil {
			t.allowed = make(map[allowedTool]bool)
		}
		t.allowed[key] = t.allowed[key] || q.Again
	}
	return nil
}

// unanswered returns what holds of a question at the end of the input. One that was withdrawn is not answered.
func unanswered(ctx context.Context, d agent.Decision) (agent.Decision, error) {
	if ctx.Err() != nil {
		return agent.Decision{}, context.Cause(ctx)
	}
	return d, nil
}

// goOn asks whether a job goes on that gets no further, of a person who has resumed its run.
func (t *questions) goOn(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	text := "\nThe job of this run gets no further."
	if q.Job != nil {
		text = fmt.Sprintf("\nThe job %s gets no further: %s", env.Plain(q.Job.Job), env.Plain(q.Job.Why))
	}
	for {
		line, err := t.ask.Ask(ctx, text, "[g]o on, or [e]nd the run: ")
		if err != nil {
			return agent.Decision{}, err // it stays open: no answer is no end
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "g", "go on", "y", "yes":
			return agent.Accept(), nil
		case "e", "end", "n", "no":
			return agent.Decline(""), nil
		}
		text = "Please say one of the letters in brackets."
	}
}

// outcome asks what came of a call of unknown outcome.
func (t *questions) outcome(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	text := fmt.Sprintf("\nThe call of %s at %s may have had its effect, or not: %s. Look there first.\n%s",
		env.Plain(q.Tool), q.Sent.Local().Format(time.DateTime), env.Plain(q.Why), t.local.callText(q.Server, q.Tool, q.Arguments))
	for {
		line, err := t.ask.Ask(ctx, text, "it [h]appened, make the call [a]gain, [t]ell the model that it is unknown, or [e]nd the run: ")
		if err != nil {
			return unanswered(ctx, agent.TellModel("the question was not answered"))
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "h", "happened":
			came, err := t.ask.Ask(ctx, "What came of it, in words for the model? (It may be empty.)", "> ")
			if err != nil {
				return unanswered(ctx, agent.Happened(""))
			}
			return agent.Happened(strings.TrimSpace(came)), nil
		case "a", "again":
			return agent.CallAgain(), nil
		case "t", "tell":
			return agent.TellModel(""), nil
		case "e", "end":
			return agent.EndRun(), nil
		}
		text = "Please say one of the letters in brackets."
	}
}

// forward asks a server's question.
func (t *questions) forward(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	d, err := t.ask.Decide(ctx, q.Question)
	if ctx.Err() != nil && err != nil {
		return agent.Decision{}, err
	}
	if err != nil {
		d = &mcpclient.Decision{Action: mcp.ActionCancel}
	}
	return agent.DecideAs(d)
}

// approve asks whether a call may be made.
func (t *questions) approve(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	who := "the program"
	if q.Server != "" {
		who = fmt.Sprintf("the server %s (%s, %s)", env.Plain(q.Server), env.Plain(q.Origin), q.Trust)
	}
	text := fmt.Sprintf("\nMay %s call %s of %s?\n%s%s", asker(q), env.Plain(q.Tool), who, t.local.callText(q.Server, q.Tool, q.Arguments), warning(q))
	prompt := "[y]es, yes for the whole [r]un, "
	always := t.tools != nil && q.Definition != "" && !q.Again
	if always {
		prompt += "[a]lways in this folder, "
	}
	prompt += "[w]hole arguments, or [n]o: "
	for {
		line, err := t.ask.Ask(ctx, text, prompt)
		if err != nil {
			return unanswered(ctx, agent.Decline("the question was not answered"))
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "y" || word == "yes":
			return agent.Accept(), nil
		case word == "r" || word == "run":
			t.forRun = true
			return agent.AcceptForRun(), nil
		case always && (word == "a" || word == "always"):
			if err := t.tools.Allow(ctx, q.Server, q.Tool, q.Definition); err != nil {
				t.env.Note("this could not be kept, and holds for this run only: %v", err)
			}
			t.forRun = true
			return agent.AcceptForRun(), nil
		case word == "w" || word == "whole":
			text = "The arguments, whole:\n" + behindBar(env.IndentJSON(q.Arguments))
			continue
		case word == "n" || word == "no":
			return agent.Decline(""), nil
		}
		text = "Please say one of the letters in brackets."
	}
}
