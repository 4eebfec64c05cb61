// Package mcp has the commands "troupe mcp", which configure MCP servers, approve them, list
// what they offer and call them.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/weburl"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "mcp",
		Short: "Configure MCP servers, look at them, use them",
	}, addCommand(e), lsCommand(e), getCommand(e), rmCommand(e), importCommand(e), approveCommand(e), approvalsCommand(e),
		testCommand(e), toolsCommand(e), callCommand(e), resourcesCommand(e), promptsCommand(e),
		skillsCommand(e), loginCommand(e), logoutCommand(e), authCommand(e))
}

func lsCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the configured servers; nothing is started",
		Long:    "List the servers of the files that count, whether each may be started, and the logins at those with a URL. Nothing is started.",
		Example: "  troupe mcp ls\n  troupe mcp ls --mcp-config other.json --json",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) (err error) {
			servers, err := setup.AllServers(e, &f)
			if err != nil {
				return err
			}
			setup.WarnOf(e, servers)
			logins, err := setup.OpenLogins(e, s, servers)
			if err != nil {
				e.Note("%v", err) // the list is good without
			}
			defer func() { err = errors.Join(err, logins.Close()) }()
			list := make([]setup.Configured, 0, len(servers))
			for i := range servers {
				c, err := f.Describe(cmd.Context(), s, &servers[i])
				if err != nil {
					return err
				}
				if c.Login, err = logins.At(cmd.Context(), &servers[i]); err != nil {
					e.Note("the login at %s cannot be read: %v", env.Plain(c.Name), err)
				}
				list = append(list, c)
			}
			return env.PrintList(e, asJSON, list, "SERVER|STATUS|TRUSTED|LOGIN|STARTS", func(c setup.Configured) []string {
				trusted := "no"
				if c.Trusted {
					trusted = "yes"
				}
				return []string{c.Name, c.Status, trusted, c.Login.String(), cmp.Or(c.Error, strings.Join(c.Reach, "; "))}
			})
		}),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func toolsCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools [SERVER...]",
		Short: "Start servers and list their tools",
		Long:  "Start the servers, all of them where none is named, and list their tools with what each says of itself.",
		Example: "  troupe mcp tools --mcp \"npx -y @modelcontextprotocol/server-everything\"\n" +
			"  troupe mcp tools filesystem --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			type listed struct {
				Server string   `json:"server"`
				Tool   mcp.Tool `json:"tool"`
			}
			tools := listing[mcp.Tool]{flags: &f, names: args, asJSON: asJSON, heading: "SERVER|TOOL|HINTS|DESCRIPTION"}
			tools.list = func(c *mcpclient.Client) ([]mcp.Tool, error) { return c.ListTools(cmd.Context()) }
			tools.show = func(server string, t mcp.Tool) (any, []string) {
				return listed{server, t}, []string{server, t.Name, setup.Hints(&t), env.Shorten(env.FirstLine(t.Description), 70)}
			}
			return tools.print(cmd.Context(), e)
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with schemas")
	return cmd
}

func callCommand(e *env.Env) *cobra.Command {
	var (
		f       setup.ServerFlags
		asJSON  bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "call [SERVER] TOOL [ARGUMENTS]",
		Short: "Start a server and call one tool",
		Long: `Start a server and call one tool. ARGUMENTS is a JSON object. SERVER may be left out where there is one.
The tool's text goes to stdout; a tool that fails exits with 1.`,
		Example: `  troupe mcp call --mcp "npx -y @modelcontextprotocol/server-everything" echo '{"message":"hello"}'
  troupe mcp call filesystem list_directory '{"path":"."}' --json`,
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			all, err := setup.ServersOf(e, &f)
			if err != nil {
				return err
			}
			server, tool, arguments, err := callArgs(all, args)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, env.ErrTimeout)
				defer cancel()
			}
			return setup.WithClient(ctx, e, &f, s, server, func(c *mcpclient.Client) error {
				res, err := c.CallTool(ctx, tool, arguments, &mcpclient.CallOptions{Progress: func(pr mcpclient.Progress) {
					e.Note("%s", env.Plain(fmt.Sprintf("%g %s", pr.Progress, pr.Message)))
				}})
				if err != nil {
					notePages(e, err)
					return setup.CallError(err)
				}
				return printResult(e, res, asJSON)
			})
		}),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `TIME`")
	return cmd
}

// notePages shows the pages that a server wants visited where there was no terminal to ask on:
// the caller has to open them (URL-42).
func notePages(e *env.Env, err error) {
	wire, ok := errors.AsType[*mcp.Error](err)
	if !ok || e.CanAsk() {
		return
	}
	pages, _ := wire.URLElicitations()
	for _, p := range pages {
		if page, err := weburl.Check(p.URL); err == nil {
			e.Note("the server wants a page visited (%s): open it, then call again: %s", env.Plain(p.Message), env.Plain(page.URL))
		}
	}
}

// callArgs takes the arguments of "mcp call" apart.
func callArgs(all []mcpclient.Server, args []string) (server mcpclient.Server, tool string, arguments json.RawMessage, err error) {
	if len(args) > 0 {
		if i := slices.IndexFunc(all, func(s mcpclient.Server) bool { return s.Name == args[0] }); i >= 0 && (len(args) > 1 || len(all) > 1) {
			all, args = all[i:i+1], args[1:]
		}
	}
	switch {
	case len(all) == 0:
		err = env.Usagef("no server is configured: name one with --mcp or --mcp-config")
	case len(all) > 1:
		meant := ""
		if len(args) > 0 {
			meant = env.DidYouMean(args[0], setup.NamesOf(all))
		}
		err = env.Usagef("name one of the servers %s before the tool%s", strings.Join(setup.NamesOf(all), ", "), meant)
	case len(args) == 0 || len(args) > 2:
		err = env.Usagef("give a tool and, in one argument, a JSON object with its arguments")
	}
	if err != nil {
		return server, "", nil, err
	}
	arguments = json.RawMessage("{}")
	if len(args) == 2 {
		var object map[string]json.RawMessage
		if err := jsonx.Unmarshal([]byte(args[1]), &object); err != nil {
			return server, "", nil, env.Usagef("the arguments are no JSON object: %w", err)
		}
		arguments = json.RawMessage(args[1])
	}
	return all[0], args[0], arguments, nil
}

func printResult(e *env.Env, res *mcp.CallToolResult, asJSON bool) error {
	if asJSON {
		if err := e.PrintRaw(res); err != nil {
			return err
		}
	} else {
		for _, c := range res.Content {
			fmt.Fprintln(e.Stdout, e.Safe(contentText(c)))
		}
	}
	if res.IsError {
		return env.ExitWith(env.ExitFailed, errors.New("the tool reports a failure"))
	}
	return nil
}

func approveCommand(e *env.Env) *cobra.Command {
	var (
		f     setup.ServerFlags
		trust bool
		all   bool
		tools bool
		dry   bool
	)
	cmd := &cobra.Command{
		Use:   "approve SERVER...",
		Short: "Allow servers of a file to be started, exactly as they are defined now",
		Long: `Allow servers of a configuration file to be started. The approval holds for the definition as it is now: command,
arguments, environment and folder; once one of them changes, it has to be given again.
With --trust the user also believes what the server says of its own tools, such as that one only reads.

A tool is held to what it was when it was first called: one that has changed is not called until a person agrees.
With --tools the servers are started, and their changed tools are shown and accepted; with --dry-run they are only shown.`,
		Example: "  troupe mcp approve filesystem\n  troupe mcp approve --all --trust\n  troupe mcp approve --tools filesystem",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return env.Usagef("name the servers to approve, or all of them with --all; troupe mcp ls lists them")
			}
			if tools && trust || dry && !tools {
				return env.Usagef("--tools and --trust exclude each other, and --dry-run is for --tools")
			}
			return e.WithStore(func(s store.Store) error {
				servers, err := setup.Pick(e, &f, args)
				if err != nil {
					return err
				}
				if tools {
					return approveTools(cmd.Context(), e, &f, s, servers, dry)
				}
				for i := range servers {
					if err := approve(cmd.Context(), e, s, &servers[i], trust); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringArrayVar(&f.Files, "mcp-config", nil, "the `FILE` that defines them (default "+setup.ProjectFile+")")
	cmd.Flags().StringArrayVar(&f.Commands, "mcp", nil, "with --tools: the MCP server `[NAME=]COMMAND` or [NAME=]URL (repeat for more)")
	cmd.Flags().BoolVar(&all, "all", false, "approve all servers of the file")
	cmd.Flags().BoolVar(&tools, "tools", false, "start the servers, and accept what their tools have become")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --tools: only show what has changed")
	cmd.Flags().BoolVar(&trust, "trust", false, "also believe what the servers say of their own tools, such as that one only reads")
	return cmd
}

// approve records that a server may be started as it is defined now.
func approve(ctx context.Context, e *env.Env, s store.Approvals, def *mcpclient.Server, trust bool) error {
	if def.File == "" {
		return env.Usagef("%s is not from a file: naming it on the command line is consent already", def.Name)
	}
	if def.Err != nil {
		return env.Usagef("%w", def.Err)
	}
	if err := s.Approve(ctx, setup.ApprovalOf(def, trust)); err != nil {
		return err
	}
	fmt.Fprintf(e.Stdout, "approved %s: %s\n", env.Plain(def.Name), setup.ReachLines(def))
	return nil
}
