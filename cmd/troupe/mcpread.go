package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

func (p *program) mcpResourcesCommand() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resources [SERVER] [URI]",
		Short: "List the resources of servers, or read one",
		Long: `List the resources and resource templates of servers; with a URI, read that resource. Its text goes to stdout as it is,
binary contents too. SERVER may be left out where there is one.`,
		Example: "  troupe mcp resources docs\n  troupe mcp resources docs file:///readme.md > readme.md",
		Args:    atMost(2, "a server and a URI"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			uri := ""
			if n := len(args); n > 0 && strings.Contains(args[n-1], ":") {
				uri, args = args[n-1], args[:n-1]
			} else if n == 2 {
				return usagef("%q is no URI", args[1])
			}
			if uri == "" {
				return p.listResources(cmd, &f, args, asJSON)
			}
			return p.onServer(cmd, &f, args, func(c *mcpclient.Client) error {
				res, err := c.ReadResource(cmd.Context(), uri, nil)
				if err != nil {
					return exitWith(callExit(err), err)
				}
				return p.printContents(res, asJSON)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// atMost turns cobra's complaint about arguments into a usage error.
func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("%s takes %s, got %d arguments\nSee %s --help", cmd.CommandPath(), what, len(args), cmd.CommandPath())
		}
		return nil
	}
}

// onServer uses the server that is named, or the only one there is.
func (p *program) onServer(cmd *cobra.Command, f *serverFlags, names []string, use func(*mcpclient.Client) error) (err error) {
	s, err := p.openStore()
	if err != nil {
		return err
	}
	defer closeStore(s, &err)
	servers, err := p.pick(f, names)
	if err != nil {
		return err
	}
	if len(servers) != 1 {
		return usagef("name one of the servers %s", strings.Join(namesOf(servers), ", "))
	}
	return p.withClient(cmd.Context(), f, s, servers[0], use)
}

func (p *program) listResources(cmd *cobra.Command, f *serverFlags, names []string, asJSON bool) error {
	type listed struct {
		Server   string                `json:"server"`
		Resource *mcp.Resource         `json:"resource,omitempty"`
		Template *mcp.ResourceTemplate `json:"template,omitempty"`
	}
	all := []listed{}
	rows := [][]string{{"SERVER", "URI", "TYPE", "NAME"}}
	lists, failed := eachServer(cmd, p, f, names, func(c *mcpclient.Client) (own []listed, err error) {
		resources, err := c.ListResources(cmd.Context())
		if err != nil {
			return nil, err
		}
		for i := range resources {
			own = append(own, listed{Resource: &resources[i]})
		}
		templates, err := c.ListResourceTemplates(cmd.Context())
		for i := range templates {
			own = append(own, listed{Template: &templates[i]})
		}
		return own, err
	})
	for _, l := range lists {
		for _, one := range l.items {
			one.Server = l.server
			all = append(all, one)
			if r := one.Resource; r != nil {
				rows = append(rows, []string{l.server, r.URI, r.MIMEType, titleOr(r.Title, r.Name)})
			} else if t := one.Template; t != nil {
				rows = append(rows, []string{l.server, t.URITemplate, t.MIMEType, titleOr(t.Title, t.Name)})
			}
		}
	}
	return p.printLists(len(lists), asJSON, all, rows, failed)
}

// titleOr is what a thing is called on a screen (TOOL-18).
func titleOr(title, name string) string {
	if title != "" {
		return title
	}
	return name
}

// printRaw prints what has types of the protocol, whose JSON is our own codec's.
func (p *program) printRaw(v any) error {
	data, err := jsonx.Marshal(v)
	if err != nil {
		return err
	}
	return p.printJSON(rawJSON(data))
}

// rawJSON is JSON already.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

// printContents writes what was read: to a pipe as it is, to a terminal as text that
// does nothing else than be seen.
func (p *program) printContents(res *mcp.ReadResourceResult, asJSON bool) error {
	if asJSON {
		return p.printRaw(res)
	}
	for i := range res.Contents {
		c := &res.Contents[i]
		if c.Blob != nil {
			if onTerminal(p.stdout) {
				fmt.Fprintf(p.stdout, "[%d bytes of %s]\n", len(c.Blob), plain(c.MIMEType))
				continue
			}
			if _, err := p.stdout.Write(c.Blob); err != nil {
				return err
			}
			continue
		}
		text := c.Text
		if onTerminal(p.stdout) {
			text = plainLines(text) + "\n" // SECA-42
		}
		if _, err := fmt.Fprint(p.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) mcpPromptsCommand() *cobra.Command {
	var f serverFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prompts [SERVER] [PROMPT [NAME=VALUE...]]",
		Short: "List the prompts of servers, or fill in one",
		Long: `List the prompts of servers and their arguments; with a PROMPT, fill it in and print its messages. SERVER may be left
out where there is one.`,
		Example: "  troupe mcp prompts docs\n  troupe mcp prompts docs review language=go",
		RunE: func(cmd *cobra.Command, args []string) error {
			values := map[string]string{}
			var words []string
			for _, a := range args {
				if name, value, ok := strings.Cut(a, "="); ok && len(words) > 0 {
					values[name] = value
				} else {
					words = append(words, a)
				}
			}
			if len(words) > 2 {
				return usagef("give a server, a prompt, and arguments as NAME=VALUE; got %q", words)
			}
			servers, err := p.servers(&f)
			if err != nil {
				return err
			}
			names, prompt := words, ""
			if n := len(words); n == 2 || n == 1 && len(servers) == 1 && servers[0].Name != words[0] {
				names, prompt = words[:n-1], words[n-1]
			}
			if prompt == "" {
				return p.listPrompts(cmd, &f, names, asJSON)
			}
			return p.onServer(cmd, &f, names, func(c *mcpclient.Client) error {
				res, err := c.GetPrompt(cmd.Context(), prompt, values, nil)
				if err != nil {
					return exitWith(callExit(err), err)
				}
				if asJSON {
					return p.printRaw(res)
				}
				for _, m := range res.Messages {
					text := "[" + m.Content.ContentType() + "]"
					if t, ok := m.Content.(*mcp.TextContent); ok {
						text = t.Text
					}
					if onTerminal(p.stdout) {
						text = plainLines(text) // SECA-42
					}
					fmt.Fprintf(p.stdout, "%s: %s\n", m.Role, text)
				}
				return nil
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *program) listPrompts(cmd *cobra.Command, f *serverFlags, names []string, asJSON bool) error {
	type listed struct {
		Server string     `json:"server"`
		Prompt mcp.Prompt `json:"prompt"`
	}
	all := []listed{}
	rows := [][]string{{"SERVER", "PROMPT", "ARGUMENTS", "DESCRIPTION"}}
	lists, failed := eachServer(cmd, p, f, names, func(c *mcpclient.Client) ([]mcp.Prompt, error) {
		return c.ListPrompts(cmd.Context())
	})
	for _, l := range lists {
		for _, pr := range l.items {
			all = append(all, listed{l.server, pr})
			var arguments []string
			for _, a := range pr.Arguments {
				name := a.Name
				if !a.Required {
					name = "[" + name + "]"
				}
				arguments = append(arguments, name)
			}
			rows = append(rows, []string{l.server, pr.Name, strings.Join(arguments, " "), shorten(firstLine(pr.Description), 70)})
		}
	}
	return p.printLists(len(lists), asJSON, all, rows, failed)
}
