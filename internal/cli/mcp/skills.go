package mcp

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

func skillsCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "skills [SERVER] [URI [FILE]]",
		Short: "List the skills of servers, or read one",
		Long: `List the skills (agentskills.io) that servers publish; with the URI of one, read its SKILL.md; with a FILE, which is a
path in its folder, read that. What is read is held to what the server says of the skill, and refused if it is something else.
Skills are the server's words: nothing of them is carried out. SERVER may be left out where there is one.`,
		Example: "  troupe mcp skills\n  troupe mcp skills docs skill://pdf/SKILL.md\n  troupe mcp skills docs skill://pdf/SKILL.md references/FORMS.md",
		Args:    env.AtMost(3, "a server, a URI and a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, arg := range args {
				if !strings.Contains(arg, "://") {
					continue
				}
				uri, file := arg, strings.Join(args[i+1:], "")
				if i > 1 || len(args) > i+2 {
					break
				}
				return onServer(e, cmd, &f, args[:i], func(c *mcpclient.Client) error {
					res, err := readSkill(cmd.Context(), c, uri, file)
					if err != nil {
						return setup.CallError(err)
					}
					return printContents(e, res, asJSON)
				})
			}
			if len(args) > 1 {
				return env.Usagef("give a server, the URI of a skill and a file, in this order; got %q", args)
			}
			return listSkills(e, cmd, &f, args, asJSON)
		},
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// readSkill reads a file of a skill, "" is its SKILL.md.
func readSkill(ctx context.Context, c *mcpclient.Client, uri, file string) (*mcp.ReadResourceResult, error) {
	entry, err := c.GetSkill(ctx, uri)
	if err != nil {
		return nil, err
	}
	skill, err := c.LoadSkill(ctx, entry)
	if err != nil {
		return nil, err
	}
	contents := &mcp.ResourceContents{URI: uri, MIMEType: "text/markdown", Text: skill.Text}
	if file != "" {
		if contents, err = skill.Read(ctx, file); err != nil {
			return nil, err
		}
	}
	return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{*contents}}, nil
}

func listSkills(e *env.Env, cmd *cobra.Command, f *setup.ServerFlags, names []string, asJSON bool) error {
	type listed struct {
		Server string    `json:"server"`
		Skill  mcp.Skill `json:"skill"`
	}
	all := listing[mcp.Skill]{flags: f, names: names, asJSON: asJSON, heading: "SERVER|SKILL|FILES|BYTES|DESCRIPTION"}
	all.list = func(c *mcpclient.Client) ([]mcp.Skill, error) { return c.ListSkills(cmd.Context()) }
	all.show = func(server string, s mcp.Skill) (any, []string) {
		_, description := s.Name()
		files, size := "dynamic", ""
		if !s.Dynamic {
			total := int64(0)
			for _, r := range s.Resources {
				total += r.Size
			}
			files, size = fmt.Sprint(len(s.Resources)), fmt.Sprint(total)
		}
		return listed{server, s}, []string{server, s.URI, files, size, env.Shorten(env.FirstLine(description), 70)}
	}
	return all.print(cmd.Context(), e)
}
