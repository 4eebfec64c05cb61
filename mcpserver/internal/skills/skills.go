// Package skills reads Agent Skills (agentskills.io), folders with a SKILL.md, as resources
// below skill:// (SEP-2640).
package skills

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
	"github.com/troupe-dev/troupe/mcpserver/internal/filetree"
)

// Skill is one skill. Its files were read when it was added, and do not change: clients
// verify what they read by the digests in its entry.
type Skill struct {
	Entry mcp.Skill
	Path  string           // below skill://
	Files map[string]*File // by URI
}

// URI returns the URI of the skill.
func (k *Skill) URI() string { return k.Entry.URI }

// File is a file of a skill. It may belong to an enclosing skill, too.
type File struct {
	Def      mcp.Resource
	Contents mcp.ResourceContents
	data     []byte
}

const scheme = "skill://"

// URIOf returns the URI of the skill with a path.
func URIOf(path string) string { return scheme + path + "/" + skillmd.File }

// Find reads every folder of files that has a SKILL.md.
func Find(files fs.FS) ([]*Skill, error) {
	var found []*Skill
	err := walk(files, func(name string) error {
		dir := path.Dir(name)
		if path.Base(name) != skillmd.File {
			return nil
		}
		if dir == "." {
			return errors.New("SKILL.md is not in a folder, so the skill has no name: use AddSkill")
		}
		sub, err := fs.Sub(files, dir)
		if err != nil {
			return err
		}
		k, err := Read(dir, sub)
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
		return errors.New("the file system is nil")
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

// Read reads the skill in a folder.
func Read(at string, files fs.FS) (*Skill, error) {
	if err := checkSkillPath(at); err != nil {
		return nil, err
	}
	root := scheme + at
	k := &Skill{Path: at, Files: make(map[string]*File)}
	left := int64(skillmd.MaxBytes)
	err := walk(files, func(name string) error {
		if len(k.Files) == skillmd.MaxFiles {
			return fmt.Errorf("it has more than %d files", skillmd.MaxFiles)
		}
		data, err := readUpTo(files, name, left)
		if err != nil {
			return err
		}
		left -= int64(len(data))
		f := newFile(root, name, data)
		k.Files[f.Def.URI] = f
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

func newFile(root, name string, data []byte) *File {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	contents, size := filetree.Contents(name, data), int64(len(data))
	if path.Ext(name) == ".md" { // whatever the MIME table of this machine says
		contents.MIMEType = "text/markdown"
	}
	def := mcp.Resource{URI: root + "/" + strings.Join(parts, "/"), Name: path.Base(name), MIMEType: contents.MIMEType, Size: &size}
	return &File{Def: def, Contents: contents, data: data}
}

// describe fills in the entry of the skill (SKILL-03).
func (k *Skill) describe(root string) error {
	uri := root + "/" + skillmd.File
	head := k.Files[uri]
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
	k.Entry = mcp.Skill{URI: uri, Frontmatter: front}
	name, description := k.Entry.Name()
	if name != path.Base(k.Path) {
		return fmt.Errorf("SKILL.md names it %q, which is not the last part of its path", name)
	}
	head.Def.Name, head.Def.Description = name, description // SKILL-06
	for _, uri := range slices.Sorted(maps.Keys(k.Files)) {
		data := k.Files[uri].data
		k.Entry.Resources = append(k.Entry.Resources, mcp.SkillResource{URI: uri, Digest: skillmd.Digest(data), Size: int64(len(data))})
	}
	return nil
}

// CheckNested returns an error if one of two skills is within the other without being a part of
// it: the entry of the outer one lists all files below its root (SKILL-10).
func CheckNested(a, b *Skill) error { return errors.Join(a.contains(b), b.contains(a)) }

func (k *Skill) contains(other *Skill) error {
	if !strings.HasPrefix(other.Path, k.Path+"/") {
		return nil
	}
	for uri, f := range other.Files {
		if mine := k.Files[uri]; mine == nil || !bytes.Equal(mine.data, f.data) {
			return fmt.Errorf("the skill %q is within %q, which does not have the same file %s", other.Path, k.Path, uri)
		}
	}
	return nil
}

// Tree is all files of several skills.
type Tree struct {
	Files   map[string]*File
	Folders map[string][]mcp.Resource // the direct entries of each, sorted (SKILL-12)
}

// NewTree returns the tree of skills.
func NewTree(all []*Skill) *Tree {
	t := &Tree{Files: make(map[string]*File), Folders: make(map[string][]mcp.Resource)}
	outer := slices.SortedFunc(slices.Values(all), func(a, b *Skill) int { return cmp.Compare(len(a.Path), len(b.Path)) })
	for _, k := range outer {
		maps.Copy(t.Files, k.Files) // a skill's own SKILL.md says more than that of the skill around it
	}
	placed := make(map[string]bool, len(t.Files))
	for _, k := range outer { // this includes the folders between a skill and one within it
		for uri := range k.Files {
			if !placed[uri] {
				placed[uri] = true
				t.put(scheme+k.Path, t.Files[uri].Def)
			}
		}
	}
	for _, in := range t.Folders {
		slices.SortFunc(in, func(a, b mcp.Resource) int { return cmp.Compare(a.URI, b.URI) })
	}
	return t
}

// put adds a file or folder to its folder, and that to its own, up to the root.
func (t *Tree) put(root string, entry mcp.Resource) {
	at := entry.URI[:strings.LastIndexByte(entry.URI, '/')]
	_, known := t.Folders[at]
	t.Folders[at] = append(t.Folders[at], entry)
	if at == root || known {
		return
	}
	name, err := url.PathUnescape(path.Base(at))
	if err != nil {
		name = path.Base(at)
	}
	t.put(root, mcp.Resource{URI: at, Name: name, MIMEType: mcp.MIMEDirectory})
}
