package tinygguf

import "math"

// The shape of the network, as far as it does not depend on the spec.
const (
	headSize    = 64
	feedForward = 64 // a layer that does nothing, which loaders want all the same
	ropeBase    = 1e6
	normEpsilon = 1e-6
)

// Position is told by pairs of the head's dimensions that turn with it, the later the
// slower: [2i] and [2i+1] by ropeBase^(-2i/headSize) a token.
const (
	steady = 62 // turns by 1.5e-6: whatever is here does not know where it is
	slow   = 38 // turns by 2.7e-4: a clock that does not go round within the context
)

// How strongly things are preferred: logits, or what becomes of them.
const (
	matchScore   = 4500.0 // of the head, for a marker over everything else
	recencyScore = 3600.0 // of the head, against a marker that is far back
	routeGain    = 4.0    // of the marker's text in the stream, where a token's own is 1
	nextScore    = 60.0   // for what follows in a script
	forcedScore  = 40.0   // for what follows where the script's is not allowed
	routeScore   = 25.0   // for the first piece of a picked text, times routeGain
	endScore     = 18.0   // for the end of the answer, anywhere
)

// closers ends JSON soon: what closes a value comes before the end of the answer, that
// before whatever would begin another.
var closers = map[string]float64{`"`: 20, "}": 16, "]": 15, "0": 10, ",": 3, " ": -8, "\n": -9, "\t": -10}

// dims says which dimension of the stream means what:
//
//	0              one, always
//	1 … 32         the two halves of a byte, one of sixteen each
//	33 …           each token that is not a byte
//	behind them    each route, set by the attention head
type dims struct {
	tokens, routes int
	width          int // a multiple of headSize
	gain           float64
}

const (
	firstHalf  = 1
	secondHalf = 17
	firstToken = 33
)

func newDims(v *vocabulary) dims {
	d := dims{tokens: len(v.tokens) - 256, routes: len(v.routes)}
	used := firstToken + d.tokens + d.routes
	d.width = (used + headSize - 1) / headSize * headSize
	// What the norm makes of a token's two ones.
	d.gain = math.Sqrt(float64(d.width) / 2)
	return d
}

func (d dims) token(id int) int { return firstToken + id - 256 }
func (d dims) route(i int) int  { return firstToken + d.tokens + i }

// matrix has a row for each output.
type matrix struct {
	cols int
	data []float32
}

func newMatrix(cols, rows int) matrix { return matrix{cols, make([]float32, cols*rows)} }

func (m matrix) set(row, col int, v float64) { m.data[row*m.cols+col] = float32(v) }

// tensors makes the weights.
func tensors(v *vocabulary, d dims) []tensor {
	embedding, output := tables(v, d)
	query, key, value, out := head(v, d)
	ones := newMatrix(d.width, 1)
	for i := range ones.data {
		ones.data[i] = 1
	}
	one := func(name string, m matrix) tensor { return tensor{name, []int{m.cols}, m.data} }
	two := func(name string, m matrix) tensor { return tensor{name, []int{m.cols, len(m.data) / m.cols}, m.data} }
	return []tensor{
		two("token_embd.weight", embedding),
		one("blk.0.attn_norm.weight", ones),
		two("blk.0.attn_q.weight", query),
		two("blk.0.attn_k.weight", key),
		two("blk.0.attn_v.weight", value),
		two("blk.0.attn_output.weight", out),
		one("blk.0.ffn_norm.weight", ones),
		two("blk.0.ffn_gate.weight", newMatrix(d.width, feedForward)),
		two("blk.0.ffn_up.weight", newMatrix(d.width, feedForward)),
		two("blk.0.ffn_down.weight", newMatrix(feedForward, d.width)),
		one("output_norm.weight", ones),
		two("output.weight", output),
	}
}

// tables are how tokens come into the stream, and what follows from what is in it.
func tables(v *vocabulary, d dims) (embedding, output matrix) {
	embedding, output = newMatrix(d.width, len(v.tokens)), newMatrix(d.width, len(v.tokens))
	for id := range v.tokens {
		embedding.set(id, 0, 1)
		if id < 256 {
			embedding.set(id, firstHalf+id>>4, 1)
			embedding.set(id, secondHalf+id&15, 1)
		} else {
			embedding.set(id, d.token(id), 1)
		}
	}
	for id, next := range v.next {
		output.set(next, d.token(id), nextScore/d.gain)
	}
	for id, next := range v.forced {
		output.set(next, d.token(id), forcedScore/d.gain)
	}
	for i, r := range v.routes {
		output.set(r.start, d.route(i), routeScore/d.gain)
	}
	for text, score := range closers {
		output.set(v.byText[stored(text)], 0, score/d.gain)
	}
	output.set(v.end, 0, endScore/d.gain)
	return embedding, output
}

// head is the attention head that carries the last marker's route to <|assistant|>.
func head(v *vocabulary, d dims) (query, key, value, out matrix) {
	query, key = newMatrix(d.width, d.width), newMatrix(d.width, d.width)
	value, out = newMatrix(d.width, d.width), newMatrix(d.width, d.width)
	// Both factors of a score have this part; the server divides by the root of the size.
	match := math.Sqrt(matchScore*math.Sqrt(headSize)) / d.gain
	recency := math.Sqrt(recencyScore*math.Sqrt(headSize)) / d.gain
	query.set(steady, d.token(v.assistant), match)
	query.set(slow, d.token(v.assistant), recency)
	for i, r := range v.routes {
		key.set(steady, d.token(r.marker), match)
		// A quarter turn from the query: the score is minus the sine of the distance.
		key.set(slow+1, d.token(r.marker), -recency)
		value.set(i, d.token(r.marker), 1/d.gain)
		out.set(d.route(i), i, routeGain)
	}
	return query, key, value, out
}
