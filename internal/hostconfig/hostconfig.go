package hostconfig

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/troupe-dev/troupe/internal/clip"
)

// workspaceOf is the directory of a file, or the one above it if that is for
// the settings of an editor.
func workspaceOf(path string) string {
	dir := filepath.Dir(path)
	if slices.Contains([]string{".vscode", ".cursor", ".gemini"}, filepath.Base(dir)) {
		dir = filepath.Dir(dir)
	}
	return dir
}

func (o *Options) withDefaults(workspace string) Options {
	d := *cmp.Or(o, new(Options))
	if d.LookupEnv == nil {
		d.LookupEnv = os.LookupEnv
	}
	d.WorkspaceFolder = cmp.Or(d.WorkspaceFolder, workspace)
	if d.UserHome == "" {
		d.UserHome, _ = os.UserHomeDir() // an error shows where ${userHome} is used
	}
	return d
}

// Load reads one file. The error is about the file as a whole, a
// [*ConfigError] or one of os; entries have their own.
func Load(path string, o *Options) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the server configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the server configuration: %w", err)
	}
	return Parse(path, data, o)
}

// Parse is Load of data that has been read from path.
func Parse(path string, data []byte, o *Options) (*File, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading the server configuration: %w", err)
	}
	doc, err := parseDocument(path, data)
	if err != nil {
		return nil, err
	}
	r := &reader{
		document: doc,
		base:     workspaceOf(path),
		file:     &File{Path: path},
		gemini:   filepath.Base(path) == "settings.json" && filepath.Base(filepath.Dir(path)) == ".gemini",
		warned:   map[string]bool{},
		answers:  map[string]answer{},
	}
	r.opts = o.withDefaults(r.base)
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.file, nil
}

// shared reports whether the file is one for all kinds of settings.
func (r *reader) shared() bool {
	return r.gemini || slices.Contains([]string{".claude.json", "settings.json", "claude_desktop_config.json"}, filepath.Base(r.path))
}

// read finds the dialect by the top-level keys.
func (r *reader) read() error {
	top, ok := r.root.Value.(*hujson.Object)
	if !ok {
		return r.fault(&r.root, "the file must be a JSON object with mcpServers or servers")
	}
	var lists []*hujson.Value
	var settings, project *hujson.Value
	for i := range top.Members {
		m := &top.Members[i]
		switch key := name(m); key {
		case "mcpServers", "servers":
			lists = append(lists, &m.Value)
		case "inputs":
			if err := r.inputs(&m.Value); err != nil {
				return err
			}
		case "mcp":
			settings = &m.Value
		case "projects":
			project = member(member(&m.Value, r.opts.WorkspaceFolder), "mcpServers")
		case "$schema", "_comment", "version", "description", "name":
		default:
			if !r.shared() {
				r.warnKey(m, key, "", "mcpServers", "servers", "inputs")
			}
		}
	}
	if nested := member(settings, "servers"); nested != nil { // VS Code's settings.json
		lists = append(lists, nested)
		if in := member(settings, "inputs"); in != nil {
			if err := r.inputs(in); err != nil {
				return err
			}
		}
	}
	if project != nil { // last: the servers of one project count more
		lists = append(lists, project)
	}
	if len(lists) == 0 && !r.shared() {
		return r.fault(&r.root, `%w: it needs "mcpServers": {…}, or "servers": {…} as in VS Code`, ErrNoServers)
	}
	if r.gemini {
		if err := r.selection(settings); err != nil {
			return err
		}
	}
	for _, l := range lists {
		if err := r.servers(l); err != nil {
			return err
		}
	}
	return nil
}

// selection reads Gemini's mcp.allowed and mcp.excluded.
func (r *reader) selection(settings *hujson.Value) error {
	for key, to := range map[string]*[]string{"allowed": &r.allowed, "excluded": &r.excluded} {
		for i, e := range elements(member(settings, key)) {
			s, ok := text(e)
			if !ok {
				return r.fault(e, "mcp.%s[%d] must be a string, is %s", key, i, kindOf(e))
			}
			*to = append(*to, s)
		}
	}
	return nil
}

// deselected reports whether the file switches a server off by its name.
func (r *reader) deselected(name string) bool {
	return slices.Contains(r.excluded, name) || r.allowed != nil && !slices.Contains(r.allowed, name)
}

// servers reads one list. The server of a later list takes the place of one before.
func (r *reader) servers(v *hujson.Value) error {
	list, ok := v.Value.(*hujson.Object)
	if !ok {
		return r.fault(v, "the servers must be an object with a member for each, is %s", kindOf(v))
	}
	if len(list.Members)+len(r.file.Servers) > maxServers {
		return r.fault(v, "there are more than %d servers", maxServers)
	}
	for i := range list.Members {
		s := r.server(&list.Members[i])
		if at := slices.IndexFunc(r.file.Servers, func(o Server) bool { return o.Name == s.Name }); at >= 0 {
			r.warn("server %q is listed twice; the one of line %d counts", s.Name, s.Line)
			r.file.Servers = slices.Delete(r.file.Servers, at, at+1)
		}
		r.file.Servers = append(r.file.Servers, s)
	}
	return nil
}

// inputs reads VS Code's list of inputs.
func (r *reader) inputs(v *hujson.Value) error {
	if _, ok := v.Value.(*hujson.Array); !ok {
		return r.fault(v, "inputs must be an array, is %s", kindOf(v))
	}
	if len(elements(v))+len(r.file.Inputs) > maxServers {
		return r.fault(v, "there are more than %d inputs", maxServers)
	}
	for i, e := range elements(v) {
		in := Input{Line: r.line(e)}
		for key, to := range map[string]*string{"id": &in.ID, "type": &in.Type, "description": &in.Description, "default": &in.Default} {
			if m := member(e, key); m != nil {
				s, ok := text(m)
				if !ok {
					return r.fault(m, "inputs[%d].%s must be a string, is %s", i, key, kindOf(m))
				}
				*to = s
			}
		}
		if in.ID == "" {
			return r.fault(e, "inputs[%d] needs an id", i)
		}
		in.Password = literal(member(e, "password")) == "true"
		for _, option := range elements(member(e, "options")) {
			if s, ok := text(option); ok {
				in.Options = append(in.Options, s)
			}
		}
		r.file.Inputs = append(r.file.Inputs, in)
	}
	return nil
}

func (r *reader) warn(format string, args ...any) {
	if len(r.file.Warnings) == maxWarnings {
		return
	}
	r.file.Warnings = append(r.file.Warnings, r.path+": "+fmt.Sprintf(format, args...))
}

// warnKey warns once of an unknown key, and names the one that was probably meant.
func (r *reader) warnKey(m *hujson.ObjectMember, key, server string, known ...string) {
	if r.warned[key] {
		return
	}
	r.warned[key] = true
	where := ""
	if server != "" {
		where = fmt.Sprintf("server %q: ", server)
	}
	hint := ""
	for _, k := range known {
		if strings.EqualFold(k, key) {
			hint = fmt.Sprintf("; is %q meant?", k)
		}
	}
	r.warn("line %d: %sunknown key %q is ignored%s", r.line(&m.Name), where, clip.Text(key, maxShown), hint)
}
