// skill.go: Agent Skills as resources (SEP-2640, the Skills extension).

package mcpserver

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/clip"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver/internal/offered"
	"github.com/troupe-dev/troupe/mcpserver/internal/registry"
	"github.com/troupe-dev/troupe/mcpserver/internal/skills"
)

// AddSkill adds an Agent Skill (agentskills.io): a folder with a SKILL.md and other files,
// served as skill://<path>/SKILL.md and so on. The last part of the path is the name of the
// skill in SKILL.md; the program chooses the parts before it, as in "acme/billing/refunds".
// files is the folder itself; see [ServeSkills] for a folder of skills.
//
// AddSkill reads the files once: a client verifies them by the digests in the list. To
// change a skill, remove it and add it again. AddSkill leaves out names that begin with a
// dot, symbolic links and other files that are not ordinary. More than 512 files or 16 MiB
// are an error: hosts need not accept more.
//
// With the first skill the server declares the extension, for good. Clients without it
// find each SKILL.md among the resources.
func AddSkill(s *Server, path string, files fs.FS) error {
	k, err := skills.Read(path, files)
	if err == nil {
		err = s.skillTree.add(s, k)
	}
	if err != nil {
		return fmt.Errorf("adding the skill %q: %w", path, err)
	}
	return nil
}

// ServeSkills adds every folder of files that has a SKILL.md as a skill, by its path;
// see [AddSkill]. A skill may be within another one, which then has its files, too. On an
// error it adds none.
func ServeSkills(s *Server, files fs.FS) error {
	found, err := skills.Find(files)
	if err != nil {
		return fmt.Errorf("serving skills: %w", err)
	}
	for i, k := range found {
		if err := s.skillTree.add(s, k); err != nil {
			for _, added := range found[:i] {
				s.RemoveSkills(added.Path)
			}
			return fmt.Errorf("adding the skill %q: %w", k.Path, err)
		}
	}
	return nil
}

// RemoveSkills removes skills by their path, as [Server.RemoveTools] does. A skill within a
// removed one stays.
func (s *Server) RemoveSkills(paths ...string) {
	uris := make([]string, len(paths))
	for i, p := range paths {
		uris[i] = skills.URIOf(p)
	}
	s.resources.Remove(s.skills.Remove(uris))
}

// skillTree keeps the files of all skills as one tree.
type skillTree struct {
	pace offered.Speed
	now  atomic.Pointer[skillFiles]
}

// skillFiles is the tree of one snapshot.
type skillFiles struct {
	*skills.Tree
	of *registry.Snapshot[*skills.Skill]
}

// add adds a skill. Its resource comes first and goes last: it keeps others from the URI.
func (t *skillTree) add(s *Server, k *skills.Skill) error {
	head := k.Files[k.URI()]
	if err := s.resources.Add(&resource{def: &head.Def, supply: *t.supply(head)}); err != nil {
		return err
	}
	err := s.skills.Add(k)
	if err != nil {
		s.resources.Remove([]string{k.URI()})
	}
	return err
}

// supply returns the supply of a file.
func (t *skillTree) supply(f *skills.File) *supply {
	return &supply{mimeType: f.Contents.MIMEType, pace: &t.pace, read: func(*request, *reading) (*mcp.ReadResourceResult, error) {
		return offered.OneContent(f.Contents), nil
	}}
}

// files returns the tree of a list.
func (t *skillTree) files(l *registry.List[*skills.Skill]) *skills.Tree {
	if !l.Declared() {
		return &skills.Tree{}
	}
	now := l.Now()
	if all := t.now.Load(); all != nil && all.of == now {
		return all.Tree
	}
	all := &skillFiles{skills.NewTree(now.All()), now}
	t.now.Store(all)
	return all.Tree
}

// getSkill answers skills/get (SKILL-09).
func getSkill(s *session, a *arrival) ([]byte, error) {
	uri, ok := a.URIString()
	k, there := s.server.skills.Now().Get(uri)
	if !ok || !there {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "no skill is served at %q", clip.Name(uri))
	}
	ttl := s.server.opts.Lists.CacheFor.Milliseconds()
	raw, err := mcp.MarshalResult(&mcp.GetSkillResult{Skill: k.Entry, TTLMs: &ttl, CacheScope: s.server.listScope()}, a.version)
	return s.server.identity.Finish(raw, a.version), err
}

const directoryCursor = "directory" // the kind of its cursors

// readDirectory answers resources/directory/read, a page at a time (SKILL-12). The
// cursor is the URI of the first entry of its page, as with the lists.
func readDirectory(s *session, a *arrival) ([]byte, error) {
	var p mcp.ReadDirectoryParams
	if err := a.DecodeParams(&p); err != nil {
		return nil, err
	}
	all, ok := s.server.skillTree.files(s.server.skills).Folders[p.URI]
	if !ok {
		return nil, mcp.Errorf(mcp.CodeInvalidParams, "%q is not a directory", clip.Name(p.URI))
	}
	from := 0
	if p.Cursor != nil {
		first, ok := registry.ReadCursor(directoryCursor, *p.Cursor)
		if !ok || !strings.HasPrefix(first, p.URI+"/") {
			return nil, mcp.Errorf(mcp.CodeInvalidParams, "unknown cursor") // PAGE-05
		}
		from, _ = slices.BinarySearchFunc(all, first, func(r mcp.Resource, uri string) int { return cmp.Compare(r.URI, uri) })
	}
	to := min(from+s.server.opts.Lists.PageSize, len(all))
	result := &mcp.ReadDirectoryResult{Resources: all[from:to]}
	if to < len(all) {
		next := registry.Cursor(directoryCursor, all[to].URI)
		result.NextCursor = &next
	}
	raw, err := mcp.MarshalResult(result, a.version)
	return s.server.identity.Finish(raw, a.version), err
}
