package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// question asks on the terminal: whether a call may be made, or what a server wants
// to know.
func (v *view) question(ctx context.Context, q agent.Ask) error {
	if !q.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, q.Expires, errExpired)
		defer cancel()
	}
	ask := v.approve
	switch {
	case q.Limit != nil:
		ask = v.allowMore
	case q.Question != nil:
		ask = v.forward
	}
	answer, err := ask(ctx, q)
	if err != nil {
		return err
	}
	// An answer that was given counts, whatever has ended meanwhile.
	return q.Answer(context.WithoutCancel(ctx), answer.By("terminal"))
}

// errExpired ends a question that waited for too long.
var errExpired = errors.New("nobody has answered in time")

// forward asks a server's question.
func (v *view) forward(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	d, err := v.ask.Decide(ctx, q.Question)
	if err != nil {
		d = &mcpclient.Decision{Action: mcp.ActionCancel}
	}
	return agent.DecideAs(d)
}

// approve asks whether a call may be made.
func (v *view) approve(ctx context.Context, q agent.Ask) (agent.Decision, error) {
	who := "the program"
	if q.Server != "" {
		who = fmt.Sprintf("the server %s (%s, %s)", plain(q.Server), plain(q.Origin), q.Trust)
	}
	text := fmt.Sprintf("\nMay %s call %s of %s?\n%s%s", asker(q), plain(q.Tool), who, v.local.callText(q.Server, q.Tool, q.Arguments), warning(q))
	prompt := "[y]es, yes for the whole [r]un, "
	always := v.tools != nil && q.Definition != "" && !q.Again
	if always {
		prompt += "[a]lways in this folder, "
	}
	prompt += "[w]hole arguments, or [n]o: "
	for {
		line, err := v.ask.Ask(ctx, text, prompt)
		if err != nil {
			return agent.Decline("nobody answered"), nil
		}
		switch word := strings.ToLower(strings.TrimSpace(line)); {
		case word == "y" || word == "yes":
			return agent.Accept(), nil
		case word == "r" || word == "run":
			return agent.AcceptForRun(), nil
		case always && (word == "a" || word == "always"):
			if err := v.tools.allow(ctx, q.Server, q.Tool, q.Definition); err != nil {
				v.p.note("this could not be kept, and holds for this run only: %v", err)
			}
			return agent.AcceptForRun(), nil
		case word == "w" || word == "whole":
			text = "The arguments, whole:\n" + behindBar(sanitize.Reveal(indentJSON(q.Arguments)))
			continue
		case word == "n" || word == "no":
			return agent.Decline(""), nil
		}
		text = "Please say one of the letters in brackets."
	}
}

// indentJSON lays JSON out for reading; what is not JSON stays as it is.
func indentJSON(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return string(raw)
	}
	return "  " + string(out)
}
