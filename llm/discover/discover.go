// Package discover asks servers which models they have and makes cards of the answers, for
// package router.
//
//	found := discover.New([]discover.Server{
//		discover.Ollama(nil),
//		discover.OpenAI(&openai.Options{BaseURL: "http://127.0.0.1:8080"}),
//	}, nil).Discover(ctx)
//	cards, err := discover.Cards(found)
//
// Ollama says what each model can do. Servers of OpenAI's kind say nothing but names: their
// cards claim tools and JSON, which nearly all have, and nothing that would be sent in
// vain, such as images. What the user knows better is set in the cards afterwards.
//
// A server that does not answer is no failure of the others. Everything is bounded in time
// and number, no goroutine is started, and all methods may be called at the same time.
package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-dev/troupe/llm/router"
)

// Server is a server of models.
type Server interface {
	// Provider is the first half of the names of its models.
	Provider() string
	// String says where it is, without credentials.
	String() string
	// List returns cards of the models that it has, at most so many.
	List(ctx context.Context, limit int) ([]router.Card, error)
	// Card returns the card of one model. It asks the server only if the server tells
	// what a model can do, and where it does not answer claims what most models can: a turn will show it.
	Card(ctx context.Context, model string) router.Card
}

// Options changes how a Finder works; nil is the same as the zero value.
type Options struct {
	// Timeout bounds the wait for one server. Zero means 5 s.
	Timeout time.Duration
	// MaxModels bounds the cards of one server. Zero means 256.
	MaxModels int
	// Keep is how long an answer is good for. Zero means a minute; negative keeps none.
	Keep time.Duration
}

func (o *Options) withDefaults() Options {
	d := *cmp.Or(o, new(Options))
	d.Timeout = cmp.Or(d.Timeout, 5*time.Second)
	d.MaxModels = cmp.Or(d.MaxModels, 256)
	d.Keep = cmp.Or(d.Keep, time.Minute)
	return d
}

// Found is what one server said.
type Found struct {
	Server Server
	Cards  []router.Card // in the server's order
	Err    error         // why there are none
}

// Finder asks servers for their models and keeps what they said for a while.
type Finder struct {
	opts    Options
	servers []Server
	turn    chan struct{} // holds one value; who has taken it may touch what follows
	kept    []answer      // one for each server
}

// answer is what a server said, and when. Failures are not kept.
type answer struct {
	found Found
	at    time.Time
}

// New returns a Finder of the servers.
func New(servers []Server, opts *Options) *Finder {
	f := &Finder{opts: opts.withDefaults(), servers: slices.Clone(servers), turn: make(chan struct{}, 1), kept: make([]answer, len(servers))}
	f.turn <- struct{}{}
	return f
}

// Discover asks each server, one after the other, unless its last answer is still good. The
// results are in the order of the servers. When ctx ends the rest fail with its cause.
func (f *Finder) Discover(ctx context.Context) []Found {
	all := make([]Found, len(f.servers))
	select {
	case <-f.turn:
		defer func() { f.turn <- struct{}{} }()
	case <-ctx.Done():
		for i, s := range f.servers {
			all[i] = Found{Server: s, Err: context.Cause(ctx)}
		}
		return all
	}
	for i, s := range f.servers {
		if kept := f.kept[i]; kept.found.Server == nil || time.Since(kept.at) >= f.opts.Keep {
			found := f.ask(ctx, s)
			f.kept[i] = answer{found, time.Now()}
			if found.Err != nil {
				f.kept[i] = answer{}
			}
			all[i] = found
			continue
		}
		all[i] = f.kept[i].found
	}
	for i := range all {
		all[i].Cards = slices.Clone(all[i].Cards)
	}
	return all
}

// ask asks one server.
func (f *Finder) ask(ctx context.Context, s Server) Found {
	if ctx.Err() != nil {
		return Found{Server: s, Err: context.Cause(ctx)}
	}
	bounded, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, fmt.Errorf("no answer within %v", f.opts.Timeout))
	defer cancel()
	cards, err := s.List(bounded, f.opts.MaxModels)
	return Found{Server: s, Cards: cards, Err: err}
}

// Cards joins what the servers said, in their order. The error joins theirs, and is nil
// if there is a card.
func Cards(found []Found) ([]router.Card, error) {
	var cards []router.Card
	var errs []error
	for _, f := range found {
		cards = append(cards, f.Cards...)
		if f.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.Server, f.Err))
		}
	}
	if len(cards) > 0 {
		return cards, nil
	}
	return nil, cmp.Or(errors.Join(errs...), errors.New("no server has a model"))
}
