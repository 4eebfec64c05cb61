package expose

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// metaAsker is the key in the _meta of what a server is let ask the client's model: the
// path of who asks.
const metaAsker = "dev.troupe/asker"

// Decide implements [mcpclient.Human]: the client's user decides, or who answers in their
// place where the client can not be asked.
func (e *errand) Decide(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	d, err := e.decide(ctx, a)
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, mcpserver.ErrDeclined):
		return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
	case errors.Is(err, mcpserver.ErrDismissed):
		return &mcpclient.Decision{Action: mcp.ActionCancel}, nil
	case errors.Is(err, errCannotAsk):
		if e.up.front.opts.Unanswered == FallbackInbox {
			e.step(asker(a.Path, a.Server) + ": this client can not be asked; the question waits in: troupe inbox ls")
		}
		return e.up.front.fallback.Decide(ctx, a)
	}
	return nil, err
}

func (e *errand) decide(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	who := asker(a.Path, a.Server)
	if len(a.Notes) > 0 {
		who += " (" + clip(strings.Join(a.Notes, " ")) + ")"
	}
	switch a.Kind {
	case mcpclient.AskForm:
		return e.relayForm(ctx, who, a.Form)
	case mcpclient.AskURL:
		return e.relayURL(ctx, who, a)
	case mcpclient.AskSampling, mcpclient.AskSample:
		return e.reviewSampling(ctx, who, a)
	case mcpclient.AskTool:
		return e.agree(ctx, fmt.Sprintf("The tool %q of %s is not what it was: its %s changed. Use it as it is now?\n%s",
			a.Tool.Name, who, strings.Join(changes(a), ", "), clip(a.Tool.Description)))
	}
	return nil, errCannotAsk
}

func changes(a *mcpclient.Ask) []string {
	if a.Before == nil {
		return []string{"definition"}
	}
	return mcpclient.ToolChanges(a.Before, a.Tool)
}

// relayForm puts a server's form to the client, its schema as it came.
func (e *errand) relayForm(ctx context.Context, who string, p *mcp.ElicitParams) (*mcpclient.Decision, error) {
	form := &mcp.ElicitParams{Message: asks(who, p.Message), RequestedSchema: p.RequestedSchema}
	q := &question{person: true, needs: (*mcp.ClientCapabilities).ElicitForm, ask: func(key string) *mcpserver.Question {
		return mcpserver.RelayedForm(key, form)
	}}
	got, err := e.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: got.Elicited.Content}, nil
}

// relayURL sends the client's user to a server's page: exactly that, and nothing of ours
// looks at it (URL-10).
func (e *errand) relayURL(ctx context.Context, who string, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	message := asks(who, a.Message)
	q := &question{person: true, needs: (*mcp.ClientCapabilities).ElicitURL, ask: func(key string) *mcpserver.Question {
		return mcpserver.ConsentQuestion(key, message, a.URL.URL)
	}}
	got, err := e.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	e.up.pageOpened(pageKey{a.Server, a.URL.URL}, got.ElicitationID())
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

// reviewSampling has nobody asked where the client's model answers: whoever owns it looks
// at what it is asked there (SAMP-40).
func (e *errand) reviewSampling(ctx context.Context, who string, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	if e.up.samples() {
		return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
	}
	shown, err := jsonx.Marshal(a.Sampling)
	what := " wants to ask a model this:\n"
	if a.Kind == mcpclient.AskSample {
		shown, err = jsonx.Marshal(a.Sample)
		what = " would get this answer of a model:\n"
	}
	if err != nil {
		return nil, err
	}
	return e.agree(ctx, who+what+clip(string(shown)))
}

// agree asks for a yes.
func (e *errand) agree(ctx context.Context, message string) (*mcpclient.Decision, error) {
	chosen, err := e.choice(ctx, message, []string{choiceAllow, choiceDeny})
	if err != nil {
		return nil, err
	}
	if chosen != choiceAllow {
		return nil, mcpserver.ErrDeclined
	}
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

// What a person may choose.
const (
	choiceAllow    = "allow"
	choiceAllowRun = "allow for the rest of the run"
	choiceDeny     = "deny"
)

// Sample implements [mcpclient.Sampler]: the client's model answers.
func (e *errand) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	params := *req.Params
	params.Meta = passedOn(req.Params.Meta)
	if err := params.Meta.Set(metaAsker, asker(req.Path, req.Server)); err != nil {
		return nil, err
	}
	tools := len(params.Tools) > 0 || params.ToolChoice != nil
	q := &question{
		needs: func(c *mcp.ClientCapabilities) bool {
			return c != nil && c.Sampling != nil && (!tools || c.SamplingTools())
		},
		ask: func(key string) *mcpserver.Question { return mcpserver.SampleQuestion(key, &params) },
	}
	got, err := e.ask(ctx, q)
	switch {
	case errors.Is(err, mcpserver.ErrDeclined):
		return nil, mcp.ErrUserRejected
	case err != nil:
		return nil, wireError(err)
	}
	return got.Sampled, nil
}

// runSampler is the errand as the sampler of an agent's run.
type runSampler struct {
	*errand
	agent string
}

// Sample implements [mcpclient.Sampler]: the agent is in the path of who asks.
func (s *runSampler) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	one := *req
	one.Path = append([]string{s.agent}, req.Path...)
	return s.errand.Sample(ctx, &one)
}

// wireError is an error as the server is told that asked: what the client itself has
// said, in its words and with its code.
func wireError(err error) error {
	if refused, ok := errors.AsType[*mcpserver.ClientError](err); ok {
		return refused.Wire
	}
	return err
}

// Roots asks for the client's roots.
func (e *errand) Roots(ctx context.Context) ([]mcp.Root, error) {
	q := &question{
		needs: func(c *mcp.ClientCapabilities) bool { return c != nil && c.Roots != nil },
		ask:   mcpserver.RootsQuestion,
	}
	got, err := e.ask(ctx, q)
	if err != nil {
		return nil, wireError(err)
	}
	e.up.keepRoots(got.Roots)
	return got.Roots, nil
}
