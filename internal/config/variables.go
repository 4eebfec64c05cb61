package config

import (
	"fmt"
	"regexp"
)

var (
	providerName = nameForm{regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`), 64}
	headerName   = nameForm{regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"), 128}
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	variables    = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
)

// nameForm is what a name must look like. The length is not in the pattern: a pattern with a
// count is compiled to as many copies, at the start of every program.
type nameForm struct {
	pattern *regexp.Regexp
	max     int // bytes
}

func (f nameForm) fits(name string) bool { return len(name) <= f.max && f.pattern.MatchString(name) }

// minKey is the length from which a text is a key, and not a word like "none" that a local
// server is given.
const minKey = 8

// expand puts in ${NAME} and ${NAME:-what else}. A variable that is not set and has nothing
// else is an error that names it.
func expand(text string, getenv func(string) string) (string, error) {
	var missing string
	out := variables.ReplaceAllStringFunc(text, func(found string) string {
		m := variables.FindStringSubmatch(found)
		if value := getenv(m[1]); value != "" {
			return value
		}
		if m[2] == "" && missing == "" {
			missing = m[1]
		}
		return m[3]
	})
	if missing != "" {
		return "", fmt.Errorf("%s is not set; ${%[1]s:-} stands for nothing then", missing)
	}
	return out, nil
}

// hasLiteral reports whether more than names of variables stands in a text.
func hasLiteral(text string) bool { return variables.ReplaceAllString(text, "$3") != "" }
