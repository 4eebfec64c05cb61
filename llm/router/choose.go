package router

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// maxHints bounds the hints that are looked at: they come from MCP servers.
const maxHints = 32

// Candidate is a model that can run a turn.
type Candidate struct {
	Model  llm.Model
	Reason string  // why it is here, in words
	Score  float64 // by the priorities; zero where there are none

	card *Card
}

// Choose returns the models for a need, the one to ask first and then those to ask if it
// fails. The error is a [*NoModelError], and then there are none.
func (r *Router) Choose(n Need) ([]Candidate, error) {
	able, err := r.able(&n)
	if err != nil {
		return nil, err
	}
	ranked := r.rank(able, &n)
	if r.fallback == nil {
		return ranked, nil
	}
	chosen := ranked[:1]
	for _, i := range r.fallback {
		c := &r.cards[i]
		if slices.Contains(able, i) && !slices.ContainsFunc(chosen, func(have Candidate) bool { return have.card == c }) {
			chosen = append(slices.Clip(chosen), Candidate{Model: c.Model, Reason: "the next of the fallbacks", card: c})
		}
	}
	return chosen, nil
}

// able returns the cards that lack nothing, in their order.
func (r *Router) able(n *Need) ([]int, error) {
	var able []int
	var lacks []Lack
	for i := range r.cards {
		if l := r.cards[i].lacks(n); l != nil {
			lacks = append(lacks, *l)
		} else {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		return nil, &NoModelError{Need: *n, Lacks: lacks}
	}
	return able, nil
}

// weighed is a card among those that are ranked.
type weighed struct {
	index   int
	blind   bool // would have to do without an image that a tool returned
	cramped bool // has no room for all of the answer
	unliked bool // the hint is not for it
	other   bool // not the default, where that counts
	score   float64
	match   string // how the hint fits
}

func (a weighed) compare(b weighed) int {
	return cmp.Or(
		compareBool(a.blind, b.blind),
		compareBool(a.cramped, b.cramped),
		compareBool(a.unliked, b.unliked),
		cmp.Compare(b.score, a.score),
		compareBool(a.other, b.other),
		cmp.Compare(a.index, b.index),
	)
}

// compareBool puts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// rank orders the able cards and gives each its reason.
func (r *Router) rank(able []int, n *Need) []Candidate {
	p := n.Prefer
	if p == nil {
		p = new(llm.Preferences)
	}
	cost, speed, intelligence := unit(p.Cost), unit(p.Speed), unit(p.Intelligence)
	weighing := cost+speed+intelligence > 0
	hint := r.hint(able, p.Hints)
	all := make([]weighed, 0, len(able))
	for _, i := range able {
		c, v := &r.cards[i], r.values[i]
		w := weighed{index: i, blind: n.Images && !c.Vision, cramped: !c.roomy(n), other: i != r.first && !weighing}
		if hint != "" {
			w.match = c.match(hint)
			w.unliked = w.match == ""
		}
		if weighing {
			w.score = cost*v.cost + speed*v.speed + intelligence*v.intelligence
		}
		all = append(all, w)
	}
	slices.SortFunc(all, weighed.compare)
	out := make([]Candidate, len(all))
	for i, w := range all {
		c := &r.cards[w.index]
		out[i] = Candidate{Model: c.Model, Score: w.score, Reason: r.reason(&w, n, p, hint, len(all)), card: c}
	}
	return out
}

// hint is the first of the hints that one of the cards matches, "" if there is none.
func (r *Router) hint(able []int, hints []string) string {
	for _, hint := range hints[:min(len(hints), maxHints)] {
		if hint == "" {
			continue
		}
		if slices.ContainsFunc(able, func(i int) bool { return r.cards[i].match(hint) != "" }) {
			return hint
		}
	}
	return ""
}

// match says by what a hint fits the card: a part of its name, its provider, or an alias
// of which it is a part or that is a part of it. "" means that it does not. Of the
// provider a part is not enough: "llama" does not mean all that Ollama has.
func (c *Card) match(hint string) string {
	hint = strings.ToLower(hint)
	full := strings.ToLower(c.Name())
	provider, name, ok := strings.Cut(full, "/")
	if !ok {
		provider, name = "", full
	}
	switch {
	case strings.Contains(name, hint), strings.Contains(hint, "/") && strings.Contains(full, hint):
		return "its name"
	case hint == provider:
		return "its provider"
	}
	for _, alias := range c.Aliases {
		lower := strings.ToLower(alias)
		if lower != "" && (strings.Contains(lower, hint) || strings.Contains(hint, lower)) {
			return fmt.Sprintf("its alias %q", alias)
		}
	}
	return ""
}

// reason says in words why a card stands where it does.
func (r *Router) reason(w *weighed, n *Need, p *llm.Preferences, hint string, able int) string {
	var parts []string
	switch {
	case n.Model != "":
		parts = append(parts, "the request names it")
	case able == 1 && len(r.cards) == 1:
		parts = append(parts, "the only model")
	case able == 1:
		parts = append(parts, "the only model that can do it")
	}
	if hint != "" {
		if w.unliked {
			parts = append(parts, fmt.Sprintf("the hint %.40q is for others", hint))
		} else {
			parts = append(parts, fmt.Sprintf("the hint %.40q fits %s", hint, w.match))
		}
	}
	if weights := priorities(p); weights != "" {
		parts = append(parts, fmt.Sprintf("%.2f by %s", w.score, weights))
	} else if !w.other && able > 1 {
		parts = append(parts, "the default")
	}
	if w.blind {
		parts = append(parts, "takes no images, of which a tool has returned one")
	}
	switch room := r.cards[w.index].Context - n.Input; {
	case w.cramped && room > 0:
		parts = append(parts, fmt.Sprintf("has room for about %d tokens of answer", room))
	case w.cramped:
		parts = append(parts, fmt.Sprintf("may be too small for about %d tokens of conversation", n.Input))
	}
	if len(parts) == 0 {
		parts = append(parts, "the next in the registry")
	}
	return strings.Join(parts, ", ")
}

// priorities names the weights that are not zero.
func priorities(p *llm.Preferences) string {
	var parts []string
	for _, w := range []struct {
		name  string
		value float64
	}{{"cost", p.Cost}, {"speed", p.Speed}, {"intelligence", p.Intelligence}} {
		if x := unit(w.value); x > 0 {
			parts = append(parts, fmt.Sprintf("%s %.4g", w.name, x))
		}
	}
	return strings.Join(parts, " and ")
}
