package nearest

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"github.com/troupe-dev/troupe/internal/clip"
)

// compared is how many bytes of a name count: the distance of two names takes the product of their lengths.
const compared = 64

// Names returns the n known names that are most like a name, the most like first. Words count before letters, for
// names are made of them: read_file is meant by files__read_file, and search by github__search_issues. What has no
// word in common with the name is ordered by [Name]'s distance.
func Names(name string, known []string, n int) []string {
	type candidate struct {
		name             string
		shared, distance int
	}
	name = clip.Head(name, compared)
	wanted, folded := words(name), fold(name)
	all := make([]candidate, len(known))
	for i, k := range known {
		short := clip.Head(k, compared)
		all[i] = candidate{k, shared(wanted, words(short)), distance(folded, fold(short))}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(-cmp.Compare(a.shared, b.shared), cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	names := make([]string, min(n, len(all)))
	for i := range names {
		names[i] = all[i].name
	}
	return names
}

// words splits a name at what is neither letter nor digit, and before capitals that follow a small letter.
func words(name string) []string {
	var b strings.Builder
	last := ' '
	for _, c := range name {
		if unicode.IsUpper(c) && unicode.IsLower(last) || !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			b.WriteByte(' ')
		}
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			b.WriteRune(unicode.ToLower(c))
		}
		last = c
	}
	return strings.Fields(b.String())
}

// minPrefix is how many letters a word has to have to stand for a longer one that begins with it.
const minPrefix = 3

// shared is how many letters the words have that are in both lists: a long word says more than a short one. A word
// counts as the longer one that it begins, such as issue and issues.
func shared(wanted, has []string) (letters int) {
	for _, w := range wanted {
		most := 0
		for _, h := range has {
			short := min(len(w), len(h))
			if w == h || short >= minPrefix && w[:short] == h[:short] {
				most = max(most, short)
			}
		}
		letters += most
	}
	return letters
}
