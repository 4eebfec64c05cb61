package skillmd

import (
	"strings"
	"testing"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

func file(front string) string { return "---\n" + front + "---\n\n# Body\n" }

const least = "name: a\ndescription: b\n"

// SKILL-03: every field is there, as it was written.
func TestFrontmatter(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"least", file(least), `{"name":"a","description":"b"}`},
		{"lines of Windows, a mark of the byte order, and blanks", "\ufeff---  \r\nname: a\r\ndescription: b\r\n---\t\r\nx", `{"name":"a","description":"b"}`},
		{"nothing behind it", "---\n" + least + "---", `{"name":"a","description":"b"}`},
		{"hyphens in a text", file("name: a\ndescription: |\n  x\n  ---\n  y\n"), `{"name":"a","description":"x\n---\ny\n"}`},
		{"all kinds", file(least + "metadata: {version: 1.0, n: 7, big: 12345678901234567890, on: yes, really: true, none: ~, list: [1, 'x'], since: 2026-01-31}\n"),
			`{"name":"a","description":"b","metadata":{"version":1,"n":7,"big":12345678901234567890,"on":"yes","really":true,"none":null,"list":[1,"x"],"since":"2026-01-31"}}`},
		{"an alias", file(least + "x: &x [1]\ny: *x\n"), `{"name":"a","description":"b","x":[1],"y":[1]}`},
		{"a merge is a field like others", file(least + "<<: c\n"), `{"name":"a","description":"b","<<":"c"}`},
	}
	for _, tt := range tests {
		got, err := Frontmatter([]byte(tt.file))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestBadFrontmatter(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += strings.ReplaceAll("aN: &aN [*aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM, *aM]\n", "N", string(rune('1'+i)))
		bomb = strings.ReplaceAll(bomb, "M", string(rune('0'+i)))
	}
	tests := map[string]string{
		"none":               "# Body",
		"empty file":         "",
		"no end":             "---\n" + least,
		"too long":           file(least + "x: " + strings.Repeat("y", maxFrontmatter) + "\n"),
		"no YAML":            file("name: [\n"),
		"a list":             file("- a\n"),
		"empty":              file(""),
		"no name":            file("description: b\n"),
		"a name of a number": file("name: 7\ndescription: b\n"),
		"no description":     file("name: a\ndescription: ''\n"),
		"a key twice":        file(least + "name: c\n"),
		"a key of a list":    file(least + "? [a]\n: b\n"),
		"infinite":           file(least + "x: .inf\n"),
		"a bomb":             file(least + bomb),
		"a snake":            file(least + "x: &x [*x]\n"),
		"too deep":           file(least + "x: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n"),
	}
	for name, text := range tests {
		if got, err := Frontmatter([]byte(text)); err == nil {
			t.Errorf("%s: got %.200s, want an error", name, got)
		}
	}
}

// SKILL-04: the name of a skill is the last part of its path.
func TestRoot(t *testing.T) {
	tests := []struct {
		uri, root, name string
		ok              bool
	}{
		{"skill://git-workflow/SKILL.md", "skill://git-workflow", "git-workflow", true},
		{"skill://acme/billing/refunds/SKILL.md", "skill://acme/billing/refunds", "refunds", true},
		{"github://owner/repo/skills/refunds/SKILL.md", "github://owner/repo/skills/refunds", "refunds", true},
		{"skill://SKILL.md", "", "", false},
		{"skill:///SKILL.md", "", "", false},
		{"skill://a//SKILL.md", "", "", false},
		{"skill://a/skill.md", "", "", false},
		{"a/SKILL.md", "", "", false},
	}
	for _, tt := range tests {
		root, name, ok := Root(tt.uri)
		if ok != tt.ok || ok && (root != tt.root || name != tt.name) {
			t.Errorf("Root(%q): got %q, %q, %v, want %q, %q, %v", tt.uri, root, name, ok, tt.root, tt.name, tt.ok)
		}
	}
	for _, name := range []string{"", "-a", "a-", "a--b", "A", "ä", "a_b", "a b", strings.Repeat("a", 65)} {
		if CheckName(name) == nil {
			t.Errorf("CheckName(%q): got nil, want an error", name)
		}
	}
	for _, name := range []string{"a", "0", "pdf-processing", strings.Repeat("a", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q): got %v, want nil", name, err)
		}
	}
}

// SKILL-14: as long as it says the same, it may be written in another way.
func TestSame(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[true,null]}`, `{ "b":[true,null], "a":1.0 }`, true},
		{`{"a":"x"}`, `{"a":"y"}`, false},
		{`{"a":"x"}`, `{"a":"x","b":null}`, false},
		{`{"a":{"b":1}}`, `{"a":{"b":2}}`, false},
		{`{"a":1}`, `[1]`, false},
		{`{"a":1}`, ``, false},
	}
	for _, tt := range tests {
		if got := Same([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("Same(%s, %s): got %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func FuzzFrontmatter(f *testing.F) {
	for _, front := range []string{least, "x: &x [*x]\n", "a: {b: [1, 2.5, ~]}\n", "? [a]\n: b\n", "a: !!binary aGk=\n", "a: .nan\n"} {
		f.Add([]byte(file(front)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Frontmatter(data)
		if err != nil {
			return
		}
		if !jsonx.Valid(got) || !Same(got, got) {
			t.Errorf("Frontmatter(%q): got %s, which is no JSON object", data, got)
		}
	})
}
