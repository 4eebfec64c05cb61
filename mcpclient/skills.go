// skills.go: the Agent Skills that servers publish (SEP-2640, the Skills extension).

package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
)

// ErrSkillChanged is what a file of a skill that is not what its entry says is, and one
// that the entry does not have. What was read must not be used. A new entry, of
// [Client.GetSkill], tells whether the skill has changed in the meantime; a person who has
// approved the old one has not approved that.
var ErrSkillChanged = resource.ErrSkillChanged

// Skill is one skill of a host's servers. It is the server and the URI together that
// tell skills apart: names, and even URIs, may be those of another server's skill,
// too.
type Skill struct {
	Server string // its name in the configuration
	Skill  mcp.Skill
}

// ListSkills returns the server's skills, all pages of them; entries that no host may
// load are left out. No file of theirs is read. A server may have more skills than it
// lists: see [Client.GetSkill]. What is kept, and for how long, is as with
// [Client.ListTools], but nothing of a legacy server is.
//
// Names and descriptions are the server's words: labels, and no more.
func (c *Client) ListSkills(ctx context.Context) ([]mcp.Skill, error) {
	return listOf(ctx, c, skillLists)
}

// GetSkill returns the entry of one skill as it is now, listed or not. A URI that the
// server serves no skill at is [ErrNotFound].
func (c *Client) GetSkill(ctx context.Context, uri string) (*mcp.Skill, error) {
	var res mcp.GetSkillResult
	if err := c.requests.read(ctx, mcp.MethodGetSkill, &mcp.ResourceParams{URI: uri}, &res); err != nil {
		if e, ok := errors.AsType[*mcp.Error](err); ok && e.Code == mcp.CodeInvalidParams {
			return nil, c.failed(mcp.MethodGetSkill, &NotFoundError{URI: uri, Err: e})
		}
		return nil, err
	}
	err := resource.CheckSkill(&res.Skill)
	if err == nil && res.Skill.URI != uri {
		err = fmt.Errorf("the server has answered with the skill %.200q", res.Skill.URI)
	}
	if err != nil {
		return nil, c.failed(mcp.MethodGetSkill, &call.ResponseError{Method: mcp.MethodGetSkill, Err: err})
	}
	return &res.Skill, nil
}

// ReadDirectory returns what is directly in a directory that the server has, all pages
// of it. Only a server that declares directoryRead answers. It is what is there now:
// for a skill that was loaded, its entry says what may be read.
func (c *Client) ReadDirectory(ctx context.Context, uri string) ([]mcp.Resource, error) {
	var all []mcp.Resource
	p := &mcp.ReadDirectoryParams{URI: uri}
	seen := map[string]bool{}
	for range lists.MaxPages {
		var page mcp.ReadDirectoryResult
		if err := c.requests.read(ctx, mcp.MethodReadDirectory, p, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Resources...)
		if p.Cursor = page.NextCursor; p.Cursor == nil {
			return all, nil
		}
		if seen[*p.Cursor] || len(all) >= lists.MaxItems { // PAGE-06
			break
		}
		seen[*p.Cursor] = true
	}
	return nil, c.failed(mcp.MethodReadDirectory, fmt.Errorf("the directory %.200q does not end, or is too long", uri))
}

// LoadedSkill is a skill that was loaded, and the entry it was loaded by: for as long
// as it is used, its files are those of that entry, whatever the server has now.
// It may be used by several goroutines.
type LoadedSkill struct {
	Server string    // its name in the configuration: the text is that server's, and no instruction of ours
	Entry  mcp.Skill // must not be changed
	Text   string    // SKILL.md as a whole

	files *resource.Files
}

// LoadSkill reads the SKILL.md of a skill and verifies it against the entry: its size,
// its digest, and its frontmatter field by field. Other files are read when they are
// needed: see [LoadedSkill.Read].
//
// The files of a dynamic skill cannot be verified; a program that wants none of those
// looks at the entry first. That what was read is what the entry says means only that
// it has not been mixed up: both are the server's word.
func (c *Client) LoadSkill(ctx context.Context, entry *mcp.Skill) (*LoadedSkill, error) {
	if err := resource.CheckSkill(entry); err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	if err := resource.CheckSkillLimits(entry); err != nil {
		return nil, c.failed(mcp.MethodReadResource, err)
	}
	l := &LoadedSkill{Server: c.server.Name, Entry: *entry}
	l.files = resource.NewFiles(&l.Entry, func(ctx context.Context, uri string, fresh bool) (*mcp.ReadResourceResult, error) {
		return c.ReadResource(ctx, uri, &CallOptions{Fresh: fresh})
	}, func(err error) error { return c.failed(mcp.MethodReadResource, err) })
	var err error
	if l.Text, err = l.files.Head(ctx); err != nil {
		return nil, err
	}
	return l, nil
}

// Read reads a file of the skill and verifies it. file is its path as SKILL.md has it,
// relative to the skill's folder, or its URI. One that the entry does not have is
// [ErrSkillChanged], though the server may have it. It is always the skill's own
// server that is asked.
func (l *LoadedSkill) Read(ctx context.Context, file string) (*mcp.ResourceContents, error) {
	return l.files.Read(ctx, file)
}

// Skills returns the skills of all servers, sorted by server and URI. The rest is as
// with [Host.Resources] and [Client.ListSkills].
func (h *Host) Skills(ctx context.Context) ([]Skill, error) {
	return listed(ctx, h, skillLists, func(s *mcp.Skill) string { return s.URI },
		func(server string, s mcp.Skill) Skill { return Skill{Server: server, Skill: s} })
}
