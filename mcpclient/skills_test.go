package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/skillmd"
	"github.com/troupe-dev/troupe/mcp"
)

const (
	pdfURI   = "skill://pdf/SKILL.md"
	pdfForms = "skill://pdf/references/FORMS.md"
	pdfText  = "---\nname: pdf\ndescription: Fills in forms\nallowed-tools: [Bash]\n---\nSee references/FORMS.md.\n"
	skillCap = `{"resources":{"listChanged":true},"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true,"later":1}}}`
)

// skillWire is a server that has one skill: what it lists, and what it hands out.
type skillWire struct {
	*wire
	entry mcp.Skill
	files map[string]string
}

// skillServer has the skill "pdf" with two files.
func skillServer(v mcp.Version) *skillWire {
	s := &skillWire{wire: newWire(v, nil), files: map[string]string{pdfURI: pdfText, pdfForms: "# Forms\n"}}
	s.caps = skillCap
	s.describe()
	s.methods[mcp.MethodListSkills] = func(*mcp.Message) string {
		return fmt.Sprintf(`{"resultType":"complete","ttlMs":60000,"cacheScope":"public","skills":[%s]}`, s.raw())
	}
	s.methods[mcp.MethodGetSkill] = func(m *mcp.Message) string {
		if uri, _ := m.URIString(); uri != s.entry.URI {
			return `!{"code":-32602,"message":"no skill is served there"}`
		}
		return fmt.Sprintf(`{"resultType":"complete","ttlMs":0,"cacheScope":"public","skill":%s}`, s.raw())
	}
	s.methods[mcp.MethodReadResource] = func(m *mcp.Message) string {
		uri, _ := m.URIString()
		text, ok := s.files[uri]
		if !ok {
			return `!{"code":-32602,"message":"Resource not found"}`
		}
		raw, _ := json.Marshal(map[string]any{"resultType": "complete", "ttlMs": 60000, "cacheScope": "public",
			"contents": []any{map[string]any{"uri": uri, "text": text}}})
		return string(raw)
	}
	return s
}

// describe makes the entry that the files have.
func (s *skillWire) describe() {
	s.entry = mcp.Skill{URI: pdfURI, Frontmatter: json.RawMessage(`{"name":"pdf","description":"Fills in forms","allowed-tools":["Bash"]}`)}
	for _, uri := range slices.Sorted(maps.Keys(s.files)) {
		if !strings.HasPrefix(uri, "skill://pdf/") {
			continue
		}
		data := []byte(s.files[uri])
		s.entry.Resources = append(s.entry.Resources, mcp.SkillResource{URI: uri, Digest: skillmd.Digest(data), Size: int64(len(data))})
	}
}

func (s *skillWire) raw() string {
	raw, err := mcp.Marshal(s.entry)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// SKILL-11, SKILL-13, SKILL-16, SKILL-18, SKILL-21: a skill is listed without a file
// being read, loaded by reading SKILL.md alone, and its files are read when they are
// asked for, by the path that SKILL.md has or by their URI. The text comes with our name
// for the server, not with what that says of itself; the tools it would like to have are
// words in it.
func TestLoadSkill(t *testing.T) {
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := skillServer(v)
				c := w.dial(t, nil)
				skills, err := c.ListSkills(t.Context())
				if err != nil || len(skills) != 1 || skills[0].URI != pdfURI {
					t.Fatalf("ListSkills: got %+v, %v", skills, err)
				}
				if got := w.heard(); !slices.Equal(got, []string{mcp.MethodListSkills}) {
					t.Errorf("to list them, asked %v", got)
				}
				entry, err := c.GetSkill(t.Context(), pdfURI)
				if err != nil || entry.URI != pdfURI || len(entry.Resources) != 2 {
					t.Fatalf("GetSkill: got %+v, %v", entry, err)
				}
				w.heard()
				l, err := c.LoadSkill(t.Context(), entry)
				if err != nil || l.Text != pdfText || l.Server != "wire" {
					t.Fatalf("LoadSkill: got %+v, %v", l, err)
				}
				if got := w.heard(); !slices.Equal(got, []string{mcp.MethodReadResource}) {
					t.Errorf("to load it, asked %v", got)
				}
				for _, file := range []string{"references/FORMS.md", "./references/FORMS.md", "references/../references/FORMS.md", pdfForms} {
					if got, err := l.Read(t.Context(), file); err != nil || got.Text != "# Forms\n" {
						t.Errorf("Read(%q): got %+v, %v", file, got, err)
					}
				}
			})
		})
	}
}

// SKILL-13, SKILL-14: what is not what the entry says is not used.
func TestTamperedSkills(t *testing.T) {
	tests := []struct {
		name   string
		tamper func(s *skillWire)
	}{
		{"digest", func(s *skillWire) { s.files[pdfURI] = strings.Replace(pdfText, "See", "sEE", 1) }},
		{"size", func(s *skillWire) { s.files[pdfURI] += "more" }},
		{"a size that lies", func(s *skillWire) { s.entry.Resources[0].Size++ }},
		{"frontmatter", func(s *skillWire) {
			s.files[pdfURI] = strings.Replace(pdfText, "Fills", "Eats", 1)
			s.describe()
		}},
		{"a field less", func(s *skillWire) {
			s.entry.Frontmatter = json.RawMessage(`{"name":"pdf","description":"Fills in forms"}`)
		}},
		{"a field more", func(s *skillWire) {
			s.entry.Frontmatter = json.RawMessage(`{"name":"pdf","description":"Fills in forms","allowed-tools":["Bash"],"license":"MIT"}`)
		}},
		{"no frontmatter", func(s *skillWire) {
			s.files[pdfURI] = "# pdf"
			s.describe()
		}},
		{"another file", func(s *skillWire) {
			s.methods[mcp.MethodReadResource] = func(*mcp.Message) string {
				raw, _ := json.Marshal(pdfText)
				return `{"resultType":"complete","contents":[{"uri":"skill://other/SKILL.md","text":` + string(raw) + `}]}`
			}
		}},
		{"no file", func(s *skillWire) {
			s.methods[mcp.MethodReadResource] = func(*mcp.Message) string { return `{"resultType":"complete","contents":[]}` }
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := skillServer(mcp.V2026_07_28)
				tt.tamper(s)
				c := s.dial(t, nil)
				entry, err := c.GetSkill(t.Context(), pdfURI)
				if err != nil {
					t.Fatal(err)
				}
				if l, err := c.LoadSkill(t.Context(), entry); !errors.Is(err, ErrSkillChanged) || l != nil {
					t.Errorf("LoadSkill: got %+v, %v, want %v", l, err, ErrSkillChanged)
				}
			})
		})
	}
}

// SKILL-15, SKILL-17, SKILL-20: a skill that was loaded has the files of the entry it
// was loaded by: no others that the server has by now, none of another skill, and none
// of those that it has changed since. A new entry has them; what is kept of the old
// ones does no harm.
func TestHeldEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := skillServer(mcp.V2026_07_28)
		c := s.dial(t, nil)
		load := func() *LoadedSkill {
			entry, err := c.GetSkill(t.Context(), pdfURI)
			if err != nil {
				t.Fatal(err)
			}
			l, err := c.LoadSkill(t.Context(), entry)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		old := load()
		if _, err := old.Read(t.Context(), "references/FORMS.md"); err != nil { // now it is kept
			t.Fatal(err)
		}
		s.files["skill://pdf/new.md"], s.files["skill://other/x.md"], s.files["https://example.com/"] = "new", "x", "x"
		s.files[pdfForms] = "# Other forms\n"
		s.describe()
		s.heard()
		for _, file := range []string{"new.md", "skill://pdf/new.md", "../other/x.md", "skill://pdf/../other/x.md", "skill://pdf/%2e%2e/other/x.md",
			"skill://other/x.md", "https://example.com/", "/new.md", "", ".", "..", "skill://pdf", "skill://pdf/", "skill://pdf/%zz"} {
			if got, err := old.Read(t.Context(), file); !errors.Is(err, ErrSkillChanged) {
				t.Errorf("Read(%q): got %+v, %v, want %v", file, got, err, ErrSkillChanged)
			}
		}
		if got := s.heard(); got != nil {
			t.Errorf("the server was asked %v", got)
		}
		now := load()
		if got, err := now.Read(t.Context(), "references/FORMS.md"); err != nil || got.Text != "# Other forms\n" {
			t.Errorf("the new file: got %+v, %v", got, err)
		}
		if got, err := now.Read(t.Context(), "new.md"); err != nil || got.Text != "new" {
			t.Errorf("the file that is new: got %+v, %v", got, err)
		}
		if got, err := old.Read(t.Context(), "references/FORMS.md"); !errors.Is(err, ErrSkillChanged) {
			t.Errorf("by the old entry: got %+v, %v, want %v", got, err, ErrSkillChanged)
		}
	})
}

// SKILL-05, SKILL-07: a dynamic skill has whatever files there are below it, as much as
// any skill may have.
func TestDynamicSkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := skillServer(mcp.V2026_07_28)
		s.entry.Dynamic, s.entry.Resources = true, nil
		s.files["skill://pdf/a%20b/c.txt"], s.files["skill://other/x.md"] = "c", "x"
		c := s.dial(t, nil)
		skills, err := c.ListSkills(t.Context())
		if err != nil || len(skills) != 1 || !skills[0].Dynamic {
			t.Fatalf("ListSkills: got %+v, %v", skills, err)
		}
		l, err := c.LoadSkill(t.Context(), &skills[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"a b/c.txt", "skill://pdf/a%20b/c.txt"} {
			if got, err := l.Read(t.Context(), file); err != nil || got.Text != "c" {
				t.Errorf("Read(%q): got %+v, %v", file, got, err)
			}
		}
		for _, file := range []string{"../other/x.md", "skill://other/x.md"} {
			if got, err := l.Read(t.Context(), file); err == nil {
				t.Errorf("Read(%q): got %+v, want an error", file, got)
			}
		}
		_, _ = l.files.Verify(pdfURI, make([]byte, skillmd.MaxBytes-1))
		if got, err := l.Read(t.Context(), "references/FORMS.md"); err == nil {
			t.Errorf("more than a skill may have: got %+v, want an error", got)
		}
		s.files[pdfURI] = strings.Replace(pdfText, "Fills", "Eats", 1) // SKILL-14 holds for it, too
		if _, err := s.dial(t, nil).LoadSkill(t.Context(), &skills[0]); !errors.Is(err, ErrSkillChanged) {
			t.Errorf("LoadSkill with another frontmatter: got %v, want %v", err, ErrSkillChanged)
		}
	})
}

// SKILL-03, SKILL-04, SKILL-05, SKILL-07: entries that are no good are not loaded, and
// do not take the others with them.
func TestBadSkillEntries(t *testing.T) {
	const front = `"frontmatter":{"name":"a","description":"d"}`
	digest := skillmd.Digest(nil)
	file := func(uri, digest string, size any) string {
		return fmt.Sprintf(`{"uri":%q,"digest":%q,"size":%v}`, uri, digest, size)
	}
	head := file("skill://a/SKILL.md", digest, 0)
	bad := map[string]string{
		"no resources":         `{"uri":"skill://a/SKILL.md",` + front + `}`,
		"other resources":      `{"uri":"skill://a/SKILL.md",` + front + `,"resources":"static"}`,
		"no list":              `{"uri":"skill://a/SKILL.md",` + front + `,"resources":{}}`,
		"no files":             `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[]}`,
		"no frontmatter":       `{"uri":"skill://a/SKILL.md","resources":"dynamic"}`,
		"a list of fields":     `{"uri":"skill://a/SKILL.md","frontmatter":[],"resources":"dynamic"}`,
		"no description":       `{"uri":"skill://a/SKILL.md","frontmatter":{"name":"a"},"resources":"dynamic"}`,
		"another name":         `{"uri":"skill://b/SKILL.md",` + front + `,"resources":"dynamic"}`,
		"no SKILL.md":          `{"uri":"skill://a/README.md",` + front + `,"resources":"dynamic"}`,
		"no URI":               `{"uri":"a/SKILL.md",` + front + `,"resources":"dynamic"}`,
		"lacks itself":         `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + file("skill://a/x", digest, 0) + `]}`,
		"a file twice":         `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + head + `,` + head + `]}`,
		"a file elsewhere":     `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + head + `,` + file("skill://ab/x", digest, 0) + `]}`,
		"a short digest":       `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + file("skill://a/SKILL.md", "sha256:00", 0) + `]}`,
		"another digest":       `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + file("skill://a/SKILL.md", strings.Replace(digest, "256", "512", 1), 0) + `]}`,
		"a negative size":      `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + file("skill://a/SKILL.md", digest, -1) + `]}`,
		"a size that is words": `{"uri":"skill://a/SKILL.md",` + front + `,"resources":[` + file("skill://a/SKILL.md", digest, `"big"`) + `]}`,
	}
	for name, entry := range bad {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := skillServer(mcp.V2026_07_28)
				s.methods[mcp.MethodListSkills] = func(*mcp.Message) string {
					return fmt.Sprintf(`{"resultType":"complete","skills":[%s,%s]}`, entry, s.raw())
				}
				s.methods[mcp.MethodGetSkill] = func(*mcp.Message) string { return `{"resultType":"complete","skill":` + entry + `}` }
				c := s.dial(t, nil)
				if got, err := c.ListSkills(t.Context()); err != nil || len(got) != 1 || got[0].URI != pdfURI {
					t.Errorf("ListSkills: got %+v, %v, want only the good one", got, err)
				}
				if got, err := c.GetSkill(t.Context(), "skill://a/SKILL.md"); !errors.Is(err, call.ErrInvalidResponse) {
					t.Errorf("GetSkill: got %+v, %v, want %v", got, err, call.ErrInvalidResponse)
				}
				var parsed mcp.Skill
				if err := json.Unmarshal([]byte(entry), &parsed); err != nil {
					t.Fatal(err)
				}
				s.heard()
				if _, err := c.LoadSkill(t.Context(), &parsed); err == nil || s.heard() != nil {
					t.Errorf("LoadSkill: got %v, and asked; want an error at once", err)
				}
			})
		})
	}
}

func TestLargeSkill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := skillServer(mcp.V2026_07_28)
		c := s.dial(t, nil)
		for _, grow := range []func(){
			func() { s.entry.Resources[1].Size = skillmd.MaxBytes },
			func() { s.entry.Resources[1].Size = 1 << 62; s.entry.Resources[0].Size = 1 << 62 },
			func() {
				for i := range skillmd.MaxFiles - 1 {
					s.entry.Resources = append(s.entry.Resources, mcp.SkillResource{URI: fmt.Sprint("skill://pdf/", i), Digest: skillmd.Digest(nil)})
				}
			},
		} {
			s.entry = mcp.Skill{}
			s.describe()
			grow()
			entry, err := c.GetSkill(t.Context(), pdfURI)
			if err != nil {
				t.Fatal(err)
			}
			s.heard()
			if _, err := c.LoadSkill(t.Context(), entry); err == nil || !strings.Contains(err.Error(), "512 files or 16777216 bytes") || s.heard() != nil {
				t.Errorf("LoadSkill: got %v, want an error that names the limits, before anything is read", err)
			}
		}
		s.describe() // as much as is allowed
		s.entry.Resources[1].Size = skillmd.MaxBytes - s.entry.Resources[0].Size
		if _, err := c.LoadSkill(t.Context(), &s.entry); err != nil {
			t.Errorf("LoadSkill of as much as is allowed: got %v", err)
		}
	})
}

// SKILL-02, SKILL-11: what a server has not declared is not asked for; what it does not
// serve is not found.
func TestNoSkills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, v := range []mcp.Version{mcp.V2025_11_25, mcp.V2026_07_28} {
			w := newWire(v, nil)
			c := w.dial(t, nil)
			if got, err := c.ListSkills(t.Context()); err != nil || got != nil {
				t.Errorf("ListSkills: got %v, %v", got, err)
			}
			if _, err := c.GetSkill(t.Context(), pdfURI); !errors.Is(err, ErrUnsupported) {
				t.Errorf("GetSkill: got %v, want %v", err, ErrUnsupported)
			}
			if got := w.heard(); got != nil {
				t.Errorf("asked %v", got)
			}
			for _, settings := range []string{`{}`, `{"directoryRead":false}`, `{"directoryRead":"yes"}`, `7`} {
				s := skillServer(v)
				s.caps = `{"resources":{},"extensions":{"io.modelcontextprotocol/skills":` + settings + `}}`
				c := s.dial(t, nil)
				if _, err := c.ReadDirectory(t.Context(), "skill://pdf"); !errors.Is(err, ErrUnsupported) || s.heard() != nil {
					t.Errorf("ReadDirectory with %s: got %v, want %v", settings, err, ErrUnsupported)
				}
				if _, err := c.GetSkill(t.Context(), "skill://nobody/SKILL.md"); !errors.Is(err, ErrNotFound) {
					t.Errorf("GetSkill: got %v, want %v", err, ErrNotFound)
				}
			}
		}
	})
}

// SKILL-12, PAGE-06: all pages of a directory, but not for ever.
func TestReadDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := skillServer(mcp.V2026_07_28)
		c := s.dial(t, nil)
		s.methods[mcp.MethodReadDirectory] = func(m *mcp.Message) string {
			if strings.Contains(string(m.Params), `"cursor":"2"`) {
				return `{"resultType":"complete","resources":[{"uri":"skill://pdf/b","name":"b","mimeType":"inode/directory"}]}`
			}
			return `{"resultType":"complete","resources":[{"uri":"skill://pdf/a","name":"a"}],"nextCursor":"2"}`
		}
		got, err := c.ReadDirectory(t.Context(), "skill://pdf")
		if err != nil || len(got) != 2 || got[1].MIMEType != mcp.MIMEDirectory {
			t.Errorf("ReadDirectory: got %+v, %v", got, err)
		}
		s.methods[mcp.MethodReadDirectory] = func(*mcp.Message) string {
			return `{"resultType":"complete","resources":[],"nextCursor":"round"}`
		}
		if got, err := c.ReadDirectory(t.Context(), "skill://pdf"); err == nil {
			t.Errorf("ReadDirectory without an end: got %+v, want an error", got)
		}
	})
}

// SKILL-17: two servers may have a skill of the same URI; each is loaded from its own.
// A list of a legacy server is read anew, as nobody tells of changes; that of a modern
// one is kept.
func TestSkillsOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := skillServer(mcp.V2025_11_25), skillServer(mcp.V2026_07_28)
		two.files[pdfURI] = strings.Replace(pdfText, "See", "sEE", 1)
		two.describe()
		h := hostOf(t, map[string]*wire{"one": one.wire, "two": two.wire, "none": newWire(mcp.V2025_11_25, nil)}, nil)
		for range 2 {
			skills, err := h.Skills(t.Context())
			if err != nil || len(skills) != 2 || skills[0].Server != "one" || skills[1].Server != "two" {
				t.Fatalf("Skills: got %+v, %v", skills, err)
			}
			for i, want := range []string{"See", "sEE"} {
				l, err := h.LoadSkill(t.Context(), &skills[i])
				if err != nil || l.Server != skills[i].Server || !strings.Contains(l.Text, want) {
					t.Errorf("LoadSkill of %s: got %+v, %v", skills[i].Server, l, err)
				}
			}
		}
		count := func(w *wire) (n int) {
			for _, method := range w.heard() {
				if method == mcp.MethodListSkills {
					n++
				}
			}
			return n
		}
		if a, b := count(one.wire), count(two.wire); a != 2 || b != 1 {
			t.Errorf("listed %d and %d times, want 2 and 1", a, b)
		}
		if _, err := h.GetSkill(t.Context(), "three", pdfURI); err == nil {
			t.Error("GetSkill of a server that is not there: got nil, want an error")
		}
	})
}
