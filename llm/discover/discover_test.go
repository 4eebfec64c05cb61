package discover_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/memhttp"
	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/discover"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/ollama"
	"github.com/troupe-dev/troupe/llm/openai"
	"github.com/troupe-dev/troupe/llm/router"
)

func serve(t *testing.T, h http.Handler) *http.Client {
	t.Helper()
	return memhttp.Serve(t, h)
}

// plain sends what is meant for https over http: nothing leaves the memory.
func plain(c *http.Client) *http.Client {
	inner := c.Transport
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.URL.Scheme = "http"
		return inner.RoundTrip(r)
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOllama(t *testing.T) {
	s := llmtest.NewServer()
	s.Models = []string{"tiny:latest", "other"}
	s.Capabilities = []string{"completion", "tools"}
	server := discover.Ollama(&ollama.Options{Host: "127.0.0.1", HTTPClient: serve(t, s), ContextLength: 2048})
	cards, err := server.List(t.Context(), 10)
	if err != nil || len(cards) != 2 {
		t.Fatalf("List: got %+v and error %v", cards, err)
	}
	c := cards[0]
	if c.Name() != "ollama/tiny:latest" || !c.Tools || c.Vision || !c.JSON || !c.Local || c.Context != 2048 || c.Parameters != 0.001 {
		t.Errorf("List: got %+v", c)
	}
	if cards, err := server.List(t.Context(), 1); err != nil || len(cards) != 1 {
		t.Errorf("List of one: got %+v and error %v", cards, err)
	}
	s.Capabilities = []string{"embedding"}
	if cards, err := server.List(t.Context(), 10); err != nil || len(cards) != 0 {
		t.Errorf("List of models that embed: got %+v and error %v", cards, err)
	}
	// What an older server, or none, does not say is claimed.
	s.Capabilities = []string{}
	if c := server.Card(t.Context(), "tiny"); !c.Tools || !c.Vision {
		t.Errorf("Card without capabilities: got %+v", c)
	}
	if f := s.Failures(); len(f) > 0 {
		t.Errorf("the server found %q", f)
	}
}

func TestOpenAI(t *testing.T) {
	s := llmtest.NewServer()
	s.Models = []string{"gpt-5-mini", "text-embedding-3-small", "gpt-5-mini"}
	tests := []struct {
		base         string
		want         []string
		vision, json bool
	}{
		{"http://llm.test", []string{"gpt-5-mini", "text-embedding-3-small"}, false, true},
		{"", []string{"gpt-5-mini"}, true, true},
	}
	for _, tt := range tests {
		server := discover.OpenAI(&openai.Options{Provider: "box", BaseURL: tt.base, HTTPClient: plain(serve(t, s))})
		cards, err := server.List(t.Context(), 10)
		var got []string
		for _, c := range cards {
			got = append(got, strings.TrimPrefix(c.Name(), "box/"))
		}
		if err != nil || !slices.Equal(got, tt.want) || cards[0].Vision != tt.vision || cards[0].JSON != tt.json || !cards[0].Tools {
			t.Errorf("List of %s: got %q (%+v) and error %v, want %q", server, got, cards, err, tt.want)
		}
	}
}

// The two vendors of whom more is known: how Anthropic is asked for its list, and how
// Google names its models.
func TestVendors(t *testing.T) {
	var header http.Header
	list := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		fmt.Fprint(w, `{"data":[{"id":"models/gemini-2.5-flash"},{"id":"claude-sonnet-4-5"}]}`)
	})
	names := func(base string) []string {
		server := discover.OpenAI(&openai.Options{Provider: "v", BaseURL: base, APIKey: "the-key", HTTPClient: plain(serve(t, list))})
		cards, err := server.List(t.Context(), 10)
		if err != nil {
			t.Errorf("List of %s: %v", base, err)
		}
		var got []string
		for _, c := range cards {
			got = append(got, fmt.Sprintf("%s vision=%v json=%v", c.Name(), c.Vision, c.JSON))
		}
		return got
	}
	want := []string{"v/models/gemini-2.5-flash vision=false json=false", "v/claude-sonnet-4-5 vision=true json=false"}
	if got := names("https://api.anthropic.com/v1"); !slices.Equal(got, want) {
		t.Errorf("Anthropic: got %q, want %q", got, want)
	}
	if header.Get("X-Api-Key") != "the-key" || header.Get("Anthropic-Version") == "" || header.Get("Authorization") != "" {
		t.Errorf("Anthropic: got header %v", header)
	}
	want = []string{"v/gemini-2.5-flash vision=true json=true", "v/claude-sonnet-4-5 vision=false json=true"}
	if got := names("https://generativelanguage.googleapis.com/v1beta/openai"); !slices.Equal(got, want) {
		t.Errorf("Gemini: got %q, want %q", got, want)
	}
}

// fake is a server that counts how often it is asked.
type fake struct {
	name  string
	asked int
	list  func(ctx context.Context) ([]router.Card, error)
}

func (f *fake) Provider() string                                { return f.name }
func (f *fake) String() string                                  { return "fake://" + f.name }
func (f *fake) Card(_ context.Context, name string) router.Card { return card(f.name + "/" + name) }
func (f *fake) List(ctx context.Context, _ int) ([]router.Card, error) {
	f.asked++
	return f.list(ctx)
}

func card(name string) router.Card { return router.Card{Model: llmtest.Script().Named(name)} }

func TestDiscover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good := &fake{name: "good", list: func(context.Context) ([]router.Card, error) { return []router.Card{card("good/a")}, nil }}
		away := &fake{name: "away", list: func(context.Context) ([]router.Card, error) { return nil, llm.ErrUnreachable }}
		silent := &fake{name: "silent", list: func(ctx context.Context) ([]router.Card, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		f := discover.New([]discover.Server{away, silent, good}, nil)
		began := time.Now()
		found := f.Discover(t.Context())
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("Discover took %v, want the 5s that one server may take", took)
		}
		if !errors.Is(found[0].Err, llm.ErrUnreachable) || !strings.Contains(fmt.Sprint(found[1].Err), "no answer within 5s") || len(found[2].Cards) != 1 {
			t.Errorf("Discover: got %+v", found)
		}
		if cards, err := discover.Cards(found); err != nil || len(cards) != 1 {
			t.Errorf("Cards: got %+v and error %v", cards, err)
		}
		if _, err := discover.Cards(found[:2]); !errors.Is(err, llm.ErrUnreachable) || !strings.Contains(err.Error(), "fake://away") {
			t.Errorf("Cards of none: got error %v", err)
		}
		// What was good is kept for a while, what failed is tried again.
		found[2].Cards[0].Tools = true
		if again := f.Discover(t.Context()); again[2].Cards[0].Tools || good.asked != 1 || away.asked != 2 {
			t.Errorf("Discover again: got %+v, asked %d and %d times", again, good.asked, away.asked)
		}
		time.Sleep(time.Minute)
		f.Discover(t.Context())
		if good.asked != 2 {
			t.Errorf("Discover after a minute: asked %d times, want 2", good.asked)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		cancel(cause)
		time.Sleep(time.Minute)
		for _, got := range f.Discover(ctx) {
			if !errors.Is(got.Err, cause) {
				t.Errorf("Discover after a cancel: got %+v, want %v", got, cause)
			}
		}
	})
}

// SECA-27
func TestServersShowNoKeys(t *testing.T) {
	const canary = "sk-canary-0123456789"
	for _, s := range []discover.Server{
		discover.OpenAI(&openai.Options{BaseURL: "https://user:" + canary + "@x.example/v1", APIKey: canary, Header: http.Header{"X-Key": {canary}}}),
		discover.Ollama(&ollama.Options{Host: "https://user:" + canary + "@x.example", APIKey: canary}),
	} {
		c := s.Card(canceled(t), "m")
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			shown := fmt.Sprintf(verb, s) + fmt.Sprintf(verb, c) + fmt.Sprintf(verb, &c) + fmt.Sprintf(verb, discover.New([]discover.Server{s}, nil))
			if strings.Contains(shown, canary) {
				t.Errorf("%s of %T shows the key", verb, s)
			}
		}
	}
}

// canceled is a context that sends nothing.
func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
