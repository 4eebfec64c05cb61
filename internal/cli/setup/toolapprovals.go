package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/store"
)

// ToolApprovals are the tools that a user has allowed for good in one folder: runs begun
// there call them unasked. Each approval is bound to exactly one definition of the tool and
// of its server (SECA-38). They are kept beside the approvals of servers.
type ToolApprovals struct {
	store  store.Approvals
	Folder string
}

// toolsOf begins the file of approvals of tools. No configuration is called so: their
// names are absolute.
const toolsOf = "tools in "

// NewToolApprovals returns those of the working folder.
func NewToolApprovals(s store.Approvals) (*ToolApprovals, error) {
	folder, err := os.Getwd()
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the working folder: %w", err)
	}
	return &ToolApprovals{store: s, Folder: folder}, nil
}

func (t *ToolApprovals) file() string { return toolsOf + t.Folder }

// Allow records that a tool may be called unasked from now on.
func (t *ToolApprovals) Allow(ctx context.Context, server, tool, definition string) error {
	return t.store.Approve(ctx, store.Approval{File: t.file(), Server: server, Hash: definition, Shown: tool, By: env.UserName()})
}

// policy allows calls of approved tools that another policy asks about. What it refuses,
// or asks about once more because the call may carry private data out, stays so.
func (t *ToolApprovals) policy(next agent.ApprovePolicy) agent.ApprovePolicy {
	return func(ctx context.Context, call *agent.ToolCall) agent.Verdict {
		verdict := next(ctx, call)
		if verdict != agent.VerdictAsk || call.Definition == "" {
			return verdict
		}
		if _, ok, err := t.store.Approved(ctx, t.file(), call.Server, call.Definition); err != nil || !ok {
			return verdict // without the store a human is asked
		}
		return agent.VerdictAllow
	}
}

// FolderOf is the folder that an approval of a tool holds in; ok is false for those of
// servers.
func FolderOf(a *store.Approval) (folder string, ok bool) {
	return strings.CutPrefix(a.File, toolsOf)
}
