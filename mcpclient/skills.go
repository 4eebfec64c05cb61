// skills.go: the Agent Skills that servers publish (SEP-2640, the Skills extension).

package mcpclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/internal/skillmd"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/lists"
	"github.com/troupe-dev/troupe/mcpclient/internal/resource"
)

// ErrSkillChanged is what a file of a skill that is not what its entry says is, and one
// that the entry does not have. What was read must not be used. A new entry, of
// [Client.GetSkill], tells whether the skill has changed in the meantime; a person who has
// approved the old one has not approved that.
var ErrSkillChanged = errors.New("mcpclient: the skill is not what was said of it")

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

	client *Client
	files  *resource.Files
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
	l := &LoadedSkill{Server: c.server.Name, Entry: *entry, client: c}
	l.files = resource.NewFiles(&l.Entry)
	head, err := l.fetch(ctx, entry.URI)
	if err != nil {
		return nil, err
	}
	front, err := skillmd.Frontmatter(bytesOf(head))
	if err != nil {
		return nil, l.changed(entry.URI, err.Error())
	}
	if !skillmd.Same(front, entry.Frontmatter) {
		return nil, l.changed(entry.URI, "its frontmatter is another one")
	}
	l.Text = string(bytesOf(head))
	return l, nil
}

// Read reads a file of the skill and verifies it. file is its path as SKILL.md has it,
// relative to the skill's folder, or its URI. One that the entry does not have is
// [ErrSkillChanged], though the server may have it. It is always the skill's own
// server that is asked.
func (l *LoadedSkill) Read(ctx context.Context, file string) (*mcp.ResourceContents, error) {
	uri, ok := l.files.URI(file)
	if !ok {
		return nil, l.changed(file, "it is no file of the skill")
	}
	return l.fetch(ctx, uri)
}

// fetch reads a file that the entry has, or any of a dynamic skill. What was kept of an
// older read may be of an older entry: then the server is asked.
func (l *LoadedSkill) fetch(ctx context.Context, uri string) (*mcp.ResourceContents, error) {
	contents, err := l.fetchOnce(ctx, uri, nil)
	if errors.Is(err, ErrSkillChanged) {
		contents, err = l.fetchOnce(ctx, uri, &CallOptions{Fresh: true})
	}
	return contents, err
}

func (l *LoadedSkill) fetchOnce(ctx context.Context, uri string, opts *CallOptions) (*mcp.ResourceContents, error) {
	res, err := l.client.ReadResource(ctx, uri, opts)
	if err != nil {
		return nil, err
	}
	if len(res.Contents) != 1 || res.Contents[0].URI != uri {
		return nil, l.changed(uri, "what was read is not that file")
	}
	contents := res.Contents[0]
	why, err := l.files.Verify(uri, bytesOf(&contents))
	if why != "" {
		err = l.changed(uri, why)
	} else if err != nil {
		err = l.client.failed(mcp.MethodReadResource, err)
	}
	return &contents, err
}

// changed is an [ErrSkillChanged] of a file.
func (l *LoadedSkill) changed(file, why string) error {
	return l.client.failed(mcp.MethodReadResource, fmt.Errorf("%w: %.200q of %.200q: %s", ErrSkillChanged, file, l.Entry.URI, why))
}

// bytesOf are the bytes of a file, which the digest is of.
func bytesOf(c *mcp.ResourceContents) []byte {
	if c.Blob != nil {
		return c.Blob
	}
	return []byte(c.Text)
}

// Skills returns the skills of all servers, sorted by server and URI. The rest is as
// with [Host.Resources] and [Client.ListSkills].
func (h *Host) Skills(ctx context.Context) ([]Skill, error) {
	return listed(ctx, h, skillLists, func(s *mcp.Skill) string { return s.URI },
		func(server string, s mcp.Skill) Skill { return Skill{Server: server, Skill: s} })
}
