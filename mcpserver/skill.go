// skill.go: Agent Skills as resources (SEP-2640, the Skills extension).

package mcpserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/skillmd"
	"github.com/troupe-dev/troupe/mcp"
)

// skill is one skill of a server. What is listed of it is what is read: its files
// were read when it was added, and do not change.
type skill struct {
	entry mcp.Skill
	path  string // below skill://
	files map[string]*skillFile
}

func (k *skill) name() string { return k.entry.URI }

// skillFile is a file of a skill, which may belong to an enclosing one, too.
type skillFile struct {
	def  mcp.Resource
	data []byte
	supply
}

const skillScheme = "skill://"

// AddSkill adds an Agent Skill (agentskills.io): a folder with a SKILL.md and whatever
// files go with it, served as skill://<path>/SKILL.md and so on (SKILL-03, SKILL-06).
// The last part of the path is the name that SKILL.md gives the skill; what is before
// it, if anything, is up to the program, as in "acme/billing/refunds". files is the
// folder itself; see [ServeSkills] for one of many.
//
// The files are read now, and never again: a client verifies what it reads by what was
// listed. A skill that has changed is removed and added anew. Names that begin with a
// dot are left out, and so is what is no ordinary file, such as symbolic links. More
// than 512 files or 16 MiB are an error, as hosts need not take more (SKILL-07).
//
// With the first skill the server declares the extension, for good. Clients without it
// find each SKILL.md among the resources.
func AddSkill(s *Server, path string, files fs.FS) error {
	k, err := newSkill(path, files)
	if err == nil {
		err = s.addSkill(k)
	}
	if err != nil {
		return s.fail(fmt.Errorf("adding the skill %q: %w", path, err))
	}
	return nil
}

// ServeSkills adds every folder of files that has a SKILL.md as a skill, by its path;
// see [AddSkill]. A skill may be within another one: its files are then among those of
// the other, too (SKILL-10). If one is no good, none is added.
func ServeSkills(s *Server, files fs.FS) error {
	skills, err := findSkills(files)
	if err != nil {
		return s.fail(fmt.Errorf("serving skills: %w", err))
	}
	for i, k := range skills {
		if err := s.addSkill(k); err != nil {
			for _, added := range skills[:i] {
				s.RemoveSkills(added.path)
			}
			return s.fail(fmt.Errorf("adding the skill %q: %w", k.path, err))
		}
	}
	return nil
}

func findSkills(files fs.FS) ([]*skill, error) {
	var found []*skill
	err := walk(files, func(name string) error {
		dir := path.Dir(name)
		if path.Base(name) != skillmd.File {
			return nil
		}
		if dir == "." {
			return errors.New("SKILL.md is not in a folder, and so the skill has no name: use AddSkill")
		}
		sub, err := fs.Sub(files, dir)
		if err != nil {
			return err
		}
		k, err := newSkill(dir, sub)
		if err != nil {
			return fmt.Errorf("the skill %q: %w", dir, err)
		}
		found = append(found, k)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("no folder has a SKILL.md")
	}
	return found, err
}

// walk calls each for the ordinary files that are not hidden.
func walk(files fs.FS, each func(name string) error) error {
	if files == nil {
		return errors.New("there are no files")
	}
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return each(name)
	})
}

// newSkill reads a skill.
func newSkill(at string, files fs.FS) (*skill, error) {
	if err := checkSkillPath(at); err != nil {
		return nil, err
	}
	root := skillScheme + at
	k := &skill{path: at, files: make(map[string]*skillFile)}
	left, pace := int64(skillmd.MaxBytes), new(speed)
	err := walk(files, func(name string) error {
		if len(k.files) == skillmd.MaxFiles {
			return fmt.Errorf("it has more than %d files", skillmd.MaxFiles)
		}
		data, err := readUpTo(files, name, left)
		if err != nil {
			return err
		}
		left -= int64(len(data))
		f := newSkillFile(root, name, data, pace)
		k.files[f.def.URI] = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	return k, k.describe(root)
}

// checkSkillPath holds a path to what can stand in a URI as it is (SKILL-04, SKILL-06).
func checkSkillPath(at string) error {
	for segment := range strings.SplitSeq(at, "/") {
		if segment == "" || segment[0] == '.' || strings.ContainsFunc(segment, isReserved) {
			return errors.New("its path has a part that is empty, begins with a dot, or has more than letters, digits, and any of -._~")
		}
	}
	return skillmd.CheckName(path.Base(at))
}

// isReserved reports whether a character needs to be encoded in a URI (RFC 3986, 2.3).
func isReserved(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~", r)
}

func readUpTo(files fs.FS, name string, left int64) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, left+1))
	if err == nil && int64(len(data)) > left {
		err = fmt.Errorf("its files have more than %d bytes", skillmd.MaxBytes)
	}
	return data, err
}

func newSkillFile(root, name string, data []byte, pace *speed) *skillFile {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	f := &skillFile{data: data}
	contents, size := fileContents(name, data), int64(len(data))
	if path.Ext(name) == ".md" { // whatever this machine calls it
		contents.MIMEType = "text/markdown"
	}
	f.def = mcp.Resource{URI: root + "/" + strings.Join(parts, "/"), Name: path.Base(name), MIMEType: contents.MIMEType, Size: &size}
	f.supply = supply{mimeType: contents.MIMEType, pace: pace, read: func(*request, *reading) (*mcp.ReadResourceResult, error) {
		return oneContent(contents), nil
	}}
	return f
}

// describe makes the entry of the skill (SKILL-03).
func (k *skill) describe(root string) error {
	uri := root + "/" + skillmd.File
	head := k.files[uri]
	if head == nil {
		return errors.New("it has no SKILL.md")
	}
	if !utf8.Valid(head.data) {
		return errors.New("SKILL.md is not UTF-8")
	}
	front, err := skillmd.Frontmatter(head.data)
	if err != nil {
		return fmt.Errorf("SKILL.md: %w", err)
	}
	k.entry = mcp.Skill{URI: uri, Frontmatter: front}
	name, description := k.entry.Name()
	if name != path.Base(k.path) {
		return fmt.Errorf("SKILL.md names it %q, which is not the last part of its path", name)
	}
	head.def.Name, head.def.Description = name, description // SKILL-06
	for _, uri := range slices.Sorted(maps.Keys(k.files)) {
		data := k.files[uri].data
		k.entry.Resources = append(k.entry.Resources, mcp.SkillResource{URI: uri, Digest: skillmd.Digest(data), Size: int64(len(data))})
	}
	return nil
}

// addSkill adds a skill that fits to those that are there.
func (s *Server) addSkill(k *skill) error {
	s.skilling.Lock()
	defer s.skilling.Unlock()
	for _, other := range s.skills.Load().sorted {
		if err := errors.Join(k.contains(other), other.contains(k)); err != nil {
			return err
		}
	}
	if err := s.skills.add(k); err != nil {
		return err
	}
	head := k.files[k.entry.URI]
	err := s.resources.add(&resource{def: &head.def, supply: head.supply})
	if err != nil {
		s.skills.remove([]string{k.entry.URI})
	}
	return err
}

// contains holds a skill that is within this one to be a part of it: what is listed of
// this one is all there is below its root (SKILL-10).
func (k *skill) contains(other *skill) error {
	if !strings.HasPrefix(other.path, k.path+"/") {
		return nil
	}
	for uri, f := range other.files {
		if mine := k.files[uri]; mine == nil || !bytes.Equal(mine.data, f.data) {
			return fmt.Errorf("the skill %q is within %q, which has not the same file %s", other.path, k.path, uri)
		}
	}
	return nil
}

// RemoveSkills removes skills by their path, as [Server.RemoveTools] does. Another one
// that is within stays.
func (s *Server) RemoveSkills(paths ...string) {
	uris := make([]string, len(paths))
	for i, p := range paths {
		uris[i] = skillScheme + p + "/" + skillmd.File
	}
	s.skilling.Lock()
	defer s.skilling.Unlock()
	s.skills.remove(uris)
	s.resources.remove(uris)
}

// skillTree is what all skills have below their roots, at one moment.
type skillTree struct {
	of      *catalog[*skill]
	files   map[string]*skillFile
	folders map[string][]mcp.Resource // what is directly in each, sorted (SKILL-12)
}

// skillFiles returns the tree as it is now.
func (s *Server) skillFiles() *skillTree {
	if !s.hasSkills() {
		return &skillTree{}
	}
	now := s.skills.Load()
	if t := s.skillTree.Load(); t != nil && t.of == now {
		return t
	}
	t := &skillTree{of: now, files: make(map[string]*skillFile), folders: make(map[string][]mcp.Resource)}
	outer := slices.SortedFunc(slices.Values(now.sorted), func(a, b *skill) int { return cmp.Compare(len(a.path), len(b.path)) })
	for _, k := range outer {
		maps.Copy(t.files, k.files) // a skill's own SKILL.md says more than that of the skill around it
	}
	placed := make(map[string]bool, len(t.files))
	for _, k := range outer { // so that the folders between a skill and one within are there, too
		for uri := range k.files {
			if !placed[uri] {
				placed[uri] = true
				t.put(skillScheme+k.path, t.files[uri].def)
			}
		}
	}
	for _, in := range t.folders {
		slices.SortFunc(in, func(a, b mcp.Resource) int { return cmp.Compare(a.URI, b.URI) })
	}
	s.skillTree.Store(t)
	return t
}

// put puts a file or folder into its folder, and that into its own, up to the root.
func (t *skillTree) put(root string, what mcp.Resource) {
	at := what.URI[:strings.LastIndexByte(what.URI, '/')]
	_, known := t.folders[at]
	t.folders[at] = append(t.folders[at], what)
	if at == root || known {
		return
	}
	name, err := url.PathUnescape(path.Base(at))
	if err != nil {
		name = path.Base(at)
	}
	t.put(root, mcp.Resource{URI: at, Name: name, MIMEType: mcp.MIMEDirectory})
}

// listSkills answers skills/list (SKILL-08).
func (s *session) listSkills(a *arrival) ([]byte, error) { return giveList(s, &s.server.skills, a) }

// getSkill answers skills/get (SKILL-09).
func (s *session) getSkill(a *arrival) ([]byte, error) {
	uri, ok := a.URIString()
	k, there := s.server.skills.Load().named(uri)
	if !ok || !there {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no skill is served at %q", shorten(uri))
	}
	ttl := s.server.opts.CacheFor.Milliseconds()
	raw, err := mcp.MarshalResult(&mcp.GetSkillResult{Skill: k.entry, TTLMs: &ttl, CacheScope: s.server.listScope()}, a.version)
	return s.server.withMeta(raw, a.version), err
}

const directoryCursor = "directory" // the kind of its cursors

// readDirectory answers resources/directory/read, a page at a time (SKILL-12). The
// cursor is the URI of the first entry of its page, as with the lists.
func (s *session) readDirectory(a *arrival) ([]byte, error) {
	var p mcp.ReadDirectoryParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	all, ok := s.server.skillFiles().folders[p.URI]
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%q is not a directory", shorten(p.URI))
	}
	from := 0
	if p.Cursor != nil {
		first, ok := readCursor(directoryCursor, *p.Cursor)
		if !ok || !strings.HasPrefix(first, p.URI+"/") {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor") // PAGE-05
		}
		from, _ = slices.BinarySearchFunc(all, first, func(r mcp.Resource, uri string) int { return cmp.Compare(r.URI, uri) })
	}
	to := min(from+s.server.opts.PageSize, len(all))
	result := &mcp.ReadDirectoryResult{Resources: all[from:to]}
	if to < len(all) {
		next := cursorAt(directoryCursor, all[to].URI)
		result.NextCursor = &next
	}
	raw, err := mcp.MarshalResult(result, a.version)
	return s.server.withMeta(raw, a.version), err
}
