package mcp

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/internal/hostimport"
)

func importCommand(e *env.Env) *cobra.Command {
	var (
		f     setup.ScopeFlags
		force bool
	)
	cmd := &cobra.Command{
		Use:   "import [HOST|FILE [SERVER...]]",
		Short: "Copy servers from the configuration of another host",
		Long: `Copy servers from the configuration of another host. Without arguments it lists what is found. HOST is one of
` + strings.Join(hostimport.Hosts(), ", ") + `.
What is copied has to be approved before it is started; trust is not copied.`,
		Example: "  troupe mcp import\n  troupe mcp import cursor\n  troupe mcp import -s user ~/.config/goose/config.yaml github",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listImports(e)
			}
			path, err := f.Path()
			if err != nil {
				return err
			}
			sources, err := sourcesOf(args[0])
			if err != nil {
				return err
			}
			return importFrom(e, sources, args[1:], path, force)
		},
	}
	f.Add(cmd, "write to")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "replace servers of the same names")
	return cmd
}

// sourcesOf finds what the first argument names.
func sourcesOf(name string) ([]hostimport.Source, error) {
	if slices.Contains(hostimport.Hosts(), name) {
		places := hostimport.Here()
		if found := places.Find(name); len(found) > 0 {
			return found, nil
		}
		return nil, env.Usagef("%s has no configuration here; name its file", name)
	}
	if _, err := os.Stat(name); err != nil {
		return nil, env.Usagef("%q is neither a host (%s) nor a file", name, strings.Join(hostimport.Hosts(), ", "))
	}
	return []hostimport.Source{{Path: name}}, nil
}

func listImports(e *env.Env) error {
	places := hostimport.Here()
	rows := [][]string{{"HOST", "FILE", "SERVERS"}}
	for _, s := range places.Find("") {
		servers, err := hostimport.Read(s.Host, s.Path)
		if err != nil {
			rows = append(rows, []string{s.Host, relative(s.Path), err.Error()})
			continue
		}
		names := make([]string, len(servers))
		for i := range servers {
			names[i] = servers[i].Name
		}
		rows = append(rows, []string{s.Host, relative(s.Path), strings.Join(names, ", ")})
	}
	if len(rows) == 1 {
		e.Note("no other host is configured here")
		return nil
	}
	return e.Table(rows)
}

// importFrom copies servers, all or those that are named. One that cannot be copied
// does not keep the others back.
func importFrom(e *env.Env, sources []hostimport.Source, names []string, path string, force bool) error {
	copied, seen, failed := 0, map[string]bool{}, false
	for _, source := range sources {
		if sameFile(source.Path, path) {
			continue
		}
		servers, err := hostimport.Read(source.Host, source.Path)
		if err != nil {
			return env.Usagef("%w", err)
		}
		for i := range servers {
			s := &servers[i]
			if seen[s.Name] || len(names) > 0 && !slices.Contains(names, s.Name) {
				continue // the file before this one counts more
			}
			seen[s.Name] = true
			err := s.Err
			if err == nil {
				err = hostconfig.Add(path, s.Name, &s.Def, force)
			}
			switch {
			case errors.Is(err, hostconfig.ErrExists):
				e.Note("%s: %s has one of this name; replace it with --force", env.Plain(s.Name), path)
			case err != nil:
				failed = true
				e.Note("%s: not copied: %s", env.Plain(s.Name), env.PlainLines(err.Error()))
			default:
				copied++
				fmt.Fprintf(e.Stdout, "copied %s from %s\n", env.Plain(s.Name), relative(source.Path))
				for _, note := range s.Notes {
					e.Note("%s: %s", env.Plain(s.Name), env.PlainLines(note))
				}
			}
		}
	}
	for _, name := range names {
		if !seen[name] {
			return env.Usagef("there is no server %q in what was read", name)
		}
	}
	if copied > 0 {
		e.Note("look at them with troupe mcp ls, approve them with troupe mcp approve")
	}
	if failed {
		return errors.New("not every server could be copied")
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y)
}
