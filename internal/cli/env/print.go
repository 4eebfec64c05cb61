package env

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/troupe-dev/troupe/internal/columns"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

// OrNone is a text, or a dash for none.
func OrNone(s string) string {
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return s
}

// Quote writes text that is not the program's own behind bars (SECA-41).
func Quote(b *strings.Builder, text string) {
	for l := range strings.SplitSeq(strings.TrimRight(PlainLines(text), "\n"), "\n") {
		fmt.Fprintf(b, "    │ %s\n", l)
	}
}

func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// PrintRaw prints what has types of the protocol, whose JSON is our own codec's.
func (e *Env) PrintRaw(v any) error {
	data, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	return e.PrintJSON(rawJSON(data))
}

// rawJSON is JSON already.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// PrintJSON writes v to stdout, indented, with a newline.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintJSONLine writes v to stdout on one line.
func (e *Env) PrintJSONLine(v any) error {
	line, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.Stdout, "%s\n", line)
	return err
}

// Plain makes text from a peer safe to show on a terminal, on one line: control
// characters and such that change the direction or cannot be seen are escaped.
func Plain(s string) string {
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

// PlainLines is plain for text of several lines.
func PlainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Plain(strings.ReplaceAll(strings.TrimSuffix(lines[i], "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// hidden reports runes that do something else on a terminal than be seen.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp)
}

// Shorten cuts s to n columns of a terminal.
func Shorten(s string, n int) string { return columns.Shorten(s, n) }

// Safe is a text of others as stdout takes it: a terminal only shows it (SECA-42).
func (e *Env) Safe(text string) string {
	if OnTerminal(e.Stdout) {
		return PlainLines(text)
	}
	return text
}

// OnTerminal reports whether what is written to w is shown on a terminal.
func OnTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IndentJSON lays JSON out for reading, with hidden characters to be seen and numbers in their own digits; what is not JSON
// stays as it is.
func IndentJSON(raw json.RawMessage) string { return sanitize.Reveal(indentJSON(raw)) }

func indentJSON(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if !json.Valid(raw) || d.Decode(&v) != nil {
		return string(raw)
	}
	out, err := json.MarshalIndent(v, "  ", "  ")
	if err != nil {
		return string(raw)
	}
	return "  " + string(out)
}
