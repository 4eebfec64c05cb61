package tinygguf

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is a token's type in GGUF.
type kind int32

const (
	normal      kind = 1
	control     kind = 3
	userDefined kind = 4 // found as a whole inside any text
)

type token struct {
	text string // as the vocabulary stores it
	kind kind
}

// route is a text that a token of the prompt picks.
type route struct{ marker, start int }

// vocabulary is the tokens and what follows what.
type vocabulary struct {
	tokens []token
	byText map[string]int
	next   map[int]int // the token that follows; of most, nothing does
	forced map[int]int // what follows where that one is not allowed
	routes []route
	err    error // the first, of all that were added

	end, assistant, tool int
}

const (
	minPiece = 6  // bytes, so that an answer comes in several events
	endless  = -1 // in the place of the token behind a script
	blank    = "Ġ"
)

// storedBytes is how byte-level BPE writes bytes as characters: printable ones as they
// are, the others as those from U+0100 on.
var storedBytes = func() (table [256]string) {
	moved := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if printable := r > ' ' && r <= '~' || r >= 0xA1 && r != 0xAD; !printable {
			r = moved
			moved++
		}
		table[b] = string(r)
	}
	return table
}()

// stored is a text as the vocabulary stores it.
func stored(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString(storedBytes[text[i]])
	}
	return b.String()
}

// newVocabulary has the bytes and what structures a conversation.
func newVocabulary() *vocabulary {
	v := &vocabulary{byText: map[string]int{}, next: map[int]int{}, forced: map[int]int{}}
	for b := range 256 {
		v.add(storedBytes[b], normal)
	}
	v.add(blank+blank, normal) // what the one merge makes
	v.end = v.add("<|end|>", control)
	for _, role := range []string{"<|system|>", "<|tools|>", "<|user|>"} {
		v.add(role, control)
	}
	v.assistant = v.add("<|assistant|>", control)
	v.tool = v.add("<|tool|>", control)
	return v
}

// add adds a token; servers refuse a vocabulary that has one twice.
func (v *vocabulary) add(text string, k kind) int {
	if _, ok := v.byText[text]; (ok || text == "") && v.err == nil {
		v.err = fmt.Errorf("the token %q is there twice or empty", text)
	}
	v.tokens = append(v.tokens, token{text, k})
	v.byText[text] = len(v.tokens) - 1
	return len(v.tokens) - 1
}

func (v *vocabulary) route(marker int, text string, end int) {
	v.routes = append(v.routes, route{marker, v.script(text, end)})
}

// script adds a text whose pieces follow one another, and end, or the beginning, the
// last. It returns the first piece.
func (v *vocabulary) script(text string, end int) int {
	pieces, ok := v.cut(text)
	if !ok {
		if v.err == nil {
			v.err = fmt.Errorf("the text %.40q is in another: make it longer or different", text)
		}
		return end
	}
	first := len(v.tokens)
	for i, p := range pieces {
		id := v.add(stored(p), normal)
		if i > 0 {
			v.next[id-1] = id
		}
	}
	if end == endless {
		end = first
	}
	v.next[len(v.tokens)-1] = end
	return first
}

// cut cuts a text into pieces that are not in the vocabulary yet, each as short as that
// and minPiece allow. It reports false if not even the whole text is new.
func (v *vocabulary) cut(text string) ([]string, bool) {
	var pieces []string
	taken := map[string]bool{}
	known := func(p string) bool {
		_, old := v.byText[stored(p)]
		return old || taken[p]
	}
	for text != "" {
		n := 0
		for n < len(text) && (n < minPiece || known(text[:n])) {
			_, size := utf8.DecodeRuneInString(text[n:])
			n += size
		}
		piece := text[:n]
		text = text[n:]
		for known(piece) { // the end of the text: it goes with the pieces before
			if len(pieces) == 0 {
				return nil, false
			}
			last := len(pieces) - 1
			delete(taken, pieces[last])
			piece = pieces[last] + piece
			pieces = pieces[:last]
		}
		pieces = append(pieces, piece)
		taken[piece] = true
	}
	return pieces, len(pieces) > 0
}

func (v *vocabulary) texts() []string {
	all := make([]string, 0, len(v.tokens))
	for _, t := range v.tokens {
		all = append(all, t.text)
	}
	return all
}

func (v *vocabulary) types() []int32 {
	all := make([]int32, 0, len(v.tokens))
	for _, t := range v.tokens {
		all = append(all, int32(t.kind))
	}
	return all
}
