package main

import (
	"embed"
	"io/fs"

	"github.com/troupe-dev/troupe/mcpserver"
)

//go:embed testdata/skills
var skills embed.FS

// addSkills serves every folder below testdata/skills that has a SKILL.md.
func addSkills(s *mcpserver.Server) error {
	files, err := fs.Sub(skills, "testdata/skills")
	if err != nil {
		return err
	}
	return mcpserver.ServeSkills(s, files)
}
