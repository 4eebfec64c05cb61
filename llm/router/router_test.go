package router_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/llm"
	"github.com/troupe-dev/troupe/llm/llmtest"
	"github.com/troupe-dev/troupe/llm/router"
	"github.com/troupe-dev/troupe/mcp"
)

func card(name string) router.Card {
	return router.Card{Model: llmtest.Loop(llmtest.Say(name)).Named(name), Tools: true, JSON: true}
}

// three are a small local model, a middle one and a large one that is sold.
func three() []router.Card {
	small, middle, large := card("ollama/qwen3:1b"), card("ollama/llama3.3"), card("openai/gpt-5")
	small.Local, middle.Local = true, true
	small.Parameters, middle.Parameters = 1.2, 70
	large.Price = &llm.Price{Input: llm.Unit, Output: 10 * llm.Unit}
	small.Context, middle.Context, large.Context = 1000, 8000, 100_000
	large.Vision = true
	return []router.Card{small, middle, large}
}

func open(t *testing.T, cards []router.Card, opts *router.Options) *router.Router {
	t.Helper()
	r, err := router.New(cards, opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return r
}

func names(cs []router.Candidate) string {
	var out []string
	for _, c := range cs {
		_, bare, _ := strings.Cut(c.Model.Name(), "/")
		out = append(out, bare)
	}
	return strings.Join(out, " ")
}

// SAMP-09: hints in order as parts of names, then priorities, and the advice binds nobody.
func TestChoose(t *testing.T) {
	tests := []struct {
		name   string
		need   router.Need
		want   string // of all candidates
		reason string // of the first
	}{
		{"nothing asked", router.Need{}, "qwen3:1b llama3.3 gpt-5", "the default"},
		{"priorities of zero", router.Need{Prefer: &llm.Preferences{}}, "qwen3:1b llama3.3 gpt-5", "the default"},
		{"vision", router.Need{Vision: true}, "gpt-5", "the only model that can do it"},
		{"an image of a tool", router.Need{Images: true}, "gpt-5 qwen3:1b llama3.3", "next in the registry"},
		{"context", router.Need{Input: 5000}, "llama3.3 gpt-5", "next in the registry"},
		{"room for the answer", router.Need{Input: 900, Output: 500}, "llama3.3 gpt-5 qwen3:1b", "next in the registry"},
		{"nearly too much", router.Need{Input: 1200}, "llama3.3 gpt-5 qwen3:1b", "next in the registry"},
		{"hint", router.Need{Prefer: &llm.Preferences{Hints: []string{"GPT"}}}, "gpt-5 qwen3:1b llama3.3", `hint "GPT" fits its name`},
		{"second hint", router.Need{Prefer: &llm.Preferences{Hints: []string{"", "nobody", "llama"}}}, "llama3.3 qwen3:1b gpt-5", `hint "llama" fits its name`},
		{"no hint fits", router.Need{Prefer: &llm.Preferences{Hints: []string{"nobody"}}}, "qwen3:1b llama3.3 gpt-5", "the default"},
		{"hint by alias", router.Need{Prefer: &llm.Preferences{Hints: []string{"claude-3-sonnet-20240307"}}}, "llama3.3 qwen3:1b gpt-5", `its alias "Claude-3-Sonnet"`},
		{"part of an alias", router.Need{Prefer: &llm.Preferences{Hints: []string{"sonnet"}}}, "llama3.3 qwen3:1b gpt-5", `its alias "Claude-3-Sonnet"`},
		{"hint for what can not do it", router.Need{Vision: true, Prefer: &llm.Preferences{Hints: []string{"qwen"}}}, "gpt-5", "the only model that can do it"},
		{"intelligence", router.Need{Prefer: &llm.Preferences{Intelligence: 1}}, "gpt-5 llama3.3 qwen3:1b", "1.00 by intelligence 1"},
		{"speed", router.Need{Prefer: &llm.Preferences{Speed: 0.5}}, "qwen3:1b llama3.3 gpt-5", "0.50 by speed 0.5"},
		{"cost: a tie is decided by the order", router.Need{Prefer: &llm.Preferences{Cost: 1}}, "qwen3:1b llama3.3 gpt-5", "1.00 by cost 1"},
		{"hint before priorities", router.Need{Prefer: &llm.Preferences{Hints: []string{"ollama"}, Intelligence: 1}}, "llama3.3 qwen3:1b gpt-5", "0.50 by intelligence"},
		{"beyond bounds", router.Need{Prefer: &llm.Preferences{Cost: math.NaN(), Speed: -3, Intelligence: math.Inf(1)}}, "gpt-5 llama3.3 qwen3:1b", "intelligence 1"},
		{"by name", router.Need{Model: "openai/gpt-5"}, "gpt-5", "the request names it"},
		{"by bare name", router.Need{Model: "gpt-5"}, "gpt-5", "the request names it"},
		{"by alias", router.Need{Model: "Claude-3-Sonnet"}, "llama3.3", "the request names it"},
		{"allowed", router.Need{Prefer: &llm.Preferences{Allowed: []string{"gpt-5", "llama3.3"}}}, "llama3.3 gpt-5", "next in the registry"},
	}
	r := open(t, three(), &router.Options{Aliases: map[string][]string{"Claude-3-Sonnet": {"llama3.3"}}})
	for _, tt := range tests {
		got, err := r.Choose(tt.need)
		if err != nil || names(got) != tt.want || !strings.Contains(got[0].Reason, tt.reason) {
			t.Errorf("%s: Choose: got %s (%+v) and error %v, want %s because of %q", tt.name, names(got), got, err, tt.want, tt.reason)
		}
	}
}

func TestChooseNothing(t *testing.T) {
	r := open(t, three(), nil)
	tests := []struct {
		need router.Need
		want error
		text string
	}{
		{router.Need{Audio: true}, llm.ErrUnsupported, "ollama/qwen3:1b takes no audio"},
		{router.Need{Vision: true, Input: 200_000}, llm.ErrContextLength, "openai/gpt-5 has a context of 100000 tokens, and the conversation has about 200000"},
		{router.Need{Audio: true, Input: 5000}, llm.ErrUnsupported, "takes no audio and has a context of 1000"},
		{router.Need{Model: "nobody"}, llm.ErrNotFound, `is not "nobody"`},
		{router.Need{Prefer: &llm.Preferences{Allowed: []string{}}}, llm.ErrUnsupported, "is not allowed here"},
	}
	for _, tt := range tests {
		got, err := r.Choose(tt.need)
		none, ok := errors.AsType[*router.NoModelError](err)
		if got != nil || !ok || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || len(none.Lacks) != 3 {
			t.Errorf("Choose(%+v): got %v and error %v, want %v with %q", tt.need, got, err, tt.want, tt.text)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name  string
		cards []router.Card
		opts  *router.Options
		want  string
	}{
		{"none", nil, nil, "at least one"},
		{"no model", []router.Card{{}}, nil, "has no model"},
		{"twice", []router.Card{card("a/b"), card("a/b")}, nil, `the model "a/b"`},
		{"default", []router.Card{card("a/b")}, &router.Options{Default: "c"}, `the default "c"`},
		{"fallback", []router.Card{card("a/b")}, &router.Options{Fallback: []string{"c"}}, `the fallback "c"`},
		{"alias", []router.Card{card("a/b")}, &router.Options{Aliases: map[string][]string{"x": {"c"}}}, `the alias "x"`},
	}
	for _, tt := range tests {
		if r, err := router.New(tt.cards, tt.opts); err == nil || r != nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: New: got %v and error %v, want an error with %q", tt.name, r, err, tt.want)
		}
	}
}

// Hints come from strangers: so many of them are looked at, and no more.
func TestHintsAreBounded(t *testing.T) {
	r := open(t, []router.Card{card("x/a"), card("x/b")}, nil)
	for hints, want := range map[int]string{31: "b a", 32: "a b"} { // in front of the one that fits
		p := &llm.Preferences{Hints: append(slices.Repeat([]string{"nobody"}, hints), "x/b")}
		got, err := r.Choose(router.Need{Prefer: p})
		if err != nil || names(got) != want {
			t.Errorf("Choose after %d hints: got %s and error %v, want %s", hints, names(got), err, want)
		}
	}
}

// An alias does not stand for another one: whether there was one already would depend on
// the order of a map.
func TestAliasOfAnAlias(t *testing.T) {
	for range 50 {
		r, err := router.New([]router.Card{card("a/b")}, &router.Options{Aliases: map[string][]string{"x": {"y"}, "y": {"b"}}})
		if err == nil {
			t.Fatalf("New: got %v, want an error each time", r)
		}
	}
}

func TestStatedValues(t *testing.T) {
	a, b := card("x/a"), card("x/b")
	a.Parameters, b.Parameters = 1, 2
	a.Intelligence = 0.9
	b.Intelligence = -1 // nothing, and said so
	r := open(t, []router.Card{b, a}, nil)
	got, err := r.Choose(router.Need{Prefer: &llm.Preferences{Intelligence: 1}})
	if err != nil || names(got) != "a b" || got[0].Score != 0.9 || got[1].Score != 0 {
		t.Errorf("Choose: got %+v and error %v, want a with 0.9 and b with 0", got, err)
	}
}

func TestFallbackList(t *testing.T) {
	r := open(t, three(), &router.Options{Default: "llama3.3", Fallback: []string{"gpt-5", "llama3.3"}})
	for _, tt := range []struct {
		need router.Need
		want string
	}{
		{router.Need{}, "llama3.3 gpt-5"},
		{router.Need{Vision: true}, "gpt-5"},
		{router.Need{Model: "qwen3:1b"}, "qwen3:1b"},
		{router.Need{Prefer: &llm.Preferences{Speed: 1}}, "qwen3:1b gpt-5 llama3.3"},
	} {
		if got, err := r.Choose(tt.need); err != nil || names(got) != tt.want {
			t.Errorf("Choose(%+v): got %s and error %v, want %s", tt.need, names(got), err, tt.want)
		}
	}
	if got, _ := open(t, three(), &router.Options{Fallback: []string{}}).Choose(router.Need{}); names(got) != "qwen3:1b" {
		t.Errorf("Choose without fallbacks: got %s, want one", names(got))
	}
}

func TestLookups(t *testing.T) {
	r := open(t, three(), &router.Options{Default: "llama3.3"})
	if r.Name() != "ollama/llama3.3" || r.ContextLength() != 8000 {
		t.Errorf("Name and ContextLength: got %s and %d", r.Name(), r.ContextLength())
	}
	if p, ok := r.Price("gpt-5"); !ok || p.Input != llm.Unit {
		t.Errorf("Price(gpt-5): got %v, %v", p, ok)
	}
	for _, name := range []string{"ollama/llama3.3", "nobody"} {
		if p, ok := r.Price(name); ok {
			t.Errorf("Price(%s): got %v, want none", name, p)
		}
	}
	if c, ok := r.Card("llama3.3:latest"); !ok || c.Name() != "ollama/llama3.3" {
		t.Errorf("Card(llama3.3:latest): got %v, %v", c.Model, ok)
	}
}

func TestNeedOf(t *testing.T) {
	image := &mcp.ImageContent{Data: []byte("x"), MIMEType: "image/png"}
	req := &llm.Request{
		Messages: []llm.Message{
			{Role: llm.RoleUser, Content: mcp.Contents{mcp.Text("look"), image, &mcp.AudioContent{}}},
			{Role: llm.RoleAssistant, Content: mcp.Contents{&mcp.ToolUseContent{ID: "1", Name: "f"}}},
			{Role: llm.RoleUser, Content: mcp.Contents{&mcp.ToolResultContent{ToolUseID: "1", Content: mcp.Contents{image}}}},
		},
		Tools: []llm.Tool{{Name: "f"}}, Schema: []byte(`{}`), MaxTokens: 7, Model: "m",
	}
	got := router.NeedOf(req)
	if !got.Tools || !got.Vision || !got.Audio || !got.JSON || !got.Images || got.Output != 7 || got.Input < 2000 || got.Model != "m" {
		t.Errorf("NeedOf: got %+v", got)
	}
	req.ToolChoice = llm.ToolChoiceNone
	if router.NeedOf(req).Tools {
		t.Error("NeedOf: tools that must not be called are no need")
	}
}

// TestProperties: the same cards and needs give the same choice; nobody is chosen who lacks
// a need; and nobody is left out who lacks nothing.
func TestProperties(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		check(t, rnd)
	}
}

func FuzzChoose(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(1 << 40))
	f.Fuzz(func(t *testing.T, seed uint64) { check(t, rand.New(rand.NewPCG(seed, seed))) })
}

func check(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	flip := func() bool { return rnd.IntN(3) > 0 }
	cards := make([]router.Card, 1+rnd.IntN(6))
	for i := range cards {
		cards[i] = router.Card{
			Model: llmtest.Script().Named(fmt.Sprintf("p%d/m%d", i%2, i)),
			Tools: flip(), Vision: flip(), Audio: flip(), JSON: flip(), Local: flip(),
			Context: 1000 * rnd.IntN(4), Parameters: float64(rnd.IntN(4)), Cost: rnd.Float64() - 0.3,
			Aliases: []string{fmt.Sprintf("alias%d", rnd.IntN(3))},
		}
		if flip() {
			cards[i].Price = &llm.Price{Input: llm.Money(rnd.IntN(3)) * llm.Unit}
		}
	}
	opts := &router.Options{Default: cards[rnd.IntN(len(cards))].Name()}
	if flip() {
		opts.Fallback = []string{cards[rnd.IntN(len(cards))].Name()}
	}
	need := router.Need{
		Tools: flip(), Vision: !flip(), Audio: !flip(), JSON: flip(), Images: flip(), Input: rnd.IntN(3500), Output: rnd.IntN(3000),
		Prefer: &llm.Preferences{Hints: []string{"m9", "alias1", "P1"}[rnd.IntN(3):], Cost: rnd.Float64() - 0.5, Speed: rnd.Float64() - 0.5},
	}
	if !flip() {
		need.Prefer.Allowed = []string{cards[0].Name(), "alias2"}
	}
	able := 0
	for _, c := range cards {
		if can(&c, &need) {
			able++
		}
	}
	first, err := open(t, cards, opts).Choose(need)
	second, _ := open(t, cards, opts).Choose(need)
	same := slices.EqualFunc(first, second, func(a, b router.Candidate) bool {
		return a.Model == b.Model && a.Reason == b.Reason && a.Score == b.Score
	})
	if !same {
		t.Fatalf("Choose(%+v) twice: got %+v and %+v", need, first, second)
	}
	if (err == nil) != (able > 0) || opts.Fallback == nil && len(first) != able || len(first) > able {
		t.Fatalf("Choose(%+v) of %+v: got %d candidates and error %v, want %d", need, cards, len(first), err, able)
	}
	for _, c := range first {
		i := slices.IndexFunc(cards, func(card router.Card) bool { return card.Model == c.Model })
		if !can(&cards[i], &need) || c.Reason == "" {
			t.Fatalf("Choose(%+v): got %+v, which lacks a need or has no reason", need, c)
		}
	}
}

// can says the same as the router, in the simplest way.
func can(c *router.Card, n *router.Need) bool {
	allowed := n.Prefer.Allowed == nil || slices.Contains(n.Prefer.Allowed, c.Name()) || slices.Contains(n.Prefer.Allowed, c.Aliases[0])
	return allowed && (c.Tools || !n.Tools) && (c.Vision || !n.Vision) && (c.Audio || !n.Audio) && (c.JSON || !n.JSON) &&
		(c.Context == 0 || n.Input <= c.Context+c.Context/4)
}
