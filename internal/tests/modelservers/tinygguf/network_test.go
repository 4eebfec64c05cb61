package tinygguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// model is a file that was read back, with what a server would do with it: the tests'
// own reader and arithmetic, which share nothing with the writer.
type model struct {
	settings map[string]any
	tensors  map[string]matrixF32
	tokens   []string
	byText   map[string]int
}

type matrixF32 struct {
	cols, rows int
	data       []float32
	set        []weight // those of data that are not zero, which are few
}

type weight struct {
	row, col int
	value    float64
}

func (m matrixF32) row(i int) []float32 { return m.data[i*m.cols : (i+1)*m.cols] }

// times is the product with a vector.
func (m matrixF32) times(x []float64) []float64 {
	out := make([]float64, m.rows)
	for _, w := range m.set {
		out[w.row] += w.value * x[w.col]
	}
	return out
}

// reader reads little-endian values and panics at the end of the file.
type reader struct{ *bytes.Reader }

func get[T any](r reader) T {
	var v T
	if err := binary.Read(r, binary.LittleEndian, &v); err != nil {
		panic(err)
	}
	return v
}

func (r reader) text() string {
	data := make([]byte, get[uint64](r))
	if _, err := io.ReadFull(r, data); err != nil {
		panic(err)
	}
	return string(data)
}

func (r reader) value(kind uint32) any {
	switch kind {
	case 4:
		return get[uint32](r)
	case 5:
		return get[int32](r)
	case 6:
		return get[float32](r)
	case 7:
		return get[bool](r)
	case 8:
		return r.text()
	case 9:
		kind, n := get[uint32](r), get[uint64](r)
		list := make([]any, n)
		for i := range list {
			list[i] = r.value(kind)
		}
		return list
	}
	panic(fmt.Sprintf("a value of kind %d", kind))
}

// read reads a file of version 3 to its last byte.
func read(t *testing.T, data []byte) *model {
	t.Helper()
	r := reader{bytes.NewReader(data)}
	if magic := get[[4]byte](r); string(magic[:]) != "GGUF" || get[uint32](r) != 3 {
		t.Fatalf("the file begins with %q", data[:8])
	}
	m := &model{settings: map[string]any{}, tensors: map[string]matrixF32{}, byText: map[string]int{}}
	count, settings := get[uint64](r), get[uint64](r)
	for range settings {
		key := r.text()
		m.settings[key] = r.value(get[uint32](r))
	}
	type entry struct {
		name   string
		sizes  []uint64
		offset uint64
	}
	var entries []entry
	for range count {
		e := entry{name: r.text(), sizes: make([]uint64, get[uint32](r))}
		for i := range e.sizes {
			e.sizes[i] = get[uint64](r)
		}
		if kind := get[uint32](r); kind != 0 {
			t.Fatalf("tensor %s: got type %d, want float32", e.name, kind)
		}
		e.offset = get[uint64](r)
		entries = append(entries, e)
	}
	begin := (uint64(len(data)-r.Len()) + 31) / 32 * 32
	end := uint64(0)
	for _, e := range entries {
		if e.offset != end {
			t.Errorf("tensor %s: got offset %d, want %d", e.name, e.offset, end)
		}
		x := matrixF32{cols: int(e.sizes[0]), rows: 1}
		if len(e.sizes) == 2 {
			x.rows = int(e.sizes[1])
		}
		x.data = make([]float32, x.cols*x.rows)
		if err := binary.Read(bytes.NewReader(data[begin+e.offset:]), binary.LittleEndian, x.data); err != nil {
			t.Fatalf("tensor %s: %v", e.name, err)
		}
		for i, v := range x.data {
			if v != 0 {
				x.set = append(x.set, weight{i / x.cols, i % x.cols, float64(v)})
			}
		}
		m.tensors[e.name] = x
		end = (e.offset + uint64(4*len(x.data)) + 31) / 32 * 32
	}
	if begin+end != uint64(len(data)) {
		t.Errorf("the file has %d bytes, want %d", len(data), begin+end)
	}
	for i, text := range m.settings["tokenizer.ggml.tokens"].([]any) {
		m.tokens = append(m.tokens, text.(string))
		if _, ok := m.byText[text.(string)]; ok {
			t.Errorf("the token %q is there twice", text)
		}
		m.byText[text.(string)] = i
	}
	return m
}

// tokenize finds the control and user-defined tokens; all else is bytes.
func (m *model) tokenize(text string) []int {
	var ids []int
	types := m.settings["tokenizer.ggml.token_type"].([]any)
next:
	for text != "" {
		for id, token := range m.tokens {
			if types[id].(int32) != 1 && strings.HasPrefix(text, token) {
				ids, text = append(ids, id), text[len(token):]
				continue next
			}
		}
		ids, text = append(ids, int(text[0])), text[1:]
	}
	return ids
}

// text is what tokens stand for.
func (m *model) text(ids []int) string {
	bytesOf := map[string]byte{}
	for b := range 256 {
		bytesOf[m.tokens[b]] = byte(b)
	}
	var out []byte
	for _, id := range ids {
		for _, r := range m.tokens[id] {
			out = append(out, bytesOf[string(r)])
		}
	}
	return string(out)
}

func norm(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / math.Sqrt(sum/float64(len(x))+1e-6)
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v * scale
	}
	return out
}

// turn rotates the pairs of each head by the position.
func turn(x []float64, position int) []float64 {
	out := make([]float64, len(x))
	for i := 0; i < len(x); i += 2 {
		angle := float64(position) * math.Pow(1e6, -float64(i%64)/64)
		sin, cos := math.Sincos(angle)
		out[i], out[i+1] = x[i]*cos-x[i+1]*sin, x[i]*sin+x[i+1]*cos
	}
	return out
}

// logits are those behind the last of the tokens.
func (m *model) logits(ids []int) []float64 {
	embedded := func(id int) []float64 {
		x := make([]float64, 0, m.tensors["token_embd.weight"].cols)
		for _, v := range m.tensors["token_embd.weight"].row(id) {
			x = append(x, float64(v))
		}
		return x
	}
	last := len(ids) - 1
	stream := embedded(ids[last])
	width := len(stream)
	query := turn(m.tensors["blk.0.attn_q.weight"].times(norm(stream)), last)
	mixed := make([]float64, width)
	keys, values := make([][]float64, len(ids)), make([][]float64, len(ids))
	known := map[int][2][]float64{} // by token, before the turn
	for i, id := range ids {
		kv, ok := known[id]
		if !ok {
			x := norm(embedded(id))
			kv = [2][]float64{m.tensors["blk.0.attn_k.weight"].times(x), m.tensors["blk.0.attn_v.weight"].times(x)}
			known[id] = kv
		}
		keys[i], values[i] = turn(kv[0], i), kv[1]
	}
	for h := 0; h < width; h += 64 {
		scores, top := make([]float64, len(ids)), math.Inf(-1)
		for i, key := range keys {
			for d := h; d < h+64; d++ {
				scores[i] += query[d] * key[d] / 8
			}
			top = max(top, scores[i])
		}
		sum := 0.0
		for i := range scores {
			scores[i] = math.Exp(scores[i] - top)
			sum += scores[i]
		}
		for i, value := range values {
			for d := h; d < h+64; d++ {
				mixed[d] += scores[i] / sum * value[d]
			}
		}
	}
	for i, v := range m.tensors["blk.0.attn_output.weight"].times(mixed) {
		stream[i] += v
	}
	return m.tensors["output.weight"].times(norm(stream))
}

// answer decodes greedily what follows a prompt, at most so many tokens. Tokens that
// allowed refuses are never taken.
func (m *model) answer(prompt string, limit int, allowed func(so string, next int) bool) (text string, ended bool) {
	ids := m.tokenize(prompt)
	begin := len(ids)
	end := int(m.settings["tokenizer.ggml.eos_token_id"].(uint32))
	for range limit {
		best, top := -1, math.Inf(-1)
		for id, v := range m.logits(ids) {
			if v > top && (allowed == nil || allowed(m.text(ids[begin:]), id)) {
				best, top = id, v
			}
		}
		if best == end {
			return m.text(ids[begin:]), true
		}
		ids = append(ids, best)
	}
	return m.text(ids[begin:]), false
}
