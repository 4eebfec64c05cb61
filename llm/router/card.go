package router

import (
	"cmp"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/llm"
)

// Card says what one model can do.
type Card struct {
	// Model is asked when the card is chosen. Its Name is the card's.
	Model llm.Model
	// Aliases are other names for it. Nil means that it has none.
	Aliases []string
	// What it takes, beside text, and what it can be asked for.
	Tools, Vision, Audio, Thinking, JSON bool
	// Context is the number of tokens that conversation and answer have together. Zero
	// means that it is not known, and then everything fits.
	Context int
	// Cost (1 is the cheapest), Speed and Intelligence say how good it is, from 0 to 1.
	// Zero means not stated: it is then ranked among the other cards by price and number
	// of parameters, and takes 0.5 where neither is known. Below zero counts as nothing.
	Cost, Speed, Intelligence float64
	// Parameters is the size of the model in billions. Zero means that it is not known.
	Parameters float64
	// Local says that it runs on a machine of the user, where tokens cost nothing.
	Local bool
	// Price is what the user says that it costs. Nil means that it is not known.
	Price *llm.Price
}

// Name is the model's name.
func (c *Card) Name() string { return c.Model.Name() }

// answers reports whether name is exactly one of the card's names: the whole one, the
// one without its provider, or an alias.
func (c *Card) answers(name string) bool {
	full := c.Name()
	_, bare, _ := strings.Cut(full, "/")
	return name == full || name == bare || name == bare+":latest" || name+":latest" == bare || slices.Contains(c.Aliases, name)
}

// value is how good a card is in each respect, from 0 to 1.
type value struct{ cost, speed, intelligence float64 }

// values are those of all cards: what is stated, and what follows from the rank.
func values(cards []Card) []value {
	all := make([]value, len(cards))
	cost := ranks(cards, priceKey)
	size := ranks(cards, sizeKey)
	for i := range cards {
		c := &cards[i]
		all[i] = value{
			cost:         stated(c.Cost, 1-cost[i]),
			speed:        stated(c.Speed, 1-size[i]),
			intelligence: stated(c.Intelligence, size[i]),
		}
	}
	return all
}

// stated is what a card says of itself, or else its rank.
func stated(says, rank float64) float64 {
	if says == 0 {
		return rank
	}
	return unit(says)
}

// unit brings a number from outside into 0 to 1; what is none becomes 0.
func unit(x float64) float64 {
	if x > 0 {
		return min(x, 1)
	}
	return 0
}

// key orders cards: by class, and by amount within one. Cards without a key are not ranked.
type key struct {
	known  bool
	class  int
	amount float64
}

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.class, other.class), cmp.Compare(k.amount, other.amount))
}

// priceKey orders by price, input and output together.
func priceKey(c *Card) key {
	switch {
	case c.Price != nil:
		return key{known: true, amount: float64(c.Price.Input) + float64(c.Price.Output)}
	case c.Local:
		return key{known: true}
	}
	return key{}
}

// sizeKey orders by what makes a model able and slow. A price above zero ranks over a
// number of parameters: what is sold is mostly larger than what runs at home.
func sizeKey(c *Card) key {
	switch {
	case c.Price != nil && c.Price.Input+c.Price.Output > 0:
		return key{known: true, class: 1, amount: float64(c.Price.Input) + float64(c.Price.Output)}
	case c.Parameters > 0:
		return key{known: true, amount: c.Parameters}
	}
	return key{}
}

// ranks gives each card its place by a key, from 0 for the least to 1; equal keys have
// equal places, and 0.5 is for cards without a key and where there is nothing to compare.
func ranks(cards []Card, keyOf func(*Card) key) []float64 {
	var order []key
	for i := range cards {
		if k := keyOf(&cards[i]); k.known {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, key.compare)
	order = slices.Compact(order)
	all := make([]float64, len(cards))
	for i := range cards {
		all[i] = 0.5
		if k := keyOf(&cards[i]); k.known && len(order) > 1 {
			place, _ := slices.BinarySearchFunc(order, k, key.compare)
			all[i] = float64(place) / float64(len(order)-1)
		}
	}
	return all
}
