package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/actors/budget"
	"github.com/troupe-dev/troupe/actors/provider"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/llm/sampling"
	"github.com/troupe-dev/troupe/mcp"
)

// ModelLimits bounds what [Options].Model does for clients.
type ModelLimits struct {
	// Concurrency bounds the turns under way at once, and PerPrincipal those of one
	// principal, of one pipe, or of all that come over HTTP and are nobody: those can have
	// as many sessions as they like. Others wait for theirs until their calls end. Zero
	// means 8 and 2.
	Concurrency, PerPrincipal int
	// MaxTokens bounds the output of one turn: of a question that allows more, this is
	// what the model is allowed. Zero means what the question says.
	MaxTokens int
	// TokensPerHour bounds what one of those may cost in an hour, input and output
	// together. A turn is reserved before it begins; one that does not fit is refused with
	// [ErrModelBudget]. Zero means no limit.
	TokensPerHour int
}

// ErrModelBudget says that a client has used up what it may have of the server's own
// model: see [ModelLimits].
var ErrModelBudget error = &outcomeError{"what this client may use of the server's model is used up, try again later",
	mcp.Errorf(CodeRateLimited, "what this client may use of the server's model is used up, try again later")}

// ownModel is the server's own model, with what clients have of it.
type ownModel struct {
	model  llm.Model // behind group, once that is open
	limits ModelLimits
	group  *provider.Group

	mu sync.Mutex
	by map[string]*patron
}

// patron is one for whom the model works.
type patron struct {
	room chan struct{}

	// Guarded by the model's lock.
	users int // that have it, or wait for it
	spent *budget.Account
	hour  time.Time // when what it has spent counts no more
}

// patronTime is how long what was spent counts.
const patronTime = time.Hour

// newOwnModel returns nil without a model.
func newOwnModel(m llm.Model, l ModelLimits) (*ownModel, error) {
	if m == nil {
		return nil, nil
	}
	if l.Concurrency < 0 || l.PerPrincipal < 0 || l.MaxTokens < 0 || l.TokensPerHour < 0 {
		return nil, errors.New("mcpserver: a limit of the model is negative")
	}
	l.Concurrency, l.PerPrincipal = cmp.Or(l.Concurrency, 8), cmp.Or(l.PerPrincipal, 2)
	return &ownModel{model: m, limits: l, by: make(map[string]*patron)}, nil
}

// open puts the model under supervision: its turns wait for each other, are asked again
// after errors that allow it, and leave a backend alone that fails and fails.
func (o *ownModel) open(sys *actors.System, name string) error {
	if o == nil {
		return nil
	}
	group, err := provider.Open(sys, &provider.GroupOptions{Name: name, Providers: map[string]provider.Options{"": {Concurrency: o.limits.Concurrency}}})
	if err != nil {
		return fmt.Errorf("starting the model: %w", err)
	}
	o.group = group
	if r, ok := o.model.(*router.Router); ok {
		o.model = r.Wrap(group.Model)
	} else {
		o.model = group.Model(o.model)
	}
	return nil
}

// close ends its turns; it does not wait longer than ctx.
func (o *ownModel) close(ctx context.Context) {
	if o == nil {
		return
	}
	o.group.Close()
	select {
	case <-o.group.Stopped():
	case <-ctx.Done():
	}
}

// ownAnswer is what the own model has answered, as it is kept for a handler that runs
// again.
type ownAnswer struct {
	Result *mcp.CreateMessageResult `json:"result,omitzero"`
	Usage  llm.Usage                `json:"usage,omitzero"`
	// Client says that the client was asked instead.
	Client bool `json:"client,omitzero"`
}

// sample runs a turn for the patron of that id.
func (o *ownModel) sample(ctx context.Context, id string, p *mcp.CreateMessageParams) (ownAnswer, error) {
	req, err := sampling.Request(p)
	if err != nil {
		return ownAnswer{}, errors.New(err.Error()) // not the client's fault, so no wire error
	}
	if most := o.limits.MaxTokens; most > 0 {
		req.MaxTokens = min(req.MaxTokens, most)
	}
	who, leave := o.patron(id)
	defer leave()
	select {
	case who.room <- struct{}{}:
		defer func() { <-who.room }()
	case <-ctx.Done():
		return ownAnswer{}, context.Cause(ctx)
	}
	a, err := o.turn(ctx, who, p, req)
	if errors.Is(err, sampling.ErrNoCall) { // some servers of models heed it when they are told
		req.System += "\n\nYou must call one of the tools."
		a, err = o.turn(ctx, who, p, req)
	}
	if err != nil && ctx.Err() != nil {
		return ownAnswer{}, context.Cause(ctx)
	}
	return a, err
}

// turn asks the model once.
func (o *ownModel) turn(ctx context.Context, who *patron, p *mcp.CreateMessageParams, req *llm.Request) (ownAnswer, error) {
	asked := *req
	var hold *budget.Hold
	if account := o.account(who); account != nil {
		var err error
		if hold, asked.MaxTokens, err = account.ReserveTurn(budget.Turn{Input: llm.EstimateTokens(req), Output: req.MaxTokens}); err != nil {
			return ownAnswer{}, ErrModelBudget
		}
		defer hold.Release() // if the model panics
	}
	resp, usage, err := llm.Complete(ctx, o.model, &asked)
	if hold != nil { // what has failed, or was left, is not for nothing
		hold.Settle(budget.Amount{Tokens: usage.Input + usage.Output, ModelCalls: 1})
	}
	if err != nil {
		return ownAnswer{}, fmt.Errorf("asking the server's model: %w", err)
	}
	result, err := sampling.Result(p, resp)
	if err != nil {
		return ownAnswer{}, fmt.Errorf("asking the server's model: %w", err)
	}
	return ownAnswer{Result: result, Usage: usage}, nil
}

// patron returns the one of that id, until leave.
func (o *ownModel) patron(id string) (who *patron, leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if who = o.by[id]; who == nil {
		if len(o.by) >= maxLimited {
			o.sweep()
		}
		who = &patron{room: make(chan struct{}, o.limits.PerPrincipal)}
		o.by[id] = who
	}
	who.users++
	return who, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if who.users--; who.users == 0 && who.spent == nil {
			delete(o.by, id)
		}
	}
}

// sweep forgets those who have nothing any more; if there are none, one that the model
// does not work for now. It is called with the lock held.
func (o *ownModel) sweep() {
	now, before := time.Now(), len(o.by)
	idle := ""
	for id, who := range o.by {
		switch {
		case who.users > 0:
		case !now.Before(who.hour):
			delete(o.by, id)
		default:
			idle = id
		}
	}
	if len(o.by) == before {
		delete(o.by, idle)
	}
}

// account is what a patron may spend, nil without a limit.
func (o *ownModel) account(who *patron) *budget.Account {
	if o.limits.TokensPerHour == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); who.spent == nil || !now.Before(who.hour) {
		who.spent, who.hour = budget.New("model", budget.Limits{Tokens: o.limits.TokensPerHour}), now.Add(patronTime)
	}
	return who.spent
}

// patron names for whom the server's model works.
func (r *request) patron() string {
	if id := r.principal.id(); id != "" {
		return "principal " + id
	}
	if r.session.in == nil { // each could have a session for each call
		return "nobody"
	}
	return "session " + r.session.ref.Path()
}
