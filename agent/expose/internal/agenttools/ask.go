package agenttools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose/internal/relay"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// questions puts the questions of a run to the client whose call it is.
type questions struct {
	op     *relay.Operation
	client *relay.Client
}

// onAsk has the client answer a question of a run. A question that the client cannot be
// asked stays open for the inbox, or is declined if there is no inbox.
func (q *questions) onAsk(ctx context.Context, a agent.Ask) (agent.Decision, error) {
	if a.Kind == agent.KindPage { // the client waits for the page itself, and so does the inbox
		return agent.Decision{}, nil
	}
	if a.Kind == agent.KindLogin && a.Question != nil && a.Question.Login != nil { // the client's user may be anywhere
		q.op.Step(fmt.Sprintf("%s waits for a login at %s: %s", relay.Asker(a.Path, ""), a.Server, a.Question.Login.Command))
		return agent.Decision{}, nil
	}
	d, err := q.decide(ctx, &a)
	switch {
	case err == nil:
		return d.By(q.client.Name), nil
	case errors.Is(err, mcpserver.ErrDeclined), errors.Is(err, mcpserver.ErrDismissed):
		return q.refusal(&a, err)
	case ctx.Err() != nil: // the run no longer waits
		return agent.Decision{}, err
	case !q.client.Inbox(): // also an answer that is not valid
		return q.refusal(&a, mcpserver.ErrDeclined)
	case errors.Is(err, relay.ErrCannotAsk):
		q.op.Step(fmt.Sprintf("%s: this client cannot be asked; answer with: troupe inbox answer %s", relay.Asker(a.Path, ""), a.ID))
		return agent.Decision{}, nil
	}
	return agent.Decision{}, err
}

// refusal is a no, for the model or for the backend that asked.
func (q *questions) refusal(a *agent.Ask, err error) (agent.Decision, error) {
	if a.Question == nil {
		return agent.Decline(err.Error()).By(q.client.Name), nil
	}
	action := mcp.ActionDecline
	if errors.Is(err, mcpserver.ErrDismissed) {
		action = mcp.ActionCancel
	}
	d, err := agent.DecideAs(&mcpclient.Decision{Action: action})
	return d.By(q.client.Name), err
}

func (q *questions) decide(ctx context.Context, a *agent.Ask) (agent.Decision, error) {
	switch {
	case a.Question != nil:
		question := *a.Question
		if len(question.Path) == 0 {
			question.Path = a.Path
		}
		d, err := q.op.Ask(ctx, &question)
		if err != nil {
			return agent.Decision{}, err
		}
		return agent.DecideAs(d)
	case a.Limit != nil:
		l := a.Limit
		message := fmt.Sprintf("%s has reached its limit of %s: %s of %s are used. Allow %s more?",
			relay.Asker(a.Path, ""), l.Limit, l.Spent, l.Max, l.More)
		return q.choose(ctx, message, "no more is allowed", relay.Allow, relay.Deny)
	}
	message := fmt.Sprintf("%s wants to call %s with %s", relay.Asker(a.Path, ""), toolPath(a.Server, a.Tool), relay.Clip(string(a.Arguments)))
	if a.Tainted {
		message += "\nIt may carry out private data: the run has read what strangers wrote."
	}
	if a.Note != "" {
		message += "\nBeware: " + relay.Clip(a.Note) + "."
	}
	return q.choose(ctx, message, "the user does not allow it", relay.Allow, relay.AllowRun, relay.Deny)
}

// choose has the user choose among the words of [relay.Operation.Choose].
func (q *questions) choose(ctx context.Context, message, refusal string, choices ...string) (agent.Decision, error) {
	chosen, err := q.op.Choose(ctx, message, choices...)
	switch {
	case err != nil:
		return agent.Decision{}, err
	case chosen == relay.Allow:
		return agent.Accept(), nil
	case chosen == relay.AllowRun:
		return agent.AcceptForRun(), nil
	}
	return agent.Decline(refusal), nil
}

// toolPath names a tool for a person: its server, and the server's own name for it where the
// model's name is server__tool.
func toolPath(server, tool string) string {
	if server == "" {
		return tool
	}
	return relay.Asker([]string{server}, strings.TrimPrefix(tool, server+"__"))
}
