package ollama

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// provider is the first half of a model's name, if the options have no other.
const provider = "ollama"

// Options changes how a client works; nil is the same as the zero value.
type Options struct {
	// Provider is the first half of a model's name and of errors. Empty means "ollama".
	Provider string
	// Host is the server: "host", "host:port" or a URL. Empty means the environment's
	// OLLAMA_HOST, or else 127.0.0.1:11434.
	Host string
	// APIKey is sent as a bearer token, for a proxy in front of the server. Empty sends
	// none. It never appears in an error.
	APIKey string
	// Header is sent with every request. Nil sends nothing.
	Header http.Header
	// HTTPClient sends the requests; redirects are never followed. Nil means one with
	// the settings of the default transport, which keeps more idle connections. It should have no timeout for headers: Ollama sends them
	// only when it has loaded the model and the request's turn has come.
	HTTPClient *http.Client
	// IdleTimeout bounds the silence inside an answer. Zero means 60 s; negative means
	// no bound. Until the first byte only the context bounds the wait.
	IdleTimeout time.Duration
	// ContextLength is the number of tokens of the model's window, num_ctx. Zero leaves
	// it to the server. Ollama drops old messages that do not fit, silently.
	ContextLength int
	// KeepAlive is how long the model stays loaded after a request. Zero leaves it to
	// the server; negative means for ever.
	KeepAlive time.Duration
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Provider = cmp.Or(d.Provider, provider)
	d.HTTPClient = rest.Client(d.HTTPClient)
	d.IdleTimeout = cmp.Or(d.IdleTimeout, time.Minute)
	return d
}

// Client is one model of one server.
type Client struct {
	model  string
	server *Server

	mu    sync.Mutex
	blind map[string]bool // by model: whether it takes no images; filled when first needed
}

var _ llm.Model = (*Client)(nil)

// New returns a client of the model. It sends nothing yet. A host that is not valid
// makes every turn an error.
func New(model string, opts *Options) *Client { return NewServer(opts).Model(model) }

// Name returns the provider, a slash and the model.
func (c *Client) Name() string { return c.server.opts.Provider + "/" + c.model }

// String returns the model and the server, without credentials.
func (c *Client) String() string { return c.Name() + " at " + c.server.String() }

// GoString returns what String does: %#v shows no key.
func (c *Client) GoString() string { return c.String() }

// Capabilities asks the server what the model can do.
func (c *Client) Capabilities(ctx context.Context) (Capabilities, error) {
	return c.server.Capabilities(ctx, c.model)
}

// Stream runs one turn, as [llm.Model] has it.
//
// Ollama has no tool choice. "none" is done by sending no tools, but to a conversation with calls; "required" is asked for
// in words, and if no call came, once more with a grammar that allows nothing else: the
// text of the first answer has been passed on by then.
func (c *Client) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		emit := func(ev llm.Event) bool { return yield(ev, nil) }
		var err error
		if req.ToolChoice == llm.ToolChoiceRequired {
			err = c.required(ctx, req, emit)
		} else {
			err = c.turn(ctx, req, emit)
		}
		if err != nil && !errors.Is(err, errLeft) {
			yield(nil, err)
		}
	}
}

// turn runs an ordinary turn.
func (c *Client) turn(ctx context.Context, req *llm.Request, emit func(llm.Event) bool) error {
	t := newTurn(c.origin(req), req, emit)
	if err := c.ask(ctx, req, t); err != nil {
		return err
	}
	return t.finish()
}

// ask makes the request of a turn and gives its answer to t. It asks again for less where the model does not think as it is told to.
func (c *Client) ask(ctx context.Context, req *llm.Request, t *turn) error {
	for {
		body, err := c.request(ctx, req)
		if err != nil {
			return t.origin.Wrap(err)
		}
		err = c.chat(ctx, body, t)
		var refused *llm.Error
		switch {
		case !errors.As(err, &refused):
			return err
		case rest.RefusesHistory(refused, req):
			req = rest.WithTools(req)
		case !c.server.thinks.learn(body.Model, refused, body.Think):
			return err
		}
	}
}

// request makes the body of a turn.
func (c *Client) request(ctx context.Context, req *llm.Request) (*chatRequest, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if hasImages(req) && c.isBlind(ctx, cmp.Or(req.Model, c.model)) {
		var err error
		if req, err = withoutImages(req); err != nil {
			return nil, err
		}
	}
	return c.server.request(c.model, req)
}

// isBlind reports whether the model takes no images: Ollama would drop them and answer
// all the same. A server that does not say is given them.
func (c *Client) isBlind(ctx context.Context, model string) bool {
	c.mu.Lock()
	blind, known := c.blind[model]
	c.mu.Unlock()
	if known {
		return blind
	}
	capabilities, err := c.server.Capabilities(ctx, model)
	if err != nil || !capabilities.Completion { // older servers tell no capabilities
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind == nil {
		c.blind = make(map[string]bool)
	}
	c.blind[model] = !capabilities.Vision
	return !capabilities.Vision
}

func (c *Client) origin(req *llm.Request) rest.Origin {
	return c.server.origin(cmp.Or(req.Model, c.model))
}

// chat sends a request and gives each line of the answer to t.
func (c *Client) chat(ctx context.Context, body *chatRequest, t *turn) error {
	call := rest.NewCall(ctx, t.origin, rest.Limits{Idle: max(0, c.server.opts.IdleTimeout)})
	defer call.Close()
	if err := c.server.send(call, http.MethodPost, "api/chat", body); err != nil {
		return err
	}
	err := t.read(call)
	if err == nil {
		call.Drain()
	}
	return err
}

// send makes a request; its answer is then read from call.
func (s *Server) send(call *rest.Call, method, path string, body any) error {
	if s.err != nil {
		return s.origin("").Wrap(fmt.Errorf("%w: %w", llm.ErrInvalidRequest, s.err))
	}
	req, err := http.NewRequestWithContext(call.Context(), method, s.url.JoinPath(path).String(), nil)
	if err != nil {
		return s.origin("").New(llm.ErrInvalidRequest, "the host is not valid") // err would show the URL
	}
	maps.Copy(req.Header, s.opts.Header)
	if body != nil {
		encoded, err := bodyOf(body)
		if err != nil {
			return s.origin("").Wrap(fmt.Errorf("%w: %w", llm.ErrInvalidRequest, err))
		}
		encoded.Of(req)
		req.Header.Set("Content-Type", "application/json")
	}
	if s.opts.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.opts.APIKey)
	}
	_, err = call.Do(s.opts.HTTPClient, req)
	return err
}

func bodyOf(body any) (rest.Body, error) {
	if chat, ok := body.(*chatRequest); ok {
		return chat.body()
	}
	data, err := json.Marshal(body)
	return rest.Body{Tail: data}, err
}
