package discover

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/llm/router"
)

// The vendors of whose models something is known.
const (
	atOpenAI    = "https://api.openai.com"
	atAnthropic = "https://api.anthropic.com"
	atGemini    = "https://generativelanguage.googleapis.com"
)

// OpenAI returns a server of OpenAI's kind. Its cards claim tools and JSON for every
// model. Images are claimed for the families of OpenAI, Anthropic and Google that take
// them, at those vendors only; JSON is not for Anthropic, which ignores the schema here.
func OpenAI(opts *openai.Options) Server {
	o := *cmp.Or(opts, new(openai.Options))
	return &openaiServer{opts: &o, client: openai.New("", &o)}
}

type openaiServer struct {
	opts   *openai.Options // a pointer: printed in the wrong way it shows no key
	client *openai.Client
}

func (s *openaiServer) Provider() string {
	provider, _, _ := strings.Cut(s.client.Name(), "/")
	return provider
}

func (s *openaiServer) String() string {
	if u, err := url.Parse(s.opts.BaseURL); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	if s.opts.BaseURL != "" {
		return "an invalid base URL"
	}
	return atOpenAI
}

// GoString returns what String does: %#v shows no key.
func (s *openaiServer) GoString() string { return s.String() }

func (s *openaiServer) List(ctx context.Context, limit int) ([]router.Card, error) {
	names, err := s.lister().Models(ctx)
	if err != nil {
		return nil, err
	}
	var cards []router.Card
	seen := make(map[string]bool)
	for _, name := range names {
		if s.String() == atGemini {
			name = strings.TrimPrefix(name, "models/")
		}
		if len(cards) < limit && !seen[name] && !(s.String() == atOpenAI && isOther(name)) {
			seen[name] = true
			cards = append(cards, s.Card(ctx, name))
		}
	}
	return cards, nil
}

// lister is the client that asks for the models. Anthropic's list is of its own API, with
// the key in another header.
func (s *openaiServer) lister() *openai.Client {
	if s.String() != atAnthropic {
		return s.client
	}
	o := *s.opts
	o.Header = o.Header.Clone()
	if o.Header == nil {
		o.Header = make(http.Header)
	}
	o.Header.Set("X-Api-Key", o.APIKey)
	o.Header.Set("Anthropic-Version", "2023-06-01")
	o.APIKey = ""
	return openai.New("", &o)
}

func (s *openaiServer) Card(_ context.Context, model string) router.Card {
	card := router.Card{Model: openai.New(model, s.opts), Tools: true, JSON: true}
	switch s.String() {
	case atOpenAI:
		card.Vision = hasPrefix(model, "gpt-4o", "gpt-4.1", "gpt-4-turbo", "gpt-5", "o3", "o4")
	case atAnthropic:
		card.Vision, card.JSON = hasPrefix(model, "claude-"), false
	case atGemini:
		card.Vision = hasPrefix(model, "gemini-")
	}
	return card
}

// isOther reports whether one of OpenAI's names is of a model for something else than chats.
func isOther(name string) bool {
	return slices.ContainsFunc([]string{
		"embedding", "whisper", "tts", "dall-e", "image", "audio", "realtime", "moderation", "transcribe", "sora", "davinci", "babbage", "instruct",
	}, func(word string) bool { return strings.Contains(name, word) })
}

func hasPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}
