package resource

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync/atomic"

	"github.com/troupe-dev/troupe/internal/skillmd"
	"github.com/troupe-dev/troupe/mcp"
)

// CheckSkill refuses an entry that no host may load (SKILL-03, SKILL-04, SKILL-05).
func CheckSkill(s *mcp.Skill) error {
	if err := s.Validate(); err != nil {
		return err
	}
	root, last, ok := skillmd.Root(s.URI)
	name, description := s.Name()
	switch {
	case !ok || CheckURI(s.URI) != nil:
		return fmt.Errorf("skill %.200q: that is not the URI of a SKILL.md", s.URI)
	case description == "" || name != last:
		return fmt.Errorf("skill %.200q: it has no description, or another name than its folder", s.URI)
	case s.Dynamic:
		return nil
	}
	seen := make(map[string]bool, len(s.Resources))
	for _, f := range s.Resources {
		rest, within := strings.CutPrefix(f.URI, root+"/")
		hex, sum := strings.CutPrefix(f.Digest, "sha256:")
		if !within || rest == "" || seen[f.URI] || !sum || len(hex) != 64 || f.Size < 0 || CheckURI(f.URI) != nil {
			return fmt.Errorf("skill %.200q: its file %.200q is not within it, listed twice, or lacks digest or size", s.URI, f.URI)
		}
		seen[f.URI] = true
	}
	if !seen[s.URI] {
		return fmt.Errorf("skill %.200q: its files lack SKILL.md", s.URI)
	}
	return nil
}

// CheckSkillLimits refuses a skill beyond the size that hosts have to take (SKILL-07).
func CheckSkillLimits(s *mcp.Skill) error {
	total := int64(0)
	for _, f := range s.Resources {
		if total += f.Size; total > skillmd.MaxBytes || f.Size > skillmd.MaxBytes {
			break
		}
	}
	if len(s.Resources) > skillmd.MaxFiles || total > skillmd.MaxBytes {
		return fmt.Errorf("skill %.200q: it has more than %d files or %d bytes", s.URI, skillmd.MaxFiles, skillmd.MaxBytes)
	}
	return nil
}

// ErrSkillChanged is what a file is that is not what the skill's entry says.
var ErrSkillChanged = errors.New("mcpclient: the skill is not what was said of it")

// Files are the files of a skill that was loaded, as its entry has them.
type Files struct {
	entry *mcp.Skill
	root  string
	left  atomic.Int64 // bytes of a dynamic skill that may yet be read
	fetch func(ctx context.Context, uri string, fresh bool) (*mcp.ReadResourceResult, error)
	fail  func(error) error
}

// NewFiles returns the files of an entry, which must not be changed. Fetch reads one from the
// server, fresh without what was kept of an older read; fail makes the errors that are returned.
func NewFiles(entry *mcp.Skill, fetch func(ctx context.Context, uri string, fresh bool) (*mcp.ReadResourceResult, error), fail func(error) error) *Files {
	s := &Files{entry: entry, fetch: fetch, fail: fail}
	s.root, _, _ = skillmd.Root(entry.URI)
	s.left.Store(skillmd.MaxBytes)
	return s
}

// Head returns SKILL.md, whose frontmatter is that of the entry.
func (s *Files) Head(ctx context.Context) (string, error) {
	head, err := s.read(ctx, s.entry.URI)
	if err != nil {
		return "", err
	}
	front, err := skillmd.Frontmatter(bytesOf(head))
	if err != nil {
		return "", s.changed(s.entry.URI, err.Error())
	}
	if !skillmd.Same(front, s.entry.Frontmatter) {
		return "", s.changed(s.entry.URI, "its frontmatter is another one")
	}
	return string(bytesOf(head)), nil
}

// Read reads a file of the skill, by its path or URI, and verifies it.
func (s *Files) Read(ctx context.Context, file string) (*mcp.ResourceContents, error) {
	uri, ok := s.uri(file)
	if !ok {
		return nil, s.changed(file, "it is no file of the skill")
	}
	return s.read(ctx, uri)
}

// read reads a file that the entry has, or any of a dynamic skill. What was kept of an
// older read may be of an older entry: then the server is asked.
func (s *Files) read(ctx context.Context, uri string) (*mcp.ResourceContents, error) {
	contents, err := s.readOnce(ctx, uri, false)
	if errors.Is(err, ErrSkillChanged) {
		contents, err = s.readOnce(ctx, uri, true)
	}
	return contents, err
}

func (s *Files) readOnce(ctx context.Context, uri string, fresh bool) (*mcp.ResourceContents, error) {
	res, err := s.fetch(ctx, uri, fresh)
	if err != nil {
		return nil, err
	}
	if len(res.Contents) != 1 || res.Contents[0].URI != uri {
		return nil, s.changed(uri, "what was read is not that file")
	}
	contents := res.Contents[0]
	why, err := s.Verify(uri, bytesOf(&contents))
	if why != "" {
		err = s.changed(uri, why)
	} else if err != nil {
		err = s.fail(err)
	}
	return &contents, err
}

// changed is an ErrSkillChanged of a file.
func (s *Files) changed(file, why string) error {
	return s.fail(fmt.Errorf("%w: %.200q of %.200q: %s", ErrSkillChanged, file, s.entry.URI, why))
}

// bytesOf are the bytes of a file, which the digest is of.
func bytesOf(c *mcp.ResourceContents) []byte {
	if c.Blob != nil {
		return c.Blob
	}
	return []byte(c.Text)
}

// uri returns the URI of a file of the skill.
func (s *Files) uri(file string) (uri string, ok bool) {
	if rest, within := strings.CutPrefix(file, s.root+"/"); within {
		var err error
		if file, err = url.PathUnescape(rest); err != nil {
			return "", false
		}
	}
	if file = path.Clean(file); file == "." || strings.HasPrefix(file, "../") || file == ".." || strings.HasPrefix(file, "/") {
		return "", false
	}
	if s.entry.Dynamic {
		parts := strings.Split(file, "/")
		for i, part := range parts {
			parts[i] = url.PathEscape(part)
		}
		return s.root + "/" + strings.Join(parts, "/"), true
	}
	for _, f := range s.entry.Resources {
		if name, err := url.PathUnescape(strings.TrimPrefix(f.URI, s.root+"/")); err == nil && name == file {
			return f.URI, true
		}
	}
	return "", false
}

// Verify holds a file to the entry (SKILL-13): why says what is wrong with it. The error says
// that the skill is beyond the limits.
func (s *Files) Verify(uri string, data []byte) (why string, err error) {
	if s.entry.Dynamic {
		if s.left.Add(-int64(len(data))) < 0 { // SKILL-07
			return "", fmt.Errorf("skill %.200q: its files have more than %d bytes", s.entry.URI, skillmd.MaxBytes)
		}
		return "", nil
	}
	for _, f := range s.entry.Resources {
		switch {
		case f.URI != uri:
			continue
		case f.Size != int64(len(data)):
			return fmt.Sprintf("it has %d bytes and not %d", len(data), f.Size), nil
		case f.Digest != skillmd.Digest(data):
			return "its digest is another one", nil
		}
		return "", nil
	}
	return "it is no file of the skill", nil
}
