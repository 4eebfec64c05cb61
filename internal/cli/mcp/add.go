package mcp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// addFlags are the flags of "troupe mcp add".
type addFlags struct {
	setup.ScopeFlags
	transport   string
	env         []string
	envFile     string
	headers     []string
	helper      string
	dir         string
	timeout     time.Duration
	description string
	allow, deny []string
	force       bool
	trust       bool
}

func addCommand(e *env.Env) *cobra.Command {
	var f addFlags
	cmd := &cobra.Command{
		Use:   "add [FLAGS] NAME {URL | COMMAND [ARGUMENT...]}",
		Short: "Add a server to a configuration, and approve it",
		Long: `Add a server to a configuration file, and approve it as it is: you have just typed it. Flags stand before NAME; what
follows COMMAND is its own. Write variables as ${NAME} to keep secrets out of the file: they are put in when the server
is started, and never by a shell.`,
		Example: `  troupe mcp add filesystem npx -y @modelcontextprotocol/server-filesystem .
  troupe mcp add -s user -e 'GITHUB_TOKEN=${GITHUB_TOKEN}' github github-mcp-server stdio
  troupe mcp add --header 'Authorization: Bearer ${TOKEN}' docs https://docs.example/mcp`,
		DisableFlagsInUseLine: true, // they stand before NAME
		RunE: func(cmd *cobra.Command, args []string) error {
			def, err := f.definition(args)
			if err != nil {
				return err
			}
			path, err := f.Path()
			if err != nil {
				return err
			}
			return e.WithStore(func(s store.Store) error {
				switch err := hostconfig.Add(path, args[0], def, f.force); {
				case errors.Is(err, hostconfig.ErrExists):
					return env.Usagef("%w; replace it with --force", err)
				case err != nil:
					return env.Usagef("%w", err)
				}
				return approveAdded(cmd.Context(), e, s, path, args[0], f.trust)
			})
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	f.ScopeFlags.Add(cmd, "write to")
	flags.StringVarP(&f.transport, "transport", "t", "", "`HOW` to reach it: stdio, http or sse (default: by what follows NAME)")
	flags.StringArrayVarP(&f.env, "env", "e", nil, "set `NAME=VALUE` in the environment of the command (repeat for more)")
	flags.StringVar(&f.envFile, "env-file", "", "read the environment of the command from this `FILE`")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "send the header `NAME:VALUE` to the URL (repeat for more)")
	flags.StringVar(&f.helper, "headers-helper", "", "`COMMAND` that prints headers as a JSON object, run at each connect")
	flags.StringVar(&f.dir, "cwd", "", "run the command in this `FOLDER`")
	flags.DurationVar(&f.timeout, "timeout", 0, "give each call this `TIME`, such as 30s")
	flags.StringVar(&f.description, "description", "", "say in a `TEXT` what it is for")
	flags.StringSliceVar(&f.allow, "allow", nil, "offer only the `TOOL` (repeat for more)")
	flags.StringSliceVar(&f.deny, "deny", nil, "never offer the `TOOL` (repeat for more)")
	flags.BoolVarP(&f.force, "force", "f", false, "replace a server of that name")
	flags.BoolVar(&f.trust, "trust", false, "also believe what it says of its own tools, such as that one only reads")
	return cmd
}

// definition is what the command line says.
func (f *addFlags) definition(args []string) (*hostconfig.Definition, error) {
	if len(args) > 1 && args[1] == "--" {
		args = slices.Delete(slices.Clone(args), 1, 2)
	}
	if len(args) < 2 {
		return nil, env.Usagef("give a name, and a command with its arguments or a URL\nSee troupe mcp add --help")
	}
	d := &hostconfig.Definition{
		EnvFile: f.envFile, HeadersHelper: f.helper, Dir: f.dir, Description: f.description, Tools: hostconfig.ChoiceOf(f.allow, f.deny),
	}
	if f.timeout != 0 {
		d.Timeout = f.timeout.String()
	}
	var err error
	if d.Env, err = pairs("--env", "NAME=VALUE", "=", f.env); err != nil {
		return nil, err
	}
	if d.Headers, err = pairs("--header", "NAME: VALUE", ":", f.headers); err != nil {
		return nil, err
	}
	remote := setup.IsURL(args[1])
	switch f.transport {
	case "":
	case "stdio":
		remote = false
	case "http", "sse":
		remote, d.Type = true, f.transport
	default:
		return nil, env.Usagef("--transport %q: want stdio, http or sse", f.transport)
	}
	if !remote {
		d.Command, d.Args = args[1], args[2:]
		if len(f.headers) > 0 || f.helper != "" {
			return nil, env.Usagef("headers are for servers with a URL")
		}
		return d, nil
	}
	if len(args) > 2 {
		return nil, env.Usagef("a URL takes no arguments, got %q", args[2:])
	}
	if len(f.env) > 0 || f.envFile != "" || f.dir != "" {
		return nil, env.Usagef("--env, --env-file and --cwd are for servers with a command")
	}
	d.URL = args[1]
	return d, nil
}

// pairs reads flags of the form NAME=VALUE.
func pairs(flag, form, separator string, values []string) (map[string]string, error) {
	if len(values) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(values))
	for _, v := range values {
		name, value, ok := strings.Cut(v, separator)
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, env.Usagef("%s wants %s", flag, form) // the value may be a secret: it is not repeated
		}
		m[name] = strings.TrimSpace(value)
	}
	return m, nil
}

// approveAdded records that a server that was just added may be started.
func approveAdded(ctx context.Context, e *env.Env, s store.Approvals, path, name string, trust bool) error {
	servers, err := mcpclient.LoadConfig(path)
	if err != nil {
		return env.Usagef("%w", err)
	}
	i := slices.IndexFunc(servers, func(s mcpclient.Server) bool { return s.Name == name })
	if i < 0 {
		return fmt.Errorf("%s: the server %q is not there any more", path, name)
	}
	def := &servers[i]
	if err := s.Approve(ctx, setup.ApprovalOf(def, trust)); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "added %s to %s: %s\n", env.Plain(name), path, setup.ReachLines(def))
	if def.Err != nil {
		e.Note("it cannot be used yet: %s", env.PlainLines(def.Err.Error()))
	}
	return nil
}

func rmCommand(e *env.Env) *cobra.Command {
	var f setup.ScopeFlags
	cmd := &cobra.Command{
		Use:     "rm SERVER...",
		Aliases: []string{"remove"},
		Short:   "Take servers out of a configuration",
		Long:    "Take servers out of the project's file, your own, or the one that is named. Recorded approvals of them stay.",
		Example: "  troupe mcp rm filesystem\n  troupe mcp rm -s user github",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return env.Usagef("name the servers to remove; troupe mcp ls lists them")
			}
			path, err := f.Path()
			if err != nil {
				return err
			}
			for _, name := range args {
				switch err := hostconfig.Remove(path, name); {
				case errors.Is(err, hostconfig.ErrNoServer):
					return env.Usagef("%w; troupe mcp ls shows which file each server is from", err)
				case err != nil:
					return env.Usagef("%w", err)
				}
				fmt.Fprintf(e.Stdout, "removed %s from %s\n", env.Plain(name), path)
			}
			return nil
		},
	}
	f.Add(cmd, "write to")
	return cmd
}

// shownServer is a server as "mcp get" shows it.
type shownServer struct {
	setup.Configured
	Line       int                   `json:"line,omitempty"`
	Definition hostconfig.Definition `json:"definition"`
}

func getCommand(e *env.Env) *cobra.Command {
	var (
		f       setup.ServerFlags
		asJSON  bool
		secrets bool
	)
	cmd := &cobra.Command{
		Use:     "get SERVER",
		Short:   "Show how a server is configured; nothing is started",
		Long:    "Show how a server is configured, and where; nothing is started. Secrets that stand in your own file are masked; what stands in a project's file is not. Variables are shown by name.",
		Example: "  troupe mcp get filesystem\n  troupe mcp get github --json --show-secrets",
		Args:    env.OneArg("the name of a server"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			all, err := setup.AllServers(e, &f)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(all, func(s mcpclient.Server) bool { return s.Name == args[0] })
			if i < 0 {
				return setup.NoServer(args[0], all)
			}
			shown, err := showServer(cmd.Context(), &f, s, &all[i], secrets)
			if err != nil {
				return err
			}
			if asJSON {
				return e.PrintJSON(shown)
			}
			return printServer(e, shown)
		}),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&secrets, "show-secrets", false, "mask nothing")
	return cmd
}

// showServer collects what is known of a server without starting it.
func showServer(ctx context.Context, f *setup.ServerFlags, s store.Approvals, def *mcpclient.Server, secrets bool) (*shownServer, error) {
	c, err := f.Describe(ctx, s, def)
	if err != nil {
		return nil, err
	}
	shown := &shownServer{Configured: c}
	if def.File == "" {
		shown.Definition = hostconfig.Definition{Command: def.Command, Args: def.Args, URL: def.URL}
		return shown, nil
	}
	file, err := hostconfig.Load(def.File, &hostconfig.Options{Raw: true})
	if err != nil {
		return nil, env.Usagef("%w", err)
	}
	for i := range file.Servers {
		r := &file.Servers[i]
		if r.Name != def.Name {
			continue
		}
		shown.Line = r.Line
		shown.Definition = r.Definition()
		if mine := setup.Own(def); secrets && mine {
			shown.Reach = def.Reach(false)
		} else if mine {
			mask(shown.Definition.Env)
			mask(shown.Definition.Headers)
		}
	}
	return shown, nil
}

// mask hides values that are not put in from elsewhere.
func mask(values map[string]string) {
	for name, v := range values {
		if v != "" && !strings.Contains(v, "$") {
			values[name] = "********"
		}
	}
}

func printServer(e *env.Env, s *shownServer) error {
	d := &s.Definition
	rows := [][]string{{"name", s.Name}, {"status", s.Status}}
	add := func(label, value string) {
		if value != "" {
			rows = append(rows, []string{label, value})
		}
	}
	if s.File != "" {
		add("file", fmt.Sprintf("%s:%d", s.File, s.Line))
	}
	add("type", d.Type)
	for i, part := range s.Reach {
		label, text, _ := strings.Cut(part, ": ")
		switch {
		case i > 0:
		case s.URL != "":
			label, text = "url", part
		default:
			label, text = "command", part
		}
		add(label, text)
	}
	add("timeout", d.Timeout)
	if d.Tools != nil {
		add("only tools", strings.Join(d.Tools.Allow, ", "))
		add("never tools", strings.Join(d.Tools.Deny, ", "))
	}
	add("about", d.Description)
	if s.Trusted {
		add("trusted", "yes")
	}
	add("error", s.Error)
	return e.Table(rows)
}

// relative shortens a path below the current folder.
func relative(path string) string {
	if wd, err := filepath.Abs("."); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}
