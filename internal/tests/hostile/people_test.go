package hostile

import (
	"context"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// decliner declines everything.
type decliner struct{}

func (decliner) Decide(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
	return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
}

// asleep never decides, until the question is of no use any more.
type asleep struct{ asked chan<- *mcpclient.Ask }

func (a asleep) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	select {
	case a.asked <- ask:
	default:
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// human is a function as a Human.
type human func(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error)

func (f human) Decide(ctx context.Context, ask *mcpclient.Ask) (*mcpclient.Decision, error) {
	return f(ctx, ask)
}

// sampler answers always the same.
var sampler = mcpclient.SamplerFunc(func(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Content: mcp.Contents{&mcp.TextContent{Text: "sample"}}, Model: "m"}, nil
})
