// Package version has the command "troupe version" and describes the build.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/mcp"
)

// version describes the program.
type version struct {
	Module    string        `json:"module"`
	Version   string        `json:"version"`
	Commit    string        `json:"commit,omitempty"`
	Modified  bool          `json:"modified,omitzero"` // built from a changed work tree
	Go        string        `json:"go"`
	Platform  string        `json:"platform"`
	Protocols []mcp.Version `json:"protocols"` // of MCP, the newest first
}

func Current() version {
	v := version{
		Module: "github.com/troupe-dev/troupe", Version: "(devel)", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Protocols: mcp.Versions(),
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the MCP revisions spoken",
		Long:    "Print the version, with --json also the commit it was built from, and the revisions of MCP that are spoken, the newest first.",
		Example: "  troupe version --json",
		Args:    env.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := Current()
			if asJSON {
				return e.PrintJSON(v)
			}
			_, err := fmt.Fprintf(e.Stdout, "troupe %s (%s, %s)\nMCP %v\n", v.Version, v.Go, v.Platform, v.Protocols)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
