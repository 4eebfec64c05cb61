// answer.go: questions of backends and runs, answered by the client.

package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-dev/troupe/agent/expose/internal/hook"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpserver"
)

// metaAsker is the key of the asker's path in the _meta of a sampling request.
const metaAsker = "dev.troupe/asker"

// Decide implements [mcpclient.Human]: the client's user decides, or the inbox where the
// client cannot be asked.
func (op *Operation) Decide(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	d, err := op.Ask(ctx, a)
	switch {
	case err == nil:
		return d, nil
	case errors.Is(err, mcpserver.ErrDeclined):
		return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
	case errors.Is(err, mcpserver.ErrDismissed):
		return &mcpclient.Decision{Action: mcp.ActionCancel}, nil
	case errors.Is(err, ErrCannotAsk) && !op.client.Inbox():
		return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
	case errors.Is(err, ErrCannotAsk):
		op.Step(Asker(a.Path, a.Server) + ": this client cannot be asked; the question waits in: troupe inbox ls")
		return op.client.ops.Inbox.Decide(ctx, a)
	}
	return nil, err
}

// Ask puts a question of a backend to the client. A no is [mcpserver.ErrDeclined] or
// [mcpserver.ErrDismissed]; a question that the client cannot be asked is [ErrCannotAsk].
func (op *Operation) Ask(ctx context.Context, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	asker := Asker(a.Path, a.Server)
	if len(a.Notes) > 0 {
		asker += " (" + Clip(strings.Join(a.Notes, " ")) + ")"
	}
	switch a.Kind {
	case mcpclient.AskForm:
		return op.askForm(ctx, asker, a.Form)
	case mcpclient.AskURL:
		return op.askPage(ctx, asker, a)
	case mcpclient.AskSampling, mcpclient.AskSample:
		return op.reviewSampling(ctx, asker, a)
	case mcpclient.AskTool:
		changed := []string{"definition"}
		if a.Before != nil {
			changed = mcpclient.ToolChanges(a.Before, a.Tool)
		}
		return op.agree(ctx, fmt.Sprintf("The tool %q of %s is not the one that was approved: its %s changed. Use it as it is now?\n%s",
			a.Tool.Name, asker, strings.Join(changed, ", "), Clip(a.Tool.Description)))
	}
	return nil, ErrCannotAsk
}

// askForm puts a backend's form to the client, with its schema as it came.
func (op *Operation) askForm(ctx context.Context, asker string, p *mcp.ElicitParams) (*mcpclient.Decision, error) {
	form := &mcp.ElicitParams{Message: asks(asker, p.Message), RequestedSchema: p.RequestedSchema}
	got, err := op.ask(ctx, &question{person: true, needs: (*mcp.ClientCapabilities).ElicitForm, build: func(key string) *mcpserver.Question {
		return hook.Server.RelayedForm(key, form)
	}})
	if err != nil {
		return nil, err
	}
	return &mcpclient.Decision{Action: mcp.ActionAccept, Content: got.Elicited.Content}, nil
}

// askPage sends the client's user to a backend's page: to exactly this URL, which Troupe
// itself never opens (URL-10).
func (op *Operation) askPage(ctx context.Context, asker string, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	message := asks(asker, a.Message)
	got, err := op.ask(ctx, &question{person: true, needs: (*mcp.ClientCapabilities).ElicitURL, build: func(key string) *mcpserver.Question {
		return hook.Server.ConsentQuestion(key, message, a.URL.URL)
	}})
	if err != nil {
		return nil, err
	}
	op.client.pageOpened(pageKey{a.Server, a.URL.URL}, hook.Server.ElicitationID(got))
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

// asks is the message of a question, after its asker.
func asks(asker, message string) string {
	if asker == "" {
		return message
	}
	return asker + " asks: " + message
}

// reviewSampling accepts at once where the client's model answers: the client reviews that
// itself (SAMP-40).
func (op *Operation) reviewSampling(ctx context.Context, asker string, a *mcpclient.Ask) (*mcpclient.Decision, error) {
	if op.client.Samples() {
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
	return op.agree(ctx, asker+what+Clip(string(shown)))
}

// agree asks for a yes.
func (op *Operation) agree(ctx context.Context, message string) (*mcpclient.Decision, error) {
	chosen, err := op.Choose(ctx, message, Allow, Deny)
	if err != nil {
		return nil, err
	}
	if chosen != Allow {
		return nil, mcpserver.ErrDeclined
	}
	return &mcpclient.Decision{Action: mcp.ActionAccept}, nil
}

// Sample implements [mcpclient.Sampler]: the client's model answers.
func (op *Operation) Sample(ctx context.Context, req *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	params := *req.Params
	params.Meta = ForwardedMeta(req.Params.Meta)
	if err := params.Meta.Set(metaAsker, Asker(req.Path, req.Server)); err != nil {
		return nil, err
	}
	tools := len(params.Tools) > 0 || params.ToolChoice != nil
	got, err := op.ask(ctx, &question{
		needs: func(c *mcp.ClientCapabilities) bool {
			return c != nil && c.Sampling != nil && (!tools || c.SamplingTools())
		},
		build: func(key string) *mcpserver.Question { return mcpserver.SampleQuestion(key, &params) },
	})
	switch {
	case errors.Is(err, mcpserver.ErrDeclined):
		return nil, mcp.ErrUserRejected
	case err != nil:
		return nil, wireError(err)
	}
	return got.Sampled, nil
}

// ForwardedMeta returns a request's _meta without the keys that belong to one connection.
func ForwardedMeta(meta mcp.Meta) mcp.Meta {
	own := make(mcp.Meta, len(meta))
	for key, value := range meta {
		if key != mcp.MetaProgressToken && !strings.HasPrefix(key, "io.modelcontextprotocol/") {
			own[key] = value
		}
	}
	return own
}

// wireError keeps the client's own error, with its code and message, for the backend that
// asked.
func wireError(err error) error {
	if refused, ok := errors.AsType[*mcpserver.ClientError](err); ok {
		return refused.Wire
	}
	return err
}

// Roots asks for the client's roots.
func (op *Operation) Roots(ctx context.Context) ([]mcp.Root, error) {
	got, err := op.ask(ctx, &question{
		needs: func(c *mcp.ClientCapabilities) bool { return c != nil && c.Roots != nil },
		build: mcpserver.RootsQuestion,
	})
	if err != nil {
		return nil, wireError(err)
	}
	op.client.keepRoots(got.Roots)
	return got.Roots, nil
}

// CallOptions are those of a call of a backend that is part of the operation.
func (op *Operation) CallOptions() *mcpclient.CallOptions {
	o := &mcpclient.CallOptions{Human: op, Progress: op.Progress}
	if op.client.Samples() {
		o.Sampler = op
	}
	if op.client.HasRoots() {
		o.Roots = op.Roots
	}
	return o
}
