package setup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcpclient"
)

// UserFile is the file of the user's own servers, which are there in every project:
// mcp.json in $XDG_CONFIG_HOME/troupe, or what the operating system has in its
// place. It is "" where there is no such place.
func UserFile() string {
	dir := config.Here().User
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "troupe", "mcp.json")
}

// defaultFiles are the files read where no flag names one: those of the configuration, or
// else the project's, then the user's.
func defaultFiles(e *env.Env) ([]string, error) {
	s, err := e.Config()
	if err != nil {
		return nil, err
	}
	if s.MCP.Files != nil {
		return s.MCP.Files, nil
	}
	var files []string
	for _, file := range []string{ProjectFile, UserFile()} {
		if file == "" {
			continue
		}
		switch _, err := os.Stat(file); {
		case err == nil:
			files = append(files, file)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, env.Usagef("looking for %s: %w", file, err)
		}
	}
	return files, nil
}

// Own reports whether a definition is in the user's own file: what stands there the
// user has put there, which is consent.
func Own(s *mcpclient.Server) bool { return s.File != "" && s.File == UserFile() }

// ScopeFlags choose the file that a command writes.
type ScopeFlags struct {
	scope string
	file  string
}

func (f *ScopeFlags) Add(cmd *cobra.Command, verb string) {
	cmd.Flags().StringVarP(&f.scope, "scope", "s", "", verb+" `WHERE`: project ("+ProjectFile+", the default) or user (your own, for every project)")
	cmd.Flags().StringVar(&f.file, "mcp-config", "", verb+" this `FILE`")
}

// Path is the file that is meant.
func (f *ScopeFlags) Path() (string, error) {
	switch {
	case f.file != "" && f.scope != "":
		return "", env.Usagef("--scope and --mcp-config exclude each other")
	case f.file != "":
		return f.file, nil
	}
	switch f.scope {
	case "", "project", "local":
		return ProjectFile, nil
	case "user", "global":
		if path := UserFile(); path != "" {
			return path, nil
		}
		return "", env.Usagef("there is no folder for your configuration: set HOME or XDG_CONFIG_HOME, or name a file with --mcp-config")
	}
	return "", env.Usagef("--scope %q: want project or user", f.scope)
}

// ProjectFile is the file that names a project's servers.
const ProjectFile = ".mcp.json"
