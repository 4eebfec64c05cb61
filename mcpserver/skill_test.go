package mcpserver_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/troupe-dev/troupe/internal/skillmd"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// skillFiles are a folder of skills: one with folders, one within another, and what is
// no part of any.
func skillFiles() fstest.MapFS {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		"README.md":                        text("no skill"),
		"pdf/SKILL.md":                     text("---\nname: pdf\ndescription: Fills in forms\nlicense: MIT\nmetadata:\n  version: \"2\"\n---\n\nSee references/FORMS.md.\n"),
		"pdf/references/FORMS.md":          text("# Forms\n"),
		"pdf/references/deep/a b.txt":      text("blank"),
		"pdf/logo.bin":                     {Data: []byte{0, 0xff, 1}},
		"pdf/.git/config":                  text("secret"),
		"pdf/.env":                         text("secret"),
		"pdf/link":                         {Data: []byte("/etc/passwd"), Mode: 0o777 | 1<<27}, // fs.ModeSymlink
		"acme/billing/refunds/SKILL.md":    text("---\nname: refunds\ndescription: Pays back\n---\n"),
		"acme/billing/refunds/in/SKILL.md": text("---\nname: in\ndescription: Within\n---\n"),
		"acme/billing/refunds/in/x.md":     text("x"),
	}
}

// withSkills runs f for each revision with a server that has the skills.
func withSkills(t *testing.T, opts *mcpserver.Options, f func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server)) {
	t.Helper()
	for _, v := range mcp.Versions() {
		t.Run(string(v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, opts)
				if err := mcpserver.ServeSkills(s, skillFiles()); err != nil {
					t.Fatal(err)
				}
				p := serve(t, s)
				p.open(v)
				synctest.Wait()
				f(t, v, p, s)
			})
		})
	}
}

// ask sends a request, and decodes its result.
func resultOf[T any](t *testing.T, p *peer, line string) T {
	t.Helper()
	var got struct {
		Result *T
	}
	answer := p.ask(line)
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Result == nil {
		t.Fatalf("%s: got %s, %v", clip(line), clip(answer), err)
	}
	return *got.Result
}

// SKILL-01, SKILL-03, SKILL-08, SKILL-10: what a server lists of its skills, and that it
// says that it has them. The nested one is an entry of its own, and its files are also
// those of the one around it.
func TestListSkills(t *testing.T) {
	withSkills(t, &mcpserver.Options{Lists: mcpserver.ListOptions{CacheFor: time.Minute}}, func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server) {
		caps := serverCapabilities(t, s, v)
		if settings, ok := caps.Extension(mcp.ExtensionSkills); !ok || string(settings) != `{"directoryRead":true}` || caps.Resources == nil {
			t.Errorf("declared: got %s, %v, resources %v", settings, ok, caps.Resources)
		}
		got := resultOf[mcp.ListSkillsResult](t, p, request(v, 1, mcp.MethodListSkills, `{}`))
		files := map[string][]string{}
		for _, k := range got.Skills {
			for _, r := range k.Resources {
				files[k.URI] = append(files[k.URI], strings.TrimPrefix(r.URI, "skill://"))
			}
		}
		want := map[string][]string{
			"skill://acme/billing/refunds/SKILL.md": {
				"acme/billing/refunds/SKILL.md", "acme/billing/refunds/in/SKILL.md", "acme/billing/refunds/in/x.md"},
			"skill://acme/billing/refunds/in/SKILL.md": {"acme/billing/refunds/in/SKILL.md", "acme/billing/refunds/in/x.md"},
			"skill://pdf/SKILL.md":                     {"pdf/SKILL.md", "pdf/logo.bin", "pdf/references/FORMS.md", "pdf/references/deep/a%20b.txt"},
		}
		if fmt.Sprint(files) != fmt.Sprint(want) {
			t.Errorf("got  %v\nwant %v", files, want)
		}
		front := `{"name":"pdf","description":"Fills in forms","license":"MIT","metadata":{"version":"2"}}`
		if pdf := got.Skills[len(got.Skills)-1]; string(pdf.Frontmatter) != front {
			t.Errorf("frontmatter: got %s, want %s", pdf.Frontmatter, front)
		}
		hinted := got.TTLMs != nil && *got.TTLMs == 60_000 && got.CacheScope == mcp.CachePublic && got.ResultType == "complete"
		if hinted != (v.Era() == mcp.EraModern) {
			t.Errorf("hints: got %v, %q, %q", got.TTLMs, got.CacheScope, got.ResultType)
		}
	})
}

// SKILL-03, SKILL-06, SKILL-13: each file that is listed can be read, and is what was
// listed of it; SKILL.md is a resource like others for who does not know skills.
func TestReadSkills(t *testing.T) {
	withSkills(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		types := map[string]string{}
		for _, k := range resultOf[mcp.ListSkillsResult](t, p, request(v, 1, mcp.MethodListSkills, `{}`)).Skills {
			for _, f := range k.Resources {
				c := resultOf[mcp.ReadResourceResult](t, p, read(v, 2, f.URI)).Contents[0]
				data := c.Blob
				if data == nil {
					data = []byte(c.Text)
				}
				if c.URI != f.URI || int64(len(data)) != f.Size || skillmd.Digest(data) != f.Digest {
					t.Errorf("reading %s: got %d bytes of %s", f.URI, len(data), c.URI)
				}
				types[f.URI] = c.MIMEType
			}
		}
		if got := types["skill://pdf/references/FORMS.md"]; got != "text/markdown" {
			t.Errorf("type of a .md: got %s", got)
		}
		listed := resultOf[mcp.ListResourcesResult](t, p, request(v, 3, mcp.MethodListResources, `{}`)).Resources
		if len(listed) != 3 || listed[2].URI != "skill://pdf/SKILL.md" || listed[2].Name != "pdf" ||
			listed[2].Description != "Fills in forms" || listed[2].MIMEType != "text/markdown" {
			t.Errorf("resources: got %+v", listed)
		}
		for _, uri := range []string{"skill://pdf/.env", "skill://pdf/link", "skill://pdf", "skill://pdf/", "skill://pdf/../pdf/SKILL.md", "skill://README.md"} {
			if got := p.ask(read(v, 4, uri)); !strings.Contains(got, `"error"`) {
				t.Errorf("reading %s: got %s, want an error", uri, got)
			}
		}
	})
}

// SKILL-09, SKILL-11: one entry, the same as in the list; -32602 for what is no skill.
func TestGetSkill(t *testing.T) {
	withSkills(t, nil, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		for _, k := range resultOf[mcp.ListSkillsResult](t, p, request(v, 1, mcp.MethodListSkills, `{}`)).Skills {
			answer := p.ask(request(v, 2, mcp.MethodGetSkill, fmt.Sprintf(`{"uri":%q}`, k.URI)))
			var got struct {
				Result map[string]json.RawMessage
			}
			want, err := mcp.Marshal(k)
			if err != nil || json.Unmarshal([]byte(answer), &got) != nil || string(got.Result["skill"]) != string(want) {
				t.Errorf("got %s, want the skill %s", answer, want)
			}
			_, ttl := got.Result["ttlMs"]
			if _, next := got.Result["nextCursor"]; next || ttl != v.Has(mcp.FeatureCacheHints) {
				t.Errorf("got %s", answer)
			}
		}
		for _, params := range []string{`{"uri":"skill://nobody/SKILL.md"}`, `{"uri":"skill://pdf"}`, `{"uri":"skill://pdf/references/FORMS.md"}`, `{"uri":7}`, `{}`} {
			p.expectError(request(v, 3, mcp.MethodGetSkill, params), mcp.CodeInvalidParams, "3")
		}
	})
}

// SKILL-02, SKILL-12: a folder's direct children, in pages; a folder within is one, too.
func TestReadDirectory(t *testing.T) {
	withSkills(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 2}}, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		dir := func(uri string, cursor *string) mcp.ReadDirectoryResult {
			params, _ := mcp.Marshal(&mcp.ReadDirectoryParams{URI: uri, Cursor: cursor})
			return resultOf[mcp.ReadDirectoryResult](t, p, request(v, 1, mcp.MethodReadDirectory, string(params)))
		}
		all := func(uri string) (names []string) {
			var cursor *string
			for {
				page := dir(uri, cursor)
				for _, r := range page.Resources {
					names = append(names, r.Name+" "+r.MIMEType+" "+strings.TrimPrefix(r.URI, uri))
				}
				if cursor = page.NextCursor; cursor == nil {
					return names
				}
			}
		}
		tests := map[string][]string{
			"skill://pdf":                     {"pdf text/markdown /SKILL.md", "logo.bin application/octet-stream /logo.bin", "references inode/directory /references"},
			"skill://pdf/references":          {"FORMS.md text/markdown /FORMS.md", "deep inode/directory /deep"},
			"skill://pdf/references/deep":     {"a b.txt text/plain; charset=utf-8 /a%20b.txt"},
			"skill://acme/billing/refunds":    {"refunds text/markdown /SKILL.md", "in inode/directory /in"},
			"skill://acme/billing/refunds/in": {"in text/markdown /SKILL.md", "x.md text/markdown /x.md"},
		}
		for uri, want := range tests {
			if got := all(uri); !slices.Equal(got, want) {
				t.Errorf("directory %s:\ngot  %q\nwant %q", uri, got, want)
			}
		}
		for _, uri := range []string{"skill://pdf/SKILL.md", "skill://pdf/", "skill://nobody", "skill://acme", "skill://", "file:///etc"} {
			p.expectError(request(v, 2, mcp.MethodReadDirectory, fmt.Sprintf(`{"uri":%q}`, uri)), mcp.CodeInvalidParams, "2")
		}
		foreign := *dir("skill://pdf", nil).NextCursor // PAGE-05
		for _, params := range []string{
			fmt.Sprintf(`{"uri":"skill://pdf/references","cursor":%q}`, foreign), `{"uri":"skill://pdf","cursor":""}`,
			fmt.Sprintf(`{"uri":"skill://pdf","cursor":%q}`, foreign[1:]), `{"uri":"skill://pdf","cursor":7}`,
		} {
			p.expectError(request(v, 3, mcp.MethodReadDirectory, params), mcp.CodeInvalidParams, "3")
		}
		p.expectError(request(v, 4, mcp.MethodListSkills, fmt.Sprintf(`{"cursor":%q}`, foreign)), mcp.CodeInvalidParams, "4")
	})
}

// SKILL-08, PAGE-01: skills come in pages, no entry in two.
func TestSkillPages(t *testing.T) {
	withSkills(t, &mcpserver.Options{Lists: mcpserver.ListOptions{PageSize: 2}}, func(t *testing.T, v mcp.Version, p *peer, _ *mcpserver.Server) {
		one := resultOf[mcp.ListSkillsResult](t, p, request(v, 1, mcp.MethodListSkills, `{}`))
		if len(one.Skills) != 2 || one.NextCursor == nil {
			t.Fatalf("the first page: got %+v", one)
		}
		two := resultOf[mcp.ListSkillsResult](t, p, request(v, 2, mcp.MethodListSkills, fmt.Sprintf(`{"cursor":%q}`, *one.NextCursor)))
		if len(two.Skills) != 1 || two.NextCursor != nil || len(two.Skills[0].Resources) != 4 {
			t.Errorf("the second page: got %+v", two)
		}
	})
}

// SKILL-02, EXT-02: without skills the methods are not there. They stay once there was
// one (CAP-08), and clients hear of changes as of all resources.
func TestNoSkills(t *testing.T) {
	eachServer(t, func(t *testing.T, v mcp.Version, p *peer, s *mcpserver.Server) {
		caps := serverCapabilities(t, s, v)
		if _, ok := caps.Extension(mcp.ExtensionSkills); ok {
			t.Errorf("declared: %+v", caps)
		}
		p.open(v)
		for _, method := range []string{mcp.MethodListSkills, mcp.MethodGetSkill, mcp.MethodReadDirectory} {
			p.expectError(request(v, 1, method, `{"uri":"skill://pdf"}`), mcp.CodeMethodNotFound, "1")
		}
		synctest.Wait()
		if err := mcpserver.ServeSkills(s, skillFiles()); err != nil {
			t.Fatal(err)
		}
		s.RemoveSkills("pdf", "acme/billing/refunds", "nobody")
		time.Sleep(time.Minute)
		synctest.Wait()
		for len(p.lines) > 0 {
			if got := p.receive(); !strings.Contains(got, mcp.NotificationResourcesChanged) {
				t.Errorf("got %s", got)
			}
		}
		got := resultOf[mcp.ListSkillsResult](t, p, request(v, 2, mcp.MethodListSkills, `{}`)).Skills
		if len(got) != 1 || got[0].URI != "skill://acme/billing/refunds/in/SKILL.md" {
			t.Errorf("what is left: got %+v", got)
		}
		if got := p.ask(read(v, 3, "skill://acme/billing/refunds/SKILL.md")); !strings.Contains(got, `"error"`) {
			t.Errorf("reading what was removed: got %s", got)
		}
		p.expectError(request(v, 4, mcp.MethodReadDirectory, `{"uri":"skill://pdf"}`), mcp.CodeInvalidParams, "4")
		resultOf[mcp.ReadDirectoryResult](t, p, request(v, 5, mcp.MethodReadDirectory, `{"uri":"skill://acme/billing/refunds/in"}`))
	})
}

// SKILL-04, SKILL-07, SKILL-10: what is no skill is not served, and says why.
func TestBadSkills(t *testing.T) {
	head := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("---\nname: " + name + "\ndescription: d\n---\n")}
	}
	many := fstest.MapFS{"SKILL.md": head("a")}
	for i := range skillmd.MaxFiles {
		many[fmt.Sprint("f", i)] = &fstest.MapFile{}
	}
	tests := []struct {
		name, path string
		files      fstest.MapFS
		want       string
	}{
		{"another name", "b", fstest.MapFS{"SKILL.md": head("a")}, "last part of its path"},
		{"no head", "a", fstest.MapFS{"skill.md": head("a")}, "no SKILL.md"},
		{"no frontmatter", "a", fstest.MapFS{"SKILL.md": {Data: []byte("# a")}}, "does not begin with frontmatter"},
		{"no text", "a", fstest.MapFS{"SKILL.md": {Data: append(head("a").Data, 0xff)}}, "not UTF-8"},
		{"not a name", "A", fstest.MapFS{"SKILL.md": head("A")}, "not a name"},
		{"an empty part", "x//a", fstest.MapFS{"SKILL.md": head("a")}, "part that is empty"},
		{"a part that climbs", "../a", fstest.MapFS{"SKILL.md": head("a")}, "begins with a dot"},
		{"a part that is no host", "x:80@y/a", fstest.MapFS{"SKILL.md": head("a")}, "more than letters"},
		{"too many files", "a", many, "more than 512 files"},
		{"too many bytes", "a", fstest.MapFS{"SKILL.md": head("a"), "x": {Data: make([]byte, skillmd.MaxBytes)}}, "more than 16777216 bytes"},
		{"no files", "a", nil, "no SKILL.md"},
		{"one that is there", "pdf", fstest.MapFS{"SKILL.md": head("pdf")}, "added before"},
		{"a part of another that it has not", "pdf/more", fstest.MapFS{"SKILL.md": head("more")}, "does not have the same file"},
		{"around another without its files", "acme/billing", fstest.MapFS{"SKILL.md": head("billing")}, "does not have the same file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := emptyServer(t, nil)
				if err := mcpserver.ServeSkills(s, skillFiles()); err != nil {
					t.Fatal(err)
				}
				if err := mcpserver.AddSkill(s, tt.path, tt.files); err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want an error with %q", err, tt.want)
				}
			})
		})
	}
}

// ServeSkills adds all or none.
func TestServeSkillsAllOrNone(t *testing.T) {
	good := &fstest.MapFile{Data: []byte("---\nname: a\ndescription: d\n---\n")}
	tests := map[string]fstest.MapFS{
		"none":             {"x/y.md": {}},
		"at the root":      {"SKILL.md": good},
		"one is no good":   {"a/SKILL.md": good, "b/SKILL.md": good},
		"one is there":     {"a/SKILL.md": good, "pdf/SKILL.md": {Data: []byte("---\nname: pdf\ndescription: d\n---\n")}},
		"a hidden one":     {".a/SKILL.md": good},
		"a name of others": {"x y/a/SKILL.md": good},
	}
	for name, files := range tests {
		synctest.Test(t, func(t *testing.T) {
			s := emptyServer(t, nil)
			if err := mcpserver.ServeSkills(s, skillFiles()); err != nil {
				t.Fatal(err)
			}
			if err := mcpserver.ServeSkills(s, files); err == nil {
				t.Errorf("%s: got nil, want an error", name)
			}
			s.RemoveSkills("pdf") // the errors are remembered: nobody can be served
			if err := mcpserver.AddSkill(s, "a", fstest.MapFS{"SKILL.md": good}); err != nil {
				t.Errorf("%s: what is not there can be added: got %v", name, err)
			}
		})
	}
}

// SKILL-09: a skill and its resource come and go together, also when goroutines add and
// remove the same one at once.
func TestSkillAddedAndRemovedAtOnce(t *testing.T) {
	s := emptyServer(t, nil)
	files, err := fs.Sub(skillFiles(), "pdf")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := mcpserver.AddSkill(s, "pdf", files); err != nil && !errors.Is(err, mcpserver.ErrExists) {
					t.Error(err)
				}
				s.RemoveSkills("pdf")
			}
		})
	}
	all.Wait()
	if err := mcpserver.AddSkill(s, "pdf", files); err != nil {
		t.Errorf("after all were removed: %v", err)
	}
}
