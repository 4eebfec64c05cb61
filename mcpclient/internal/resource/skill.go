package resource

import (
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

// Files are the files of a skill that was loaded, as its entry has them.
type Files struct {
	entry *mcp.Skill
	root  string
	left  atomic.Int64 // bytes of a dynamic skill that may yet be read
}

// NewFiles returns the files of an entry, which must not be changed.
func NewFiles(entry *mcp.Skill) *Files {
	s := &Files{entry: entry}
	s.root, _, _ = skillmd.Root(entry.URI)
	s.left.Store(skillmd.MaxBytes)
	return s
}

// URI returns the URI of a file of the skill.
func (s *Files) URI(file string) (uri string, ok bool) {
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
