package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/nearest"
	"github.com/troupe-dev/troupe/llm"
)

var agentName = nameForm{regexp.MustCompile(`^[A-Za-z0-9_-]+$`), 64}

// agents reads the section of troupe.yaml.
func (d *decoder) agents(n *yaml.Node, c *Config, foreign bool) {
	c.Agents = make(map[string]Agent)
	d.entries(n, func(key, value *yaml.Node) {
		d.agentName(key, key.Value)
		c.Agents[key.Value] = d.agent(value, c, d.at(key), foreign)
	})
}

func (d *decoder) agentName(n *yaml.Node, name string) {
	switch {
	case !agentName.fits(name):
		d.fail(n, "the name of an agent has 1 to 64 letters, digits, dashes and underscores")
	case name == MainAgent:
		d.fail(n, "the agent %s is the one of the flags: give this one another name", MainAgent)
	}
}

// agent reads one definition.
func (d *decoder) agent(n *yaml.Node, c *Config, source string, foreign bool) Agent {
	a := Agent{Source: source, Foreign: foreign}
	known := d.agentFields(&a, c, foreign)
	known["instructions"] = d.instructions(&a.Instructions, foreign)
	d.object(n, known)
	return a
}

// agentFields are the keys that are the same in troupe.yaml and at the head of a file
// of its own.
func (d *decoder) agentFields(a *Agent, c *Config, foreign bool) fields {
	return fields{
		"description": d.lines(&a.Description),
		"model": func(n *yaml.Node) {
			d.text(&a.Model)(n)
			d.name(c, n, a.Model, false)
		},
		"servers": d.texts(&a.Servers),
		"tools":   func(n *yaml.Node) { d.agentTools(n, a) },
		"limits":  func(n *yaml.Node) { d.limits(n, &a.Limits) },
		"approve": func(n *yaml.Node) {
			d.oneOf(&a.Approve, "never", "tainted", "writes", "all")(n)
			if foreign && (a.Approve == "never" || a.Approve == "tainted") {
				d.fail(n, "approve: %s in a project's file counts only if you name the file (--config %s); writes and all may stand here", a.Approve, FileName)
			}
		},
		"thinking": func(n *yaml.Node) {
			var effort string
			d.oneOf(&effort, efforts()...)(n)
			a.Thinking = llm.Effort(effort)
		},
		"input": d.schema(&a.Input), "output": d.schema(&a.Output),
	}
}

// efforts are the words for how much a model thinks.
func efforts() (words []string) {
	for _, e := range llm.Efforts {
		words = append(words, string(e))
	}
	return words
}

// agentTools reads a list of what is allowed, or a mapping with allow and deny.
func (d *decoder) agentTools(n *yaml.Node, a *Agent) {
	if n.Kind != yaml.MappingNode {
		d.texts(&a.Allow)(n)
	} else {
		d.object(n, fields{"allow": d.texts(&a.Allow), "deny": d.texts(&a.Deny)})
	}
	d.patterns(n, slices.Concat(a.Allow, a.Deny))
}

// patterns refuses what is no pattern of tools.
func (d *decoder) patterns(n *yaml.Node, patterns []string) {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			d.fail(n, "%.40q is no pattern: want the name of a tool, in which * stands for anything", pattern)
		}
	}
}

// instructions reads a text, or the name of a file with it. A project's file may not
// name one elsewhere, even by a link: what it says goes to the model.
func (d *decoder) instructions(out *string, foreign bool) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.lines(out)(n)
			return
		}
		var name string
		d.object(n, fields{"file": d.text(&name)})
		if name == "" {
			d.fail(n, "want a text, or { file: prompts/reader.md }")
			return
		}
		text, err := d.readText(name, foreign)
		if err != nil {
			d.fail(n, "the instructions: %v", err)
			return
		}
		*out = text
	}
}

// readText reads a file of text that is named in this one.
func (d *decoder) readText(name string, foreign bool) (string, error) {
	var data []byte
	var err error
	if foreign {
		data, err = readInside(filepath.Dir(d.file), name, maxInstructions)
	} else {
		data, _, err = readFile(d.beside(name), maxInstructions)
	}
	switch {
	case err != nil:
		return "", err
	case len(data) > maxInstructions:
		return "", fmt.Errorf("%s is larger than %d KiB", name, maxInstructions>>10)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// noAgent says that there is no such agent.
func (c *Config) noAgent(name string) string {
	names := slices.Sorted(maps.Keys(c.Agents))
	switch near := nearest.Name(name, names); {
	case near != "":
		return fmt.Sprintf("there is no agent %.64q: did you mean %q?", name, near)
	case len(names) == 0:
		return fmt.Sprintf("there is no agent %.64q; none is defined: write one into %s or into %s/%[1]s.md", name, FileName, agentFolder)
	}
	return fmt.Sprintf("there is no agent %.64q; there are %s", name, strings.Join(names, ", "))
}

// Agent returns the definition of a name; the error says why it cannot be used.
func (c *Config) Agent(name string) (Agent, error) {
	a, ok := c.Agents[name]
	if !ok {
		return Agent{}, errors.New(c.noAgent(name))
	}
	return a, a.Err
}

// agentFolder is where agents have files of their own, below a project and below the
// home of the user.
const agentFolder = ".agents/agents"

// maxAgentFiles bounds the files that are looked at in one folder.
const maxAgentFiles = 1000

// readAgents adds the agents that have files of their own in the folder below dir. What is
// wrong in one is its own: the folder is shared with other programs.
func (c *Config) readAgents(dir string, foreign bool) error {
	folder := filepath.Join(dir, filepath.FromSlash(agentFolder))
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking for agents: %w", err)
	}
	for i, entry := range entries {
		name, md := strings.CutSuffix(entry.Name(), ".md")
		if !md || i >= maxAgentFiles {
			continue
		}
		file := filepath.Join(folder, entry.Name())
		a, stated := readAgent(dir, file, foreign)
		if name = cmp.Or(stated, name); c.Agents[name].Source != "" && c.Agents[name].Foreign == foreign {
			continue // troupe.yaml comes first
		}
		if c.Agents == nil {
			c.Agents = make(map[string]Agent)
		}
		c.Agents[name] = a
	}
	return nil
}

// readAgent reads the file of one agent.
func readAgent(dir, file string, foreign bool) (a Agent, name string) {
	rel, err := filepath.Rel(dir, file)
	var data []byte
	if err == nil {
		data, err = readInside(dir, rel, maxInstructions)
	}
	if err != nil {
		return Agent{Source: file, Foreign: foreign, Err: err}, ""
	}
	return parseAgent(file, data, foreign)
}

// parseAgent reads the text of such a file: a head between two lines of three hyphens and
// the instructions. Keys of the head that are not known are others'.
func parseAgent(file string, data []byte, foreign bool) (a Agent, name string) {
	a = Agent{Source: file, Foreign: foreign}
	if len(data) > maxInstructions {
		a.Err = fmt.Errorf("%s is larger than %d KiB", file, maxInstructions>>10)
		return a, ""
	}
	head, body, err := cutHead(string(data))
	if err != nil {
		a.Err = fmt.Errorf("%s: %w", file, err)
		return a, ""
	}
	a.Instructions = strings.ToValidUTF8(strings.TrimSpace(body), "\uFFFD")
	d := &decoder{reader{file: file, tolerant: true}}
	own := new(Config)
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(head), &doc); err != nil {
		a.Err = syntax(file, err)
		return a, ""
	}
	if len(doc.Content) > 0 {
		shift(doc.Content[0])
		known := d.agentFields(&a, own, foreign)
		known["name"] = func(n *yaml.Node) {
			d.text(&name)(n)
			d.agentName(n, name)
		}
		known["model"] = func(n *yaml.Node) {
			if d.text(&a.Model)(n); a.Model == "inherit" {
				a.Model = ""
			}
		}
		d.object(doc.Content[0], known)
	}
	if len(d.problems) > 0 {
		a.Err = &Error{d.problems}
	}
	return a, name
}

// shift counts the line of hyphens before the head.
func shift(n *yaml.Node) {
	n.Line++
	for _, child := range n.Content {
		shift(child)
	}
}

// cutHead parts the head from the instructions; a file without one has only those.
func cutHead(text string) (head, body string, err error) {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return "", text, nil
	}
	if body, ok := strings.CutPrefix(rest, "---\n"); ok {
		return "", body, nil
	}
	head, body, ok = strings.Cut(rest+"\n", "\n---\n")
	if !ok {
		return "", "", errors.New("the head of the file has no end: a line of three hyphens")
	}
	return head, body, nil
}

// schema reads a JSON schema that is written as YAML.
func (d *decoder) schema(out *json.RawMessage) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			d.fail(n, "want a JSON schema, got %s", kind(n))
			return
		}
		raw, ok := d.json(nil, n, 0)
		if ok {
			*out = raw
		}
	}
}

// maxDepth bounds how deep a schema is.
const maxDepth = 32

// json writes a node as JSON, with its keys in their order.
func (d *decoder) json(out []byte, n *yaml.Node, depth int) ([]byte, bool) {
	switch {
	case depth > maxDepth:
		d.fail(n, "this is too deep")
		return out, false
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.fail(n, "anchors, aliases and merges are not taken: write it out")
		return out, false
	case n.Kind == yaml.ScalarNode:
		return d.jsonScalar(out, n)
	}
	open, end := byte('['), byte(']')
	if n.Kind == yaml.MappingNode {
		open, end = '{', '}'
	}
	out = append(out, open)
	seen := make(map[string]bool)
	for i, child := range n.Content {
		ok := true
		switch isKey := n.Kind == yaml.MappingNode && i%2 == 0; {
		case isKey && (child.Kind != yaml.ScalarNode || seen[child.Value] || child.ShortTag() == "!!merge"):
			d.fail(child, "this is no key, or stands here twice")
			return out, false
		case isKey:
			seen[child.Value] = true
			if i > 0 {
				out = append(out, ',')
			}
			out = append(appendText(out, child.Value), ':')
			continue
		case i > 0 && n.Kind != yaml.MappingNode:
			out = append(out, ',')
		}
		if out, ok = d.json(out, child, depth+1); !ok {
			return out, false
		}
	}
	return append(out, end), true
}

func appendText(out []byte, text string) []byte {
	raw, err := json.Marshal(text)
	if err != nil {
		return append(out, `""`...) // a string is always encoded
	}
	return append(out, raw...)
}

func (d *decoder) jsonScalar(out []byte, n *yaml.Node) ([]byte, bool) {
	var v any
	if err := n.Decode(&v); err != nil {
		d.fail(n, "this value is not JSON")
		return out, false
	}
	switch v.(type) {
	case nil, bool, int, int64, uint64, float64, string:
	default:
		v = n.Value // a date is a text
	}
	raw, err := json.Marshal(v)
	if err != nil { // .nan
		d.fail(n, "this value is not JSON")
		return out, false
	}
	return append(out, raw...), true
}
