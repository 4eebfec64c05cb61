package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/store"
)

func approvalsCommand(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "approvals",
		Short: "What you have allowed for good: servers to start, tools to call unasked",
		Long: `What you have allowed for good, and how to take it back: servers of a file that may be started ("troupe mcp approve"), and
tools that runs begun in a folder may call unasked ("always" where a run asks, or "troupe inbox answer --scope here").
Each approval is bound to one definition: a server or a tool that has changed is asked about again.`,
	}, approvalsLsCommand(e), approvalsRmCommand(e))
}

// approvalView is an approval as "mcp approvals ls" shows it.
type approvalView struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`  // server or tool
	Where   string    `json:"where"` // the file that defines the server, or the folder that the tool may be called in
	Server  string    `json:"server"`
	Tool    string    `json:"tool,omitempty"`
	Shown   string    `json:"shown,omitempty"` // what of the server was shown to whom consented
	Trusted bool      `json:"trusted,omitzero"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`

	row store.Approval
}

func approvalViewOf(a store.Approval) approvalView {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", a.File, a.Server, a.Hash))
	v := approvalView{ID: hex.EncodeToString(sum[:4]), Kind: "server", Where: a.File, Server: a.Server, Shown: a.Shown, Trusted: a.Trusted, By: a.By, At: a.At, row: a}
	if folder, ok := setup.FolderOf(&a); ok {
		v.Kind, v.Where, v.Tool, v.Shown = "tool", folder, a.Shown, ""
	}
	return v
}

func approvalsOf(ctx context.Context, s store.Approvals) ([]approvalView, error) {
	rows, err := s.Approvals(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]approvalView, len(rows))
	for i, a := range rows {
		all[i] = approvalViewOf(a)
	}
	return all, nil
}

func approvalsLsCommand(e *env.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the approvals",
		Long:    "List the approvals of servers and of tools, with what each holds for, who gave it and when.",
		Example: "  troupe mcp approvals ls\n  troupe mcp approvals ls --json",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) error {
			all, err := approvalsOf(cmd.Context(), s)
			if err != nil {
				return err
			}
			return env.PrintList(e, asJSON, all, "ID|KIND|WHERE|SERVER|WHAT|BY|AT", func(v approvalView) []string {
				what := v.Tool
				if v.Kind == "server" {
					what = env.Shorten(v.Shown, 60)
				}
				return []string{v.ID, v.Kind, v.Where, v.Server, what, v.By, v.At.Local().Format(time.DateTime)}
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func approvalsRmCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "rm APPROVAL...",
		Short: "Take approvals back",
		Long: `Take approvals back: by their IDs, or by the name of a tool, which means all approvals of it in this folder. What is under
way is not ended; the next call of a tool asks again, and the next start of a server is refused.`,
		Example: "  troupe mcp approvals rm 3fa85f64\n  troupe mcp approvals rm files__write_file",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return env.Usagef("name the approvals by ID or tool; troupe mcp approvals ls lists them")
			}
			return e.WithStore(func(s store.Store) error {
				here, err := setup.NewToolApprovals(s)
				if err != nil {
					return err
				}
				all, err := approvalsOf(cmd.Context(), s)
				if err != nil {
					return err
				}
				for _, name := range args {
					if err := revoke(cmd.Context(), e, s, here, all, name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// revoke takes back the approvals that a name means.
func revoke(ctx context.Context, e *env.Env, s store.Approvals, here *setup.ToolApprovals, all []approvalView, name string) error {
	found := false
	var known []string
	for _, v := range all {
		local := v.Kind == "tool" && v.Where == here.Folder
		if local {
			known = append(known, v.Tool)
		}
		if v.ID != name && !(local && v.Tool == name) {
			continue
		}
		found = true
		if err := s.Revoke(ctx, v.row.File, v.row.Server, v.row.Hash); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		fmt.Fprintf(e.Stdout, "revoked %s: the %s %s, %s\n", v.ID, v.Kind, env.Plain(cmp.Or(v.Tool, v.Server)), env.Plain(v.Where))
	}
	if !found {
		return env.Usagef("there is no approval %q%s\ntroupe mcp approvals ls lists them", name, env.DidYouMean(name, known))
	}
	return nil
}
