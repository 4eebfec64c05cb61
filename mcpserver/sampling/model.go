package sampling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/internal/budget"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/memo"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
	wire "github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
)

// Limits bounds what a model of the server's own does for clients; nil is the same as the
// zero value.
type Limits struct {
	// Concurrency bounds the turns under way at once, and PerPrincipal those of one
	// principal, of one pipe, or of all that come over HTTP without a principal: those can have
	// as many sessions as they like. Further turns wait until those end. Zero means 8 and 2.
	Concurrency, PerPrincipal int
	// MaxTokens bounds the output of one turn: of a question that allows more, this is
	// what the model is allowed. Zero means what the question says.
	MaxTokens int
	// TokensPerHour bounds what one of those may cost in an hour, input and output
	// together. A turn is reserved before it begins; one that does not fit is refused with
	// [ErrBudget]. Zero means no limit.
	TokensPerHour int
}

// ErrBudget says that a client has used up what it may have of the server's own model: see
// [Limits].
var ErrBudget error = &budgetError{}

const budgetText = "what this client may use of the server's model is used up, try again later"

type budgetError struct{}

func (*budgetError) Error() string { return budgetText }

// Unwrap returns the error that clients get.
func (*budgetError) Unwrap() error { return mcp.Errorf(mcpserver.CodeRateLimited, budgetText) }

// NewModel makes a model of the server's own: for [mcpserver.Options].Model. It may be used
// by several servers, each with these limits. It is asked again after errors that allow it.
func NewModel(m llm.Model, limits *Limits) mcpserver.Model {
	if m == nil {
		return nil
	}
	s := &settings{model: m}
	if limits != nil {
		s.limits = *limits
	}
	return s
}

// settings are a model before a server opens it.
type settings struct {
	model  llm.Model
	limits Limits
}

// Check implements [asking.Model].
func (s *settings) Check() error {
	if l := s.limits; min(l.Concurrency, l.PerPrincipal, l.MaxTokens, l.TokensPerHour) < 0 {
		return errors.New("mcpserver: a limit of the model is negative")
	}
	return nil
}

// Open implements [asking.Model]: the model's turns wait for each other, are asked again
// after errors that allow it, and leave a backend alone that keeps failing.
func (s *settings) Open(sys *actors.System, name string) (asking.OpenModel, error) {
	o := &ownModel{model: s.model, limits: s.limits}
	o.clients.Max = maxQuotas
	o.limits.Concurrency, o.limits.PerPrincipal = cmp.Or(o.limits.Concurrency, 8), cmp.Or(o.limits.PerPrincipal, 2)
	group, err := provider.Open(sys, &provider.GroupOptions{Name: name, Providers: map[string]provider.Options{"": {Concurrency: o.limits.Concurrency}}})
	if err != nil {
		return nil, fmt.Errorf("starting the model: %w", err)
	}
	o.group = group
	if r, ok := o.model.(*router.Router); ok {
		o.model = r.Wrap(group.Model)
	} else {
		o.model = group.Model(o.model)
	}
	return o, nil
}

// ownModel is the model of a server, with what clients have of it.
type ownModel struct {
	model   llm.Model // behind group
	limits  Limits
	group   *provider.Group
	clients memo.Map[string, quota]
}

// quota is what one client has of the model.
type quota struct {
	room  chan struct{}
	spent *budget.Account // nil without a limit
	hour  time.Time       // when what is spent counts no more
}

// quotaTime is how long what was spent counts, and maxQuotas bounds the clients that are
// remembered.
const (
	quotaTime = time.Hour
	maxQuotas = 10_000
)

// Name implements [asking.OpenModel].
func (o *ownModel) Name() string { return o.model.Name() }

// Close implements [asking.OpenModel].
func (o *ownModel) Close(ctx context.Context) {
	o.group.Close()
	select {
	case <-o.group.Stopped():
	case <-ctx.Done():
	}
}

// Answer implements [asking.OpenModel].
func (o *ownModel) Answer(ctx context.Context, id string, p *mcp.CreateMessageParams) (asking.Answer, error) {
	req, err := wire.Request(p)
	if err != nil {
		return asking.Answer{}, errors.New(err.Error()) // not the client's fault, so no wire error
	}
	if most := o.limits.MaxTokens; most > 0 {
		req.MaxTokens = min(req.MaxTokens, most)
	}
	room := o.quota(id).room
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
	case <-ctx.Done():
		return asking.Answer{}, context.Cause(ctx)
	}
	a, err := o.turn(ctx, id, p, req)
	if errors.Is(err, wire.ErrNoCall) { // some servers of models heed a request for it
		req.System += "\n\nYou must call one of the tools."
		a, err = o.turn(ctx, id, p, req)
	}
	if err != nil && ctx.Err() != nil {
		return asking.Answer{}, context.Cause(ctx)
	}
	return a, err
}

// turn asks the model once.
func (o *ownModel) turn(ctx context.Context, id string, p *mcp.CreateMessageParams, req *llm.Request) (asking.Answer, error) {
	asked := *req
	var hold *budget.Hold
	if account := o.quota(id).spent; account != nil {
		var err error
		if hold, asked.MaxTokens, err = account.ReserveTurn(budget.Turn{Input: llm.EstimateTokens(req), Output: req.MaxTokens}); err != nil {
			return asking.Answer{}, ErrBudget
		}
		defer hold.Release() // if the model panics
	}
	resp, usage, err := llm.Complete(ctx, o.model, &asked)
	if hold != nil { // what has failed, or was left, is not for nothing
		hold.Settle(budget.Amount{Tokens: usage.Input + usage.Output, ModelCalls: 1})
	}
	if err != nil {
		return asking.Answer{}, fmt.Errorf("asking the server's model: %w", err)
	}
	result, err := wire.Result(p, resp)
	if err != nil {
		return asking.Answer{}, fmt.Errorf("asking the server's model: %w", err)
	}
	raw, err := jsonx.Marshal(usage)
	return asking.Answer{Result: result, Usage: raw}, err
}

// quota returns what a client has now.
func (o *ownModel) quota(id string) (q quota) {
	now := time.Now()
	o.clients.Update(id, 0, func(known quota, ok bool) (quota, bool) {
		if q = known; !ok {
			q.room = make(chan struct{}, o.limits.PerPrincipal)
		}
		if o.limits.TokensPerHour > 0 && !now.Before(q.hour) {
			q.spent, q.hour = budget.New("model", budget.Limits{Tokens: o.limits.TokensPerHour}), now.Add(quotaTime)
		}
		return q, true
	})
	return q
}
