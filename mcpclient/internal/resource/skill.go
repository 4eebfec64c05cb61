package resource

import (
	"fmt"
	"strings"

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
