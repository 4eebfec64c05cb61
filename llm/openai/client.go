package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/internal/rest"
)

// provider is the first half of a model's name, if the options have no other.
const provider = "openai"

const defaultBaseURL = "https://api.openai.com/v1"

// API is one of the two by which servers hold a conversation.
type API string

// The APIs.
const (
	// APIAuto is that which the model takes: for OpenAI's models from gpt-5.4 on the Responses API at OpenAI itself and at
	// Azure's newer API, chat completions for all others, and the other one as soon as a server refuses and says so.
	APIAuto      API = "auto"
	APIChat      API = "chat"      // chat completions
	APIResponses API = "responses" // the Responses API. Nothing is stored at the server
)

// Options changes how a client works; nil is the same as the zero value.
type Options struct {
	// Provider is the first half of a model's name and of errors. Empty means "openai".
	Provider string
	// BaseURL is the server, with or without the path /v1. Empty means OpenAI's.
	BaseURL string
	// APIKey is sent as a bearer token. Empty sends none. It never appears in an error.
	APIKey string
	// Organization and Project are OpenAI's headers of these names. Empty sends none.
	Organization, Project string
	// Header is sent with every request, beside what the API itself has. Nil sends nothing.
	Header http.Header
	// API is how the server is spoken to. Empty means [APIAuto].
	API API
	// APIVersion makes it speak as Azure's older API does: BaseURL is then the resource,
	// as in "https://NAME.openai.azure.com", models are its deployments, and the key goes
	// in the header api-key. Empty means the API that all others have, Azure's newer one
	// (…/openai/v1) among them.
	APIVersion string
	// HTTPClient sends the requests; redirects are never followed. Nil means one with
	// the settings of the default transport, which keeps more idle connections. A Timeout in it bounds whole turns: better use a context.
	HTTPClient *http.Client
	// FirstByteTimeout bounds the wait until an answer begins. Zero means 10 minutes,
	// since servers may queue and models may think; negative means no bound.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence inside an answer; comments count as signs of life.
	// Zero means 60 s; negative means no bound.
	IdleTimeout time.Duration
	// MaxTokensField is how the server calls the limit of the output, max_tokens or
	// max_completion_tokens. Empty means the second for OpenAI itself and for its
	// reasoning models, the first for all others, many of which ignore the second.
	MaxTokensField string
	// ReasoningEffort is sent as it is for requests that leave the effort to the model: for words that only this server
	// has. Empty leaves it to the server.
	ReasoningEffort string
	// OmitStreamOptions leaves out the request for token counts, for servers that
	// refuse it. Usage is then estimated.
	OmitStreamOptions bool
	// StrictTools asks that calls fit the schemas of their tools while they are made, for
	// those tools whose schema the server's strict mode takes: all properties required, no
	// others allowed. OpenAI holds to it where a turn has one call: see OneCall.
	StrictTools bool
	// OneCall asks for at most one call in a turn. False leaves it to the model, which
	// may make several in parallel.
	OneCall bool
	// MetadataKeys names the keys of a request's metadata that are sent. Nil sends none.
	MetadataKeys []string
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Provider = cmp.Or(d.Provider, provider)
	d.BaseURL = cmp.Or(d.BaseURL, defaultBaseURL)
	d.API = cmp.Or(d.API, APIAuto)
	if d.APIVersion == "" {
		d.BaseURL = withVersion(d.BaseURL)
	}
	d.HTTPClient = rest.Client(d.HTTPClient)
	d.FirstByteTimeout = cmp.Or(d.FirstByteTimeout, 10*time.Minute)
	d.IdleTimeout = cmp.Or(d.IdleTimeout, time.Minute)
	return d
}

// withVersion adds the path /v1 to a URL that has none.
func withVersion(base string) string {
	base = strings.TrimRight(base, "/")
	if u, err := url.Parse(base); err == nil && u.Path == "" {
		base += "/v1"
	}
	return base
}

// Client is one model of one server.
type Client struct {
	model   string
	opts    Options
	secrets []string                 // what no error shows
	tools   atomic.Pointer[toolList] // the last
	address *url.URL                 // the server; an empty one if the base URL is not valid
	learned learned                  // what its models want and refuse
}

var _ llm.Model = (*Client)(nil)

// New returns a client of the model. It sends nothing yet.
func New(model string, opts *Options) *Client {
	c := &Client{model: model, opts: opts.withDefaults()}
	u, err := url.Parse(c.opts.BaseURL)
	if err != nil { // an error of each turn
		u = new(url.URL)
	}
	c.address, c.learned.known = u, knownHabits(u.Hostname())
	c.secrets = rest.Secrets(c.opts.APIKey, c.opts.Header, u)
	return c
}

// FromEnv returns a client of the model with key and server from the environment:
// OPENAI_API_KEY, OPENAI_BASE_URL, OPENAI_ORG_ID or OPENAI_ORGANIZATION, and
// OPENAI_PROJECT_ID or OPENAI_PROJECT. An empty model means OPENAI_MODEL. It returns an error if there is neither a key nor a server, or no
// model.
func FromEnv(model string) (*Client, error) {
	opts := &Options{
		APIKey:       os.Getenv("OPENAI_API_KEY"),
		BaseURL:      os.Getenv("OPENAI_BASE_URL"),
		Organization: cmp.Or(os.Getenv("OPENAI_ORG_ID"), os.Getenv("OPENAI_ORGANIZATION")),
		Project:      cmp.Or(os.Getenv("OPENAI_PROJECT_ID"), os.Getenv("OPENAI_PROJECT")),
	}
	if opts.APIKey == "" && opts.BaseURL == "" {
		return nil, errors.New("neither OPENAI_API_KEY nor OPENAI_BASE_URL is set")
	}
	if model = cmp.Or(model, os.Getenv("OPENAI_MODEL")); model == "" {
		return nil, errors.New("no model is named and OPENAI_MODEL is not set")
	}
	return New(model, opts), nil
}

// Name returns the provider, a slash and the model.
func (c *Client) Name() string { return c.opts.Provider + "/" + c.model }

// String returns the model and the server, without credentials.
func (c *Client) String() string {
	u, err := url.Parse(c.opts.BaseURL)
	if err != nil {
		return c.Name()
	}
	return fmt.Sprintf("%s at %s", c.Name(), u.Host)
}

// GoString returns what String does: %#v shows no key.
func (c *Client) GoString() string { return c.String() }

// Stream runs one turn, as [llm.Model] has it.
func (c *Client) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if err := c.stream(ctx, req, func(ev llm.Event) bool { return yield(ev, nil) }); err != nil {
			yield(nil, err)
		}
	}
}

// stream runs one turn. It returns nil also if emit has returned false, which ends it.
func (c *Client) stream(ctx context.Context, req *llm.Request, emit func(llm.Event) bool) error {
	t := newTurn(c.origin(req), req, emit)
	err := c.ask(ctx, t)
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// maxAttempts bounds the requests for one turn: a server may refuse one thing after the other.
const maxAttempts = 8

// ask makes the request of a turn and passes its answer on.
func (c *Client) ask(ctx context.Context, t *turn) error {
	t.attempts++
	t.how = c.attempt(t.req)
	t.stops = rest.NewStops(c.stops(t.req, &t.how)[1])
	t.sent = t.req
	if t.how.tools {
		t.sent = rest.WithTools(t.req)
	}
	send, err := c.request(t.sent, &t.how)
	if err != nil {
		return t.origin.Wrap(err)
	}
	call := rest.NewCall(ctx, t.origin, rest.Limits{
		FirstByte: max(0, c.opts.FirstByteTimeout), Idle: max(0, c.opts.IdleTimeout),
	})
	defer call.Close()
	resp, err := c.send(call, t, send)
	var refused *llm.Error
	if errors.As(err, &refused) && t.attempts < maxAttempts && c.learned.add(t.origin.Model, t.how.after(refused, t.req), t.how.habits) {
		call.Drain()
		return c.ask(ctx, t)
	}
	if err != nil {
		return err
	}
	if err := t.read(call, resp.Header.Get("Content-Type")); err != nil {
		return err
	}
	if t.lacksCall() {
		call.Drain()
		if err := c.force(ctx, t); err != nil {
			return err
		}
	}
	if err := t.finish(); err != nil {
		return err
	}
	if !t.cut { // what a server says behind the cut is not wanted
		call.Drain()
	}
	return nil
}

// attempt says how a request is to be sent, by what is known of the model.
func (c *Client) attempt(req *llm.Request) attempt {
	model := cmp.Or(req.Model, c.model)
	a := attempt{api: c.opts.API, auto: c.opts.API == APIAuto}
	a.own, a.habits = c.own(model), c.learned.get(model)
	if a.auto {
		a.api = APIChat
		if a.responses || !a.chat && c.hasResponses() && generationOf(model).wantsResponses() {
			a.api = APIResponses
		}
	}
	return a
}

// hasResponses reports whether the server is one that is known to have the Responses API: OpenAI's own, or Azure's newer one.
func (c *Client) hasResponses() bool {
	host := c.address.Hostname()
	return c.isOpenAI() || c.opts.APIVersion == "" && (strings.HasSuffix(host, ".azure.com") || strings.HasSuffix(host, ".azure.us"))
}

func (c *Client) origin(req *llm.Request) rest.Origin {
	return rest.Origin{Provider: c.opts.Provider, Model: cmp.Or(req.Model, c.model), Secrets: c.secrets}
}

// send lets go-openai build and send the request, and takes the answer before it
// reads any of it.
func (c *Client) send(call *rest.Call, t *turn, request sender) (*http.Response, error) {
	doer := &doer{call: call, client: c, turn: t}
	config := openai.DefaultConfig(c.opts.APIKey)
	if c.opts.APIVersion != "" {
		config = openai.DefaultAzureConfig(c.opts.APIKey, c.opts.BaseURL)
		config.APIVersion = c.opts.APIVersion
		config.AzureModelMapperFunc = func(string) string { return url.PathEscape(t.origin.Model) }
	}
	config.BaseURL, config.OrgID, config.HTTPClient = c.opts.BaseURL, c.opts.Organization, doer
	err := request(call.Context(), openai.NewClientWithConfig(config))
	var bad *url.Error
	switch {
	case doer.err != nil:
		return nil, doer.err
	case errors.Is(err, errTaken):
		return doer.resp, nil
	case errors.As(err, &bad): // its text holds the URL, which may hold credentials
		return nil, t.origin.New(llm.ErrInvalidRequest, "the base URL is not valid")
	}
	return nil, t.origin.New(llm.ErrInvalidRequest, "%v", err)
}

// errTaken tells go-openai that there is no answer for it: its reader of streams is not
// used, see the package comment.
var errTaken = errors.New("the answer is read elsewhere")

// doer completes go-openai's request and hands it to a [rest.Call]. A field carries the
// outcome around go-openai, which would drop the headers of an error.
type doer struct {
	call   *rest.Call
	client *Client
	turn   *turn

	resp *http.Response
	err  error
}

func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if d.err = d.fill(req); d.err == nil {
		d.resp, d.err = d.call.Do(d.client.opts.HTTPClient, req)
	}
	return nil, errTaken
}

// fill sets the headers and the body of a request.
func (d *doer) fill(req *http.Request) error {
	maps.Copy(req.Header, d.client.opts.Header)
	if project := d.client.opts.Project; project != "" {
		req.Header.Set("OpenAI-Project", project)
	}
	head, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	body, err := d.client.splice(head, d.turn.sent, &d.turn.how)
	if err != nil {
		return d.turn.origin.Wrap(err)
	}
	body.Of(req)
	return nil
}
