package hostconfig

import (
	"fmt"
	"strings"
)

const maxEnvFile = 1 << 20

// parseDotenv reads KEY=value lines: comments, an optional export, 'literal'
// and "escaped" values. It expands nothing and accepts nothing else; an error
// names the line, never the value.
func parseDotenv(data string) (map[string]string, error) {
	vars := map[string]string{}
	data = strings.TrimPrefix(data, "\uFEFF")
	n := 0
	for line := range strings.Lines(data) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "export "); ok {
			line = strings.TrimSpace(rest)
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.TrimSpace(key)
		if !ok || !variable.MatchString(key) {
			return nil, fmt.Errorf("line %d: must have the form KEY=value", n)
		}
		value, err := dotenvValue(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", n, key, err)
		}
		vars[key] = value
	}
	return vars, nil
}

func dotenvValue(s string) (string, error) {
	if strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("the value has a NUL character")
	}
	if s == "" || s[0] != '\'' && s[0] != '"' {
		if i := strings.Index(" "+s, " #"); i >= 0 {
			s = strings.TrimSpace(s[:i])
		}
		return s, nil
	}
	quote := s[0]
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			if rest := strings.TrimSpace(s[i+1:]); rest != "" && rest[0] != '#' {
				return "", fmt.Errorf("there is text behind the closing quote")
			}
			return b.String(), nil
		case c == '\\' && quote == '"' && i+1 < len(s):
			i++
			b.WriteString(dotenvEscape(s[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the closing quote is missing")
}

func dotenvEscape(c byte) string {
	switch c {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case '"', '\\', '$':
		return string(c)
	}
	return `\` + string(c)
}
