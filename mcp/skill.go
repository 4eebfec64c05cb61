package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// ExtensionSkills is the id of the Skills extension: a server publishes
// Agent Skills, which are folders of instructions and files, as resources.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// Methods of the Skills extension. They are the same in every revision.
const (
	MethodListSkills    = "skills/list"
	MethodGetSkill      = "skills/get"
	MethodReadDirectory = "resources/directory/read" // only if the server declares directoryRead
)

// MIMEDirectory is the MIME type of a resource that is a directory.
const MIMEDirectory = "inode/directory"

// SkillsCapability are a server's settings of the Skills extension.
type SkillsCapability struct {
	DirectoryRead bool `json:"directoryRead,omitzero"` // it answers resources/directory/read
}

// Skill is the entry of one skill: all that a host needs to show it, to have it
// approved, and to verify what it reads of it later.
type Skill struct {
	URI string // of its SKILL.md
	// Frontmatter is that of SKILL.md as a JSON object, with all its fields.
	Frontmatter json.RawMessage
	// Resources are all files of the skill, SKILL.md among them; nil if Dynamic.
	Resources []SkillResource
	// Dynamic says that the files are generated, and so cannot be verified.
	Dynamic bool

	Extra map[string]json.RawMessage
}

// SkillResource is a file of a skill.
type SkillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"` // "sha256:" and 64 lowercase hexadecimal digits, of the bytes of the file
	Size   int64  `json:"size"`   // of the file, in bytes

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// skillWire has the two forms of resources as one raw member.
type skillWire struct {
	URI         string                     `json:"uri"`
	Frontmatter json.RawMessage            `json:"frontmatter"`
	Resources   json.RawMessage            `json:"resources"`
	Extra       map[string]json.RawMessage `json:",inline,embed"`
}

const dynamic = `"dynamic"`

// MarshalJSON writes the entry; resources is an array or "dynamic".
func (s Skill) MarshalJSON() ([]byte, error) {
	w := skillWire{URI: s.URI, Frontmatter: s.Frontmatter, Resources: json.RawMessage(dynamic), Extra: s.Extra}
	if !s.Dynamic {
		files, err := jsonx.Marshal(s.Resources)
		if err != nil {
			return nil, err
		}
		w.Resources = files
	}
	return jsonx.Marshal(w)
}

// UnmarshalJSON reads an entry. One whose resources are neither a list of files nor
// "dynamic" is read without any: [Skill.Validate] refuses it, and so one entry that is
// no good does not take its page with it.
func (s *Skill) UnmarshalJSON(raw []byte) error {
	var w skillWire
	if err := jsonx.Unmarshal(raw, &w); err != nil {
		return fmt.Errorf("reading a skill: %w", err)
	}
	*s = Skill{URI: w.URI, Frontmatter: w.Frontmatter, Dynamic: string(w.Resources) == dynamic, Extra: w.Extra}
	if !s.Dynamic && len(w.Resources) > 0 && jsonx.Unmarshal(w.Resources, &s.Resources) != nil {
		s.Resources = nil
	}
	return nil
}

// Validate checks that the entry has all it must have. What its parts have to look
// like is up to who uses them.
func (s *Skill) Validate() error {
	err := errors.Join(required("skill", "uri", s.URI != ""), required("skill", "frontmatter", len(s.Frontmatter) > 0 && s.Frontmatter[0] == '{'))
	if !s.Dynamic && len(s.Resources) == 0 {
		err = errors.Join(err, fmt.Errorf("skill %.200q: resources are neither a list of files nor \"dynamic\"", s.URI))
	}
	return err
}

// Name returns the name that the frontmatter gives the skill, and its description.
// They are labels, and say nothing of who it is by.
func (s *Skill) Name() (name, description string) {
	var front struct {
		Name        string                     `json:"name"`
		Description string                     `json:"description"`
		Rest        map[string]json.RawMessage `json:",inline,embed"`
	}
	if jsonx.Unmarshal(s.Frontmatter, &front) != nil {
		return "", ""
	}
	return front.Name, front.Description
}

// ListSkillsResult is one page of skills.
type ListSkillsResult struct {
	Skills     []Skill `json:"skills"`
	NextCursor *string `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta       Meta    `json:"_meta,omitzero"`
	ResultType string  `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64  `json:"ttlMs,omitzero"`
	CacheScope string  `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that skills is there, not each of them.
func (r *ListSkillsResult) Validate() error {
	return required("skills/list result", "skills", r.Skills != nil)
}

// TTL returns how long the page is fresh.
func (r *ListSkillsResult) TTL() time.Duration { return ttl(r.TTLMs) }

func (r *ListSkillsResult) inVersion(v Version) any {
	d := *r
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

// GetSkillResult answers skills/get, whose params are [ResourceParams].
type GetSkillResult struct {
	Skill      Skill  `json:"skill"`
	Meta       Meta   `json:"_meta,omitzero"`
	ResultType string `json:"resultType,omitzero"` // set by the encoder
	TTLMs      *int64 `json:"ttlMs,omitzero"`
	CacheScope string `json:"cacheScope,omitzero"`

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks the skill.
func (r *GetSkillResult) Validate() error { return r.Skill.Validate() }

func (r *GetSkillResult) inVersion(v Version) any {
	d := *r
	d.ResultType = completeIn(v)
	d.TTLMs, d.CacheScope = cacheIn(v, r.TTLMs, r.CacheScope)
	return &d
}

// ReadDirectoryParams are the params of resources/directory/read.
type ReadDirectoryParams struct {
	URI    string  `json:"uri"`
	Cursor *string `json:"cursor,omitzero"`
	Meta   Meta    `json:"_meta,omitzero"`
}

// Validate checks that there is a URI.
func (p *ReadDirectoryParams) Validate() error {
	return required(MethodReadDirectory, "uri", p.URI != "")
}

// ReadDirectoryResult is one page of what is directly in a directory: files, and
// directories by their MIME type [MIMEDirectory].
type ReadDirectoryResult struct {
	Resources  []Resource `json:"resources"`
	NextCursor *string    `json:"nextCursor,omitzero"` // nil at the end; "" is a cursor
	Meta       Meta       `json:"_meta,omitzero"`
	ResultType string     `json:"resultType,omitzero"` // set by the encoder

	Extra map[string]json.RawMessage `json:",inline,embed"`
}

// Validate checks that resources is there, not each of them.
func (r *ReadDirectoryResult) Validate() error {
	return required("resources/directory/read result", "resources", r.Resources != nil)
}

func (r *ReadDirectoryResult) inVersion(v Version) any {
	d := *r
	d.Resources = make([]Resource, len(r.Resources))
	for i := range r.Resources {
		d.Resources[i] = *r.Resources[i].For(v)
	}
	d.ResultType = completeIn(v)
	return &d
}
