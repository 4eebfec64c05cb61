package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Codes for what is not the server's error; the first is that of the TypeScript SDK.
const (
	codeTimeout = -32001
	codeLocal   = -32000 // the connection, or the library, said no
)

// probe is one connection at a time and what was seen on all of them.
type probe struct {
	client *mcpclient.Client

	mu            sync.Mutex // the library's goroutines add to these
	notifications []message
	requests      []message
}

// answer carries out one line.
func (p *probe) answer(ctx context.Context, line []byte) any {
	var o order
	if err := mcp.Unmarshal(line, &o); err != nil {
		return failed(mcp.Errorf(mcp.CodeParse, "reading the line: %v", err))
	}
	var out any
	var err error
	switch o.Op {
	case "connect":
		out, err = p.connect(ctx, &o)
	case "request":
		out, err = p.request(ctx, &o)
	case "seen":
		out = p.seen()
	case "close":
		out, err = okay{true}, p.close()
	default:
		err = mcp.Errorf(mcp.CodeInvalidRequest, "unknown op %q", o.Op)
	}
	if err != nil {
		return failed(err)
	}
	return out
}

// failed says what went wrong.
func failed(err error) failure {
	if e, ok := errors.AsType[*mcp.Error](err); ok {
		return failure{Error: e}
	}
	code := int64(codeLocal)
	if _, late := errors.AsType[*call.TimeoutError](err); late || errors.Is(err, context.DeadlineExceeded) {
		code = codeTimeout
	}
	return failure{Error: mcp.Errorf(code, "%v", err)}
}

// bounded gives an order its time; none is the library's own.
func bounded(ctx context.Context, o *order) (context.Context, context.CancelFunc) {
	if o.TimeoutMs <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(o.TimeoutMs)*time.Millisecond)
}

func (p *probe) connect(ctx context.Context, o *order) (any, error) {
	if p.client != nil {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "it is connected: close first")
	}
	server, err := o.server()
	if err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx, o)
	defer cancel()
	client, err := mcpclient.Dial(ctx, server, p.options(o))
	if err != nil {
		return nil, err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	p.client = client
	return connected{true, info.Version, info.Server, info.Capabilities, info.Instructions}, nil
}

// server is the definition that a connect describes.
func (o *order) server() (mcpclient.Server, error) {
	s := mcpclient.Server{Name: "probed", Protocol: o.ProtocolVersion}
	switch o.Transport {
	case "stdio":
		if len(o.Command) == 0 {
			return s, mcp.Errorf(mcp.CodeInvalidParams, "there is no command")
		}
		s.Command, s.Args = o.Command[0], o.Command[1:]
		s.Env = o.environment()
	case "http", "sse":
		if o.URL == "" {
			return s, mcp.Errorf(mcp.CodeInvalidParams, "there is no url")
		}
		s.URL = o.URL
		s.Transport = o.Transport
	default:
		return s, mcp.Errorf(mcp.CodeInvalidParams, "unknown transport %q", o.Transport)
	}
	return s, nil
}

// environment takes away what the library would pass on, so that only what the order
// says is left.
func (o *order) environment() map[string]*string {
	if o.Env == nil {
		return nil
	}
	env := map[string]*string{}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		env[name] = nil
	}
	for name, value := range *o.Env {
		env[name] = &value
	}
	return env
}

// options offer a server everything, and answer it from the order.
func (p *probe) options(o *order) *mcpclient.Options {
	return &mcpclient.Options{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Observers: mcpclient.Observers{
			OnNotification: func(_, method string, params json.RawMessage) { p.add(&p.notifications, method, params) },
			OnRequest:      func(_, method string, params json.RawMessage) { p.add(&p.requests, method, params) },
		},
		AskOptions: mcpclient.AskOptions{
			Human:         o.human(),
			Sampler:       mcpclient.SamplerFunc(o.sample),
			SampleFreely:  true,
			SamplingTools: true,
			Roots:         append([]mcp.Root{}, o.Roots...),
			RootAvailable: func(string) bool { return true },
			OpenURL:       func(context.Context, string) error { return nil }, // the page is not for a person
		},
	}
}

// sample is the canned sample.
func (o *order) sample(context.Context, *mcpclient.SampleRequest) (*mcp.CreateMessageResult, error) {
	if o.Sampling == nil {
		return nil, errors.New("there is no canned sample")
	}
	return o.Sampling, nil
}

// human answers forms and pages with the canned answer.
func (o *order) human() mcpclient.Human {
	return mcpclient.HumanFunc(func(context.Context, *mcpclient.Ask) (*mcpclient.Decision, error) {
		if o.Elicitation == nil {
			return &mcpclient.Decision{Action: mcp.ActionDecline}, nil
		}
		return &mcpclient.Decision{Action: o.Elicitation.Action, Content: o.Elicitation.Content}, nil
	})
}

func (p *probe) add(to *[]message, method string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*to = append(*to, message{method, params})
}

func (p *probe) request(ctx context.Context, o *order) (any, error) {
	if p.client == nil {
		return nil, mcp.Errorf(mcp.CodeInvalidRequest, "it is not connected")
	}
	var opts mcpclient.CallOptions
	if o.Progress {
		opts.Progress = func(mcpclient.Progress) {} // asks for it; what comes is a notification like others
	}
	ctx, cancel := bounded(ctx, o)
	defer cancel()
	raw, err := p.client.Request(ctx, o.Method, o.Params, &opts)
	if err != nil {
		return nil, err
	}
	return result{true, raw}, nil
}

func (p *probe) seen() seen {
	p.mu.Lock()
	defer p.mu.Unlock()
	return seen{true, append([]message{}, p.notifications...), append([]message{}, p.requests...)}
}

// close ends the connection, if there is one.
func (p *probe) close() error {
	if p.client == nil {
		return nil
	}
	err := p.client.Close()
	p.client = nil
	return err
}
