package discover

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/router"
)

// Ollama returns an Ollama server. Its cards have what /api/tags and /api/show say; models
// that only embed have none. The most recently changed model comes first.
//
// The context of a card is what the model was made for, or [ollama.Options.ContextLength] if
// that is less: without the latter a server may grant less than the card says.
func Ollama(opts *ollama.Options) Server {
	o := *cmp.Or(opts, new(ollama.Options))
	return &ollamaServer{server: ollama.NewServer(&o), opts: &o}
}

type ollamaServer struct {
	server *ollama.Server
	opts   *ollama.Options // a pointer: printed in the wrong way it shows no key
}

func (s *ollamaServer) Provider() string {
	provider, _, _ := strings.Cut(s.server.Model("").Name(), "/")
	return provider
}

func (s *ollamaServer) String() string { return s.server.String() }

// GoString returns what String does: %#v shows no key.
func (s *ollamaServer) GoString() string { return s.String() }

func (s *ollamaServer) List(ctx context.Context, limit int) ([]router.Card, error) {
	models, err := s.server.Models(ctx)
	if err != nil {
		return nil, err
	}
	cards := make([]router.Card, 0, min(len(models), limit))
	for _, m := range models {
		if len(cards) == limit {
			break
		}
		can, err := s.server.Capabilities(ctx, m.Name)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil && can.Embedding && !can.Completion:
			continue
		}
		card := s.card(m.Name, &can)
		card.Parameters = parameters(m.ParameterSize)
		cards = append(cards, card)
	}
	return cards, nil
}

func (s *ollamaServer) Card(ctx context.Context, model string) router.Card {
	can, _ := s.server.Capabilities(ctx, model) // what is not known is claimed
	return s.card(model, &can)
}

// card makes a card of what the server said of a model, which may be nothing.
func (s *ollamaServer) card(model string, can *ollama.Capabilities) router.Card {
	card := router.Card{
		Model: s.server.Model(model), JSON: true, Local: s.local(),
		Tools: can.Tools, Vision: can.Vision, Thinking: can.Thinking, Context: can.ContextLength,
	}
	if !can.Completion && !can.Embedding { // an older server, or none: a turn will show it
		card.Tools, card.Vision, card.Thinking = true, true, true
	}
	if window := s.opts.ContextLength; window > 0 && (card.Context == 0 || window < card.Context) {
		card.Context = window
	}
	return card
}

// local reports whether the server is on this machine or in a private network.
func (s *ollamaServer) local() bool {
	u, err := url.Parse(s.server.String())
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate())
}

// parameters reads a size such as "8.2B", "270M" or "1.3T", in billions. Zero is not known.
func parameters(size string) float64 {
	if size == "" {
		return 0
	}
	unit, ok := map[byte]float64{'K': 1e-6, 'M': 1e-3, 'B': 1, 'T': 1e3}[size[len(size)-1]]
	n, err := strconv.ParseFloat(strings.TrimSpace(size[:len(size)-1]), 64)
	if !ok || err != nil || !(n > 0) || n > 1e9 {
		return 0
	}
	return n * unit
}
