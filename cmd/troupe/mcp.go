package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

func (p *program) mcpCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Configure MCP servers, look at them, use them",
		Args:  subcommandOnly,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.mcpAddCommand(), p.mcpLsCommand(), p.mcpGetCommand(), p.mcpRmCommand(), p.mcpImportCommand(), p.mcpApproveCommand(), p.mcpApprovalsCommand(),
		p.mcpTestCommand(), p.mcpToolsCommand(), p.mcpCallCommand(), p.mcpResourcesCommand(), p.mcpPromptsCommand(),
		p.mcpSkillsCommand())
	return cmd
}

// configured is a server as "mcp ls" shows it.
type configured struct {
	Name     string `json:"name"`
	Command  string `json:"command,omitempty"`
	URL      string `json:"url,omitempty"`
	File     string `json:"file,omitempty"`
	Hash     string `json:"hash,omitempty"` // of the definition, what consent is bound to
	Status   string `json:"status"`         // ready to start: approved, named, yours; else pending, disabled, unusable
	Trusted  bool   `json:"trusted"`
	Error    string `json:"error,omitempty"`
	approved bool
}

func (p *program) mcpLsCommand() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the configured servers; nothing is started",
		Long:    "List the servers of the files that count, and whether each may be started. Nothing is started.",
		Example: "  troupe mcp ls\n  troupe mcp ls --mcp-config other.json --json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			servers, err := p.allServers(&f)
			if err != nil {
				return err
			}
			p.warnOf(servers)
			list := make([]configured, 0, len(servers))
			for i := range servers {
				c, err := f.describe(cmd.Context(), s, &servers[i])
				if err != nil {
					return err
				}
				list = append(list, c)
			}
			if asJSON {
				return p.printJSON(list)
			}
			rows := [][]string{{"SERVER", "STATUS", "TRUSTED", "STARTS"}}
			for _, c := range list {
				trusted := "no"
				if c.Trusted {
					trusted = "yes"
				}
				what := c.Command + c.URL
				if c.Error != "" {
					what = c.Error
				}
				rows = append(rows, []string{c.Name, c.Status, trusted, what})
			}
			return p.table(rows)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// describe says how it stands with a server.
func (f *serverFlags) describe(ctx context.Context, s store.Approvals, def *mcpclient.Server) (configured, error) {
	c := configured{Name: def.Name, Command: def.CommandLine(), URL: def.URL, File: def.File, Hash: def.Hash, Trusted: def.Trusted, Status: "named"}
	if def.URL != "" {
		c.Command = ""
	}
	if def.File != "" {
		a, ok, err := s.Approved(ctx, def.File, def.Name, def.Hash)
		if err != nil {
			return c, err
		}
		c.approved = ok || own(def)
		c.Trusted = c.Trusted || a.Trusted
		switch {
		case ok:
			c.Status = "approved"
		case own(def):
			c.Status = "yours"
		case !f.named():
			c.Status = "pending"
		}
	}
	switch {
	case def.Err != nil:
		c.Status, c.Error = "unusable", def.Err.Error()
	case def.Disabled:
		c.Status = "disabled"
	}
	return c, nil
}

// takeOverTrust marks the servers that the user trusts by a recorded approval, as
// --trust does.
func (f *serverFlags) takeOverTrust(ctx context.Context, s store.Approvals, servers []mcpclient.Server) error {
	for i := range servers {
		c, err := f.describe(ctx, s, &servers[i])
		if err != nil {
			return fmt.Errorf("looking for the approval of the server %s: %w", servers[i].Name, err)
		}
		servers[i].Trusted = c.Trusted
	}
	return nil
}

// mayStart refuses a server of a file that nobody has consented to.
func (f *serverFlags) mayStart(ctx context.Context, s store.Approvals, def *mcpclient.Server) error {
	c, err := f.describe(ctx, s, def)
	if err != nil {
		return err
	}
	def.Trusted = c.Trusted
	if def.File == "" || c.approved || f.named() {
		return nil
	}
	does := "run this program on this computer, with all that you may do here:" // SEC-20
	if def.URL != "" {
		does = "contact"
	}
	return exitWith(exitDenied, fmt.Errorf("the server %s of %s is not approved. It would %s\n  %s\nApprove it with: troupe mcp approve %[1]s",
		def.Name, def.File, does, plain(reach(def))))
}

func (p *program) mcpToolsCommand() *cobra.Command {
	var f serverFlags
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
			all := []listed{}
			lists, failed := eachServer(cmd, p, &f, args, func(c *mcpclient.Client) ([]mcp.Tool, error) {
				return c.ListTools(cmd.Context())
			})
			rows := [][]string{{"SERVER", "TOOL", "HINTS", "DESCRIPTION"}}
			for _, l := range lists {
				for i := range l.items {
					t := &l.items[i]
					all = append(all, listed{l.server, *t})
					rows = append(rows, []string{l.server, t.Name, hints(t), shorten(firstLine(t.Description), 70)})
				}
			}
			return p.printLists(len(lists), asJSON, all, rows, failed)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with schemas")
	return cmd
}

// hints is what the server says of its own tool.
func hints(t *mcp.Tool) string {
	switch {
	case t.Annotations.ReadOnly():
		return "reads"
	case t.Annotations.Destructive():
		return "may destroy"
	}
	return "writes"
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

func (p *program) mcpCallCommand() *cobra.Command {
	var (
		f       serverFlags
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
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			all, err := p.servers(&f)
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
				ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
				defer cancel()
			}
			return p.withClient(ctx, &f, s, server, func(c *mcpclient.Client) error {
				res, err := c.CallTool(ctx, tool, arguments, &mcpclient.CallOptions{Progress: func(pr mcpclient.Progress) {
					p.note("%s", plain(fmt.Sprintf("%g %s", pr.Progress, pr.Message)))
				}})
				if err != nil {
					return exitWith(callExit(err), err)
				}
				return p.printResult(res, asJSON)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole result as JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this `TIME`")
	return cmd
}

// callExit is the exit code for a request without a result: the server's own error is
// a failure, everything else means that it can not be reached. What it sends may be
// no answer in the sense of the protocol: that is no error of its own.
func callExit(err error) int {
	switch {
	case errors.Is(err, errTimeout):
		return exitTimeout
	case errors.Is(err, call.ErrInvalidResponse):
		return exitUnreachable
	case errors.As(err, new(*mcp.Error)), errors.Is(err, mcpclient.ErrUnknownTool), errors.Is(err, mcpclient.ErrUnsupported),
		errors.Is(err, mcpclient.ErrSkillChanged):
		return exitFailed
	}
	return exitUnreachable
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
		err = usagef("no server is configured: name one with --mcp or --mcp-config")
	case len(all) > 1:
		meant := ""
		if len(args) > 0 {
			meant = didYouMean(args[0], namesOf(all))
		}
		err = usagef("name one of the servers %s before the tool%s", strings.Join(namesOf(all), ", "), meant)
	case len(args) == 0 || len(args) > 2:
		err = usagef("give a tool and, in one argument, a JSON object with its arguments")
	}
	if err != nil {
		return server, "", nil, err
	}
	arguments = json.RawMessage("{}")
	if len(args) == 2 {
		var object map[string]json.RawMessage
		if err := jsonx.Unmarshal([]byte(args[1]), &object); err != nil {
			return server, "", nil, usagef("the arguments are no JSON object: %w", err)
		}
		arguments = json.RawMessage(args[1])
	}
	return all[0], args[0], arguments, nil
}

func (p *program) printResult(res *mcp.CallToolResult, asJSON bool) error {
	if asJSON {
		if err := p.printRaw(res); err != nil {
			return err
		}
	} else {
		for _, c := range res.Content {
			text := "[" + c.ContentType() + "]"
			if t, ok := c.(*mcp.TextContent); ok {
				text = t.Text
			}
			if onTerminal(p.stdout) {
				text = plainLines(text) // SECA-42
			}
			fmt.Fprintln(p.stdout, text)
		}
	}
	if res.IsError {
		return exitWith(exitFailed, errors.New("the tool reports a failure"))
	}
	return nil
}

func (p *program) mcpApproveCommand() *cobra.Command {
	var (
		f     serverFlags
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

A tool is held to what it was when it was first called: one that has changed is not called until somebody agrees.
With --tools the servers are started, and their changed tools are shown and accepted; with --dry-run they are only shown.`,
		Example: "  troupe mcp approve filesystem\n  troupe mcp approve --all --trust\n  troupe mcp approve --tools filesystem",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if all == (len(args) > 0) {
				return usagef("name the servers to approve, or all of them with --all; troupe mcp ls lists them")
			}
			if tools && trust || dry && !tools {
				return usagef("--tools and --trust exclude each other, and --dry-run is for --tools")
			}
			s, err := p.openStore()
			if err != nil {
				return err
			}
			defer closeStore(s, &err)
			servers, err := p.pick(&f, args)
			if err != nil {
				return err
			}
			if tools {
				return p.approveTools(cmd.Context(), &f, s, servers, dry)
			}
			for _, def := range servers {
				if def.File == "" {
					return usagef("%s is not from a file: naming it on the command line is consent already", def.Name)
				}
				if def.Err != nil {
					return usagef("%w", def.Err)
				}
				shown := reach(&def)
				err := s.Approve(cmd.Context(), store.Approval{File: def.File, Server: def.Name, Hash: def.Hash, Shown: shown, By: userName(), Trusted: trust})
				if err != nil {
					return err
				}
				fmt.Fprintf(p.stdout, "approved %s: %s\n", plain(def.Name), plain(shown))
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&f.files, "mcp-config", nil, "the `FILE` that defines them (default "+projectFile+")")
	cmd.Flags().StringArrayVar(&f.commands, "mcp", nil, "with --tools: the MCP server `[NAME=]COMMAND` or [NAME=]URL (repeat for more)")
	cmd.Flags().BoolVar(&all, "all", false, "approve all servers of the file")
	cmd.Flags().BoolVar(&tools, "tools", false, "start the servers, and accept what their tools have become")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "with --tools: only show what has changed")
	cmd.Flags().BoolVar(&trust, "trust", false, "also believe what the servers say of their own tools, such as that one only reads")
	return cmd
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "somebody"
}

// allServers collects the servers of the flags, those included that are not used.
func (p *program) allServers(f *serverFlags) ([]mcpclient.Server, error) {
	g := *f
	g.keepDisabled = true
	return p.servers(&g)
}

// pick returns the servers that are named, or all.
func (p *program) pick(f *serverFlags, names []string) ([]mcpclient.Server, error) {
	servers, err := p.servers(f)
	if err != nil || len(names) == 0 {
		if err == nil && len(servers) == 0 {
			err = usagef("no server is configured: name one with --mcp or --mcp-config, or write a %s", projectFile)
		}
		return servers, err
	}
	var picked []mcpclient.Server
	for _, name := range names {
		i := slices.IndexFunc(servers, func(s mcpclient.Server) bool { return s.Name == name })
		if i < 0 {
			return nil, noServer(name, servers)
		}
		picked = append(picked, servers[i])
	}
	return picked, nil
}

// withClient connects to a server, as far as it may be started, and closes it after use.
func (p *program) withClient(ctx context.Context, f *serverFlags, s store.Store, def mcpclient.Server, use func(*mcpclient.Client) error) (err error) {
	if err := f.mayStart(ctx, s, &def); err != nil {
		return err
	}
	log, err := p.logger()
	if err != nil {
		return err
	}
	client, err := mcpclient.Dial(ctx, def, &mcpclient.Options{
		Logger:     log,
		Consent:    func(context.Context, mcpclient.Server) error { return nil }, // given above
		AskOptions: p.askOptions(),
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return exitWith(exitUnreachable, err)
	}
	defer func() {
		if cerr := client.Close(); err == nil {
			err = cerr
		}
	}()
	return use(client)
}
