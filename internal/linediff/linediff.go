// Package linediff compares two texts line by line.
package linediff

import "slices"

// Line is a line of a comparison: both have it (' '), only the old ('-') or only
// the new text ('+').
type Line struct {
	Mark rune
	Text string
}

// maxDiff bounds the table of a comparison. Texts beyond are shown one after the other.
const maxDiff = 1 << 20

// Lines compares two texts line by line and returns all lines of both.
func Lines(a, b []string) []Line {
	var head, tail []Line
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		head = append(head, Line{' ', a[0]})
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		tail = append(tail, Line{' ', a[len(a)-1]})
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	slices.Reverse(tail)
	return slices.Concat(head, changed(a, b), tail)
}

// changed compares what lies between the equal beginnings and ends.
func changed(a, b []string) (out []Line) {
	if (len(a)+1)*(len(b)+1) > maxDiff {
		return append(marked('-', a), marked('+', b)...)
	}
	// common[i*w+j] is how many lines a[i:] and b[j:] can keep.
	w := len(b) + 1
	common := make([]int32, (len(a)+1)*w)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i*w+j] = common[(i+1)*w+j+1] + 1
			} else {
				common[i*w+j] = max(common[(i+1)*w+j], common[i*w+j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			out = append(out, Line{' ', a[i]})
			i, j = i+1, j+1
		case common[(i+1)*w+j] >= common[i*w+j+1]:
			out = append(out, Line{'-', a[i]})
			i++
		default:
			out = append(out, Line{'+', b[j]})
			j++
		}
	}
	return append(append(out, marked('-', a[i:])...), marked('+', b[j:])...)
}

func marked(mark rune, lines []string) []Line {
	out := make([]Line, len(lines))
	for i, l := range lines {
		out[i] = Line{mark, l}
	}
	return out
}
