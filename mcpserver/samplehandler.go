package mcpserver

import (
	"context"
	"log/slog"
	"reflect"
	"strconv"
	"time"

	"github.com/troupe-dev/troupe/actors"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/asking"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/questions"
)

func init() {
	asking.SystemOf = func(server any) *actors.System { return server.(*Server).sys }
	asking.Of = func(requester any) (asking.Handler, error) {
		q := requester.(Requester).asking()
		n := q.r.invocation.Load()
		if _, completes := q.r.job().(*completing); completes || n == nil { // MRTR-01
			return nil, errNoAsking
		}
		return sampler{n}, nil
	}
	asking.NewTool = func(t *mcp.Tool, in, out reflect.Type) (asking.Tool, error) {
		made, err := offered.NewTool(t, in, out)
		if err != nil {
			return nil, err
		}
		return made, nil
	}
}

// Sample asks the client's model. p is sent as it is. The error is [ErrDeclined] if a
// person has declined, or one of [Request.Ask]: a [*CapabilityError] if p has tools and the
// client has no sampling.tools, or if p wants context and a client of 2025-11-25 or later has
// no sampling.context. Each tool call in the messages needs its result. Handlers that let
// the model call tools use sampling.Loop, or bound the turns themselves, and set
// [mcp.ToolChoiceNone] in the last.
//
// With [Options].Model that model answers for a client that has no sampling, or none with
// tools where p has tools: once for the call, also if the handler runs again.
func (q *Request) Sample(ctx context.Context, key string, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	one := SampleQuestion(key, p)
	n := q.r.invocation.Load()
	if n == nil || n.server().model == nil || p == nil || key == "" || len(key) > maxKey {
		err := q.ask(ctx, one)
		return one.Sampled, err
	}
	a, err := n.sampleOwn(ctx, key, p, func() bool { return one.q.ClientAnswers(q.live().capabilities()) })
	if err != nil || !a.Client {
		return a.Result, err
	}
	err = q.ask(ctx, one)
	return one.Sampled, err
}

// sampler is a handler's call as package sampling sees it: its methods implement
// [asking.Handler].
type sampler struct{ *handlerCall }

func (n sampler) Name() string            { return n.request.work.name() }
func (n sampler) Log() *slog.Logger       { return n.server().log }
func (n sampler) Grace() time.Duration    { return n.server().opts.Limits.Grace }
func (n sampler) Model() asking.OpenModel { return n.server().model }
func (n sampler) LoopID() string          { return strconv.FormatUint(n.server().loops.Add(1), 36) }

func (n sampler) Within(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	forget := context.AfterFunc(n.Context(), func() { end(n.Cause()) })
	return ctx, func() {
		forget()
		end(nil)
	}
}

func (n sampler) AskModel(ctx context.Context, key string, p *mcp.CreateMessageParams) (asking.Answer, error) {
	return n.sampleOwn(ctx, key, p, func() bool { return false })
}

func (n sampler) HasModel(p *mcp.CreateMessageParams) bool {
	return SampleQuestion("", p).q.ClientAnswers(n.current().capabilities())
}

func (n sampler) Missing(p *mcp.CreateMessageParams) error {
	return public(questions.Missing(n.current().capabilities(), []*questions.Question{&SampleQuestion("", p).q}))
}

func (n sampler) Turns(ctx context.Context, turns, rounds int) (int, error) {
	left, counted, err := n.RoundsLeft(ctx, rounds)
	if err != nil || !counted {
		return turns, err
	}
	return max(1, min(turns, left)), nil
}

func (n sampler) Start(ctx context.Context, start func(*actors.Context) error, cancel func(error)) error {
	_, err := actors.Ask(ctx, n.server().ref, func(reply *actors.Reply[struct{}]) any { return &startLoop{start, cancel, reply} })
	return err
}

// sampleOwn asks the server's own model, once for the key, unless client reports that the
// client answers. That too is decided once: else a handler that runs again, for a client
// whose capabilities have changed, would not repeat its questions.
func (n *handlerCall) sampleOwn(ctx context.Context, key string, p *mcp.CreateMessageParams, client func() bool) (asking.Answer, error) {
	ctx, stop := sampler{n}.Within(ctx)
	defer stop()
	a, err := onceIn(ctx, n, ownKey+key, func(ctx context.Context) (asking.Answer, error) {
		if client() {
			return asking.Answer{Client: true}, nil
		}
		return n.server().model.Answer(ctx, n.current().quota(), p)
	})
	return a, err
}

// ownKey begins the keys of results that the server itself keeps, apart from those of handlers.
const ownKey = "\x00model:"

// startLoop is a message to the server's actor, which is the parent of all loops.
type startLoop struct {
	begin  func(*actors.Context) error
	cancel func(error)
	reply  *actors.Reply[struct{}]
}

func (m *startLoop) start(c *actors.Context) {
	err := m.begin(c)
	if !m.reply.Complete(struct{}{}, err) && err == nil { // the handler does not wait any more
		m.cancel(actors.ErrStopped)
	}
}

// quota names the client whose quota of the server's model a request uses.
func (r *request) quota() string {
	if id := r.principal.id(); id != "" {
		return "principal " + id
	}
	if r.session.in == nil { // over HTTP a client could open a session for each call
		return "anonymous"
	}
	return "session " + r.session.ref.Path()
}
