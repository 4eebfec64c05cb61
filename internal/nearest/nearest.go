// Package nearest finds the names that were meant by one that there is not.
package nearest

import "strings"

// Name returns the known name that was probably meant, or "". At most a third of the
// letters differ, and case and the kind of dash do not count.
func Name(name string, known []string) string {
	best, least := "", 1+max(1, len(name)/3)
	if len(name) > 64 {
		return ""
	}
	folded := fold(name)
	for _, k := range known {
		if d := distance(folded, fold(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to change, add, leave out or exchange with a neighbour.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "-", "_") }
