package mcp

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/store"
)

func resourcesCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resources [SERVER] [URI]",
		Short: "List the resources of servers, or read one",
		Long: `List the resources and resource templates of servers; with a URI, read that resource. Its text goes to stdout as it is,
binary contents too. SERVER may be left out where there is one.`,
		Example: "  troupe mcp resources docs\n  troupe mcp resources docs file:///readme.md > readme.md",
		Args:    env.AtMost(2, "a server and a URI"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			uri := ""
			if n := len(args); n > 0 && strings.Contains(args[n-1], ":") {
				uri, args = args[n-1], args[:n-1]
			} else if n == 2 {
				return env.Usagef("%q is no URI", args[1])
			}
			if uri == "" {
				return listResources(e, cmd, &f, args, asJSON)
			}
			return onServer(e, cmd, &f, args, func(c *mcpclient.Client) error {
				res, err := c.ReadResource(cmd.Context(), uri, nil)
				if err != nil {
					return setup.CallError(err)
				}
				return printContents(e, res, asJSON)
			})
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// onServer uses the server that is named, or the only one there is.
func onServer(e *env.Env, cmd *cobra.Command, f *setup.ServerFlags, names []string, use func(*mcpclient.Client) error) error {
	return e.WithStore(func(s store.Store) error {
		servers, err := setup.Pick(e, f, names)
		if err != nil {
			return err
		}
		if len(servers) != 1 {
			return env.Usagef("name one of the servers %s", strings.Join(setup.NamesOf(servers), ", "))
		}
		return setup.WithClient(cmd.Context(), e, f, s, servers[0], use)
	})
}

func listResources(e *env.Env, cmd *cobra.Command, f *setup.ServerFlags, names []string, asJSON bool) error {
	type listed struct {
		Server   string                `json:"server"`
		Resource *mcp.Resource         `json:"resource,omitempty"`
		Template *mcp.ResourceTemplate `json:"template,omitempty"`
	}
	all := listing[listed]{flags: f, names: names, asJSON: asJSON, heading: "SERVER|URI|TYPE|NAME"}
	all.list = func(c *mcpclient.Client) (own []listed, err error) {
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
	}
	all.show = func(server string, one listed) (any, []string) {
		one.Server = server
		if r := one.Resource; r != nil {
			return one, []string{server, r.URI, r.MIMEType, cmp.Or(r.Title, r.Name)} // TOOL-18
		}
		return one, []string{server, one.Template.URITemplate, one.Template.MIMEType, cmp.Or(one.Template.Title, one.Template.Name)}
	}
	return all.print(cmd.Context(), e)
}

// printContents writes what was read: to a pipe as it is, to a terminal as text that
// does nothing else than be seen.
func printContents(e *env.Env, res *mcp.ReadResourceResult, asJSON bool) error {
	if asJSON {
		return e.PrintRaw(res)
	}
	for i := range res.Contents {
		c := &res.Contents[i]
		if c.Blob != nil {
			if env.OnTerminal(e.Stdout) {
				fmt.Fprintf(e.Stdout, "[%d bytes of %s]\n", len(c.Blob), env.Plain(c.MIMEType))
				continue
			}
			if _, err := e.Stdout.Write(c.Blob); err != nil {
				return err
			}
			continue
		}
		text := c.Text
		if env.OnTerminal(e.Stdout) {
			text = env.PlainLines(text) + "\n" // SECA-42
		}
		if _, err := fmt.Fprint(e.Stdout, text); err != nil {
			return err
		}
	}
	return nil
}

func promptsCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
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
				return env.Usagef("give a server, a prompt, and arguments as NAME=VALUE; got %q", words)
			}
			servers, err := setup.ServersOf(e, &f)
			if err != nil {
				return err
			}
			names, prompt := words, ""
			if n := len(words); n == 2 || n == 1 && len(servers) == 1 && servers[0].Name != words[0] {
				names, prompt = words[:n-1], words[n-1]
			}
			if prompt == "" {
				return listPrompts(e, cmd, &f, names, asJSON)
			}
			return onServer(e, cmd, &f, names, func(c *mcpclient.Client) error {
				res, err := c.GetPrompt(cmd.Context(), prompt, values, nil)
				if err != nil {
					return setup.CallError(err)
				}
				if asJSON {
					return e.PrintRaw(res)
				}
				for _, m := range res.Messages {
					fmt.Fprintf(e.Stdout, "%s: %s\n", m.Role, e.Safe(contentText(m.Content)))
				}
				return nil
			})
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func listPrompts(e *env.Env, cmd *cobra.Command, f *setup.ServerFlags, names []string, asJSON bool) error {
	type listed struct {
		Server string     `json:"server"`
		Prompt mcp.Prompt `json:"prompt"`
	}
	all := listing[mcp.Prompt]{flags: f, names: names, asJSON: asJSON, heading: "SERVER|PROMPT|ARGUMENTS|DESCRIPTION"}
	all.list = func(c *mcpclient.Client) ([]mcp.Prompt, error) { return c.ListPrompts(cmd.Context()) }
	all.show = func(server string, p mcp.Prompt) (any, []string) {
		var arguments []string
		for _, a := range p.Arguments {
			name := a.Name
			if !a.Required {
				name = "[" + name + "]"
			}
			arguments = append(arguments, name)
		}
		return listed{server, p}, []string{server, p.Name, strings.Join(arguments, " "), env.Shorten(env.FirstLine(p.Description), 70)}
	}
	return all.print(cmd.Context(), e)
}

// contentText is the text of a content, or its type where it is no text.
func contentText(c mcp.Content) string {
	if t, ok := c.(*mcp.TextContent); ok {
		return t.Text
	}
	return "[" + c.ContentType() + "]"
}
