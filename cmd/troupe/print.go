package main

import (
	"encoding/json"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// printJSON writes v to stdout, indented, with a newline.
func (p *program) printJSON(v any) error {
	enc := json.NewEncoder(p.stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows in columns; the first row is the heading.
func (p *program) table(rows [][]string) error {
	w := tabwriter.NewWriter(p.stdout, 0, 4, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = plain(row[i])
		}
		if _, err := w.Write([]byte(strings.TrimRight(strings.Join(row, "\t"), "\t ") + "\n")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// plain makes text from a peer safe to show on a terminal, on one line: control
// characters and such that change the direction or can not be seen are escaped.
func plain(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case hidden(r) || r == utf8.RuneError:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plainLines is plain for text of several lines.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = plain(strings.ReplaceAll(strings.TrimSuffix(lines[i], "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// hidden reports runes that do something else on a terminal than be seen.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// shorten cuts s to n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
