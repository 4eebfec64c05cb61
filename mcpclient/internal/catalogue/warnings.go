package catalogue

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/mcp"
	"golang.org/x/text/unicode/norm"
)

// Hidden names the parts of a definition in which something is hidden from people
// and not from a model (SECA-37).
func Hidden(t *mcp.Tool) []string {
	parts := []textPart{
		{"name", t.Name}, {"title", t.Title}, {"description", t.Description},
		{"inputSchema", unescaped(t.InputSchema)}, {"outputSchema", unescaped(t.OutputSchema)},
	}
	if t.Annotations != nil {
		parts = append(parts, textPart{"annotations", t.Annotations.Title})
	}
	return warningsOf(parts)
}

// HiddenInPrompt is Hidden for a prompt.
func HiddenInPrompt(p *mcp.Prompt) []string {
	parts := []textPart{{"name", p.Name}, {"title", p.Title}, {"description", p.Description}}
	for _, a := range p.Arguments {
		parts = append(parts, textPart{fmt.Sprintf("argument %.40q", a.Name), a.Name + "\n" + a.Title + "\n" + a.Description})
	}
	return warningsOf(parts)
}

// textPart is a text of a definition, and what it is called.
type textPart struct{ name, text string }

func warningsOf(parts []textPart) []string {
	var warnings []string
	for _, p := range parts {
		if n := sanitize.Hidden(p.text); n > 0 {
			warnings = append(warnings, fmt.Sprintf("its %s has %d hidden characters", p.name, n))
		}
	}
	return warnings
}

// unescaped returns the text of a schema with its escapes resolved, as a model would
// read it: a control character stands for each that is written as an escape.
func unescaped(raw json.RawMessage) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	text, err := jsonx.Canonical(raw) // leaves only those of control characters
	if err != nil {
		return string(raw)
	}
	return controls.Replace(string(text))
}

var controls = strings.NewReplacer(`\\`, " ", `\u00`, "\x00")

// LookAlikes returns a warning for each tool whose name differs from that of another tool and
// looks the same (SECA-39), "" for all others. The tools are those of a whole catalogue.
func LookAlikes(tools []Key) []string {
	byLook := map[string][]int{}
	for i, t := range tools {
		look := lookOf(t.Tool)
		byLook[look] = append(byLook[look], i)
	}
	warnings := make([]string, len(tools))
	for _, alike := range byLook {
		for _, i := range alike {
			warnings[i] = lookAlike(tools, i, alike)
		}
	}
	return warnings
}

// maxAlike bounds how many others a warning names.
const maxAlike = 3

func lookAlike(tools []Key, i int, alike []int) string {
	var others []string
	for _, j := range alike {
		if other := tools[j]; other.Tool != tools[i].Tool {
			others = append(others, fmt.Sprintf("%q of server %s", sanitize.Line(other.Tool, MaxName), other.Server))
		}
	}
	if len(others) == 0 {
		return ""
	}
	slices.Sort(others)
	if more := len(others) - maxAlike; more > 0 {
		others = append(others[:maxAlike], fmt.Sprintf("%d more", more))
	}
	return "its name looks like " + strings.Join(others, ", ")
}

// maxLook is how much of a name is looked at, in bytes.
const maxLook = 256

// lookOf is what a name looks like: names with the same look are taken for each
// other. It is coarse, for it only leads to a warning.
func lookOf(name string) string {
	var b strings.Builder
	name = name[:min(len(name), maxLook)]
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case '\u0300' <= r && r <= '\u036f': // accents
		case r == '_' || r == '-' || r == '.' || r == ' ': // easily overlooked
		default:
			b.WriteRune(cmp.Or(lookAlikes[r], r))
		}
	}
	return twins.Replace(b.String())
}

var twins = strings.NewReplacer("rn", "m", "vv", "w", "cl", "d")

// lookAlikes are characters that pass for Latin ones; letters are lower case.
var lookAlikes = map[rune]rune{
	'0': 'o', '1': 'l', 'i': 'l', '|': 'l', '5': 's', '$': 's', '3': 'e', '@': 'a',
	// Cyrillic
	'а': 'a', 'е': 'e', 'о': 'o', 'р': 'p', 'с': 'c', 'у': 'y', 'х': 'x', 'і': 'l', 'ј': 'j', 'ѕ': 's', 'ԁ': 'd', 'һ': 'h',
	'ԛ': 'q', 'ԝ': 'w', 'в': 'b', 'к': 'k', 'м': 'm', 'н': 'h', 'т': 't', 'ӏ': 'l', 'г': 'r', 'п': 'n',
	// Greek
	'α': 'a', 'ο': 'o', 'ρ': 'p', 'ν': 'v', 'ι': 'l', 'κ': 'k', 'υ': 'u', 'τ': 't', 'χ': 'x', 'η': 'n', 'ε': 'e', 'β': 'b', 'γ': 'y', 'ω': 'w',
	// Others
	'ı': 'l', 'ɩ': 'l', 'ɑ': 'a', 'ɡ': 'g', 'ʏ': 'y', 'ƅ': 'b', 'օ': 'o', 'ս': 'u', 'հ': 'h',
}
