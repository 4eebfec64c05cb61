// Package shellwords splits command lines.
package shellwords

import (
	"errors"
	"strings"
)

// Split splits a command line as a shell splits words, without being one:
// blanks separate, quotes and backslashes keep them, and nothing is expanded.
func Split(line string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun, perhaps an empty one in quotes
		quote rune
		slash bool
	)
	for _, r := range line {
		switch {
		case slash:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			slash = false
		case r == '\\' && quote != '\'':
			slash, open = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("a quote is not closed")
	case slash:
		return nil, errors.New("it ends in a backslash")
	case open:
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}

// Join writes words as a person would type them for a POSIX shell.
func Join(words []string) string {
	parts := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n\"'\\$`;&|<>*?()[]{}~#!") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		parts[i] = word
	}
	return strings.Join(parts, " ")
}
