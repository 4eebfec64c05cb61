package run

import (
	"context"
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
}

// allowMore asks whether a run that has reached a limit may have more.
func (t *questions) allowMore(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	l := q.Limit
	text := fmt.Sprintf("\nThe run has reached its limit of %s: %s, and has spent %s. May it have %s more?",
		env.Plain(l.Limit), env.Plain(l.Max), env.Plain(l.Spent), env.Plain(l.More))
	for {
		line, err := t.ask.Ask(ctx, text, "[y]es, another amount, or [n]o: ")
		if err != nil {
			return agent.Decline("the question was not answered"), nil
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
	if err != nil {
		return err
	}
	// An answer that was given counts, whatever has ended meanwhile.
	return q.Answer(context.WithoutCancel(ctx), answer.By("terminal"))
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
			return agent.TellModel("the question was not answered"), nil
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "h", "happened":
			came, err := t.ask.Ask(ctx, "What came of it, in words for the model? (It may be empty.)", "> ")
			if err != nil {
				came = ""
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
			return agent.Decline("the question was not answered"), nil
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "y" || word == "yes":
			return agent.Accept(), nil
		case word == "r" || word == "run":
			return agent.AcceptForRun(), nil
		case always && (word == "a" || word == "always"):
			if err := t.tools.Allow(ctx, q.Server, q.Tool, q.Definition); err != nil {
				t.env.Note("this could not be kept, and holds for this run only: %v", err)
			}
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
