package hostimport

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"

	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/internal/jsonx"
)

// maxServers bounds what one file may define.
const maxServers = 1000

// Server is one server of another host, as Troupe would write it.
type Server struct {
	Name string
	Def  hostconfig.Definition
	// Err says why the server cannot be imported.
	Err error
	// Notes say what was left out or changed.
	Notes []string
}

// Read reads a file of the host; "" is guessed from the file's name. The error is
// about the file as a whole. Servers are in the order of the file, or by name where
// the format has none.
func Read(host, path string) ([]Server, error) {
	if host == "" {
		host = hostOf(path)
	}
	switch host {
	case "goose":
		return readTree(path, "extensions")
	case "fast-agent":
		return readTree(path, "mcp", "servers")
	case "kit":
		return readTree(path, "mcpServers")
	case "crush", "opencode":
		return readTree(path, "mcp")
	}
	return readOurs(path)
}

// readOurs reads the formats that a host may be pointed at directly.
func readOurs(path string) ([]Server, error) {
	file, err := hostconfig.Load(path, &hostconfig.Options{Raw: true})
	if err != nil {
		return nil, err
	}
	gemini := filepath.Base(filepath.Dir(file.Path)) == ".gemini"
	all := make([]Server, 0, len(file.Servers))
	for i := range file.Servers {
		s := &file.Servers[i]
		out := Server{Name: s.Name, Err: s.Err, Def: s.Definition()}
		if s.Command != "" {
			out.Def.Type = ""
		}
		for name, value := range s.Env {
			if value == nil {
				out.note("the environment variable %s, which it takes away, is not taken over", name)
			}
		}
		if len(s.OAuth) > 0 {
			out.Def.OAuth = s.OAuth
		}
		if s.TrustAll || len(s.TrustTools) > 0 {
			out.note("that it is trusted is not taken over: say so with troupe mcp approve --trust")
		}
		if s.Sandbox {
			out.Err = fmt.Errorf("it is to run in a sandbox: %w", errors.ErrUnsupported)
		}
		out.place(filepath.Dir(file.Path))
		out.texts(func(text string) string { return ownVariables(text, gemini) })
		all = append(all, out)
	}
	return all, nil
}

var (
	dollar = regexp.MustCompile(`\$([A-Za-z_][A-Za-z0-9_]*)`)
	inputs = regexp.MustCompile(`\$\{input:([^}]+)\}`)
	notID  = regexp.MustCompile(`[^A-Z0-9]`)
)

// ownVariables rewrites variables that only the other host expands. The value of an input
// comes from the environment, where hostconfig looks for it too.
func ownVariables(text string, gemini bool) string {
	if gemini {
		text = dollar.ReplaceAllString(text, `$${$1}`)
	}
	return inputs.ReplaceAllStringFunc(text, func(found string) string {
		id := inputs.FindStringSubmatch(found)[1]
		return "${TROUPE_INPUT_" + notID.ReplaceAllString(strings.ToUpper(id), "_") + "}"
	})
}

func (s *Server) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

// place keeps a command in the folder it ran in.
func (s *Server) place(dir string) {
	if s.Def.Command != "" && s.Def.Dir != "" && !filepath.IsAbs(s.Def.Dir) && !strings.HasPrefix(s.Def.Dir, "$") {
		s.Def.Dir = filepath.Join(dir, s.Def.Dir)
	}
}

// texts rewrites every text that may have variables.
func (s *Server) texts(f func(string) string) {
	d := &s.Def
	d.Command, d.URL, d.Dir, d.EnvFile = f(d.Command), f(d.URL), f(d.Dir), f(d.EnvFile)
	for i := range d.Args {
		d.Args[i] = f(d.Args[i])
	}
	for _, m := range []map[string]string{d.Env, d.Headers} {
		for name := range m {
			m[name] = f(m[name])
		}
	}
}

// readTree reads the other formats, YAML or JSON, below a path of keys.
func readTree(path string, keys ...string) ([]Server, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the servers of another host: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, hostconfig.MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the servers of another host: %w", err)
	}
	return parseTree(path, data, keys...)
}

func parseTree(path string, data []byte, keys ...string) ([]Server, error) {
	if len(data) > hostconfig.MaxFileBytes {
		return nil, fmt.Errorf("%s: the file is larger than %d MiB", path, hostconfig.MaxFileBytes>>20)
	}
	tree, err := decode(path, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, key := range keys {
		next, ok := tree[key].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s: %w: there is no %s", path, hostconfig.ErrNoServers, strings.Join(keys, "."))
		}
		tree = next
	}
	if len(tree) > maxServers {
		return nil, fmt.Errorf("%s: there are more than %d servers", path, maxServers)
	}
	all := make([]Server, 0, len(tree))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		members, ok := tree[name].(map[string]any)
		if !ok {
			if len(keys) == 1 && keys[0] == "mcp" {
				continue // a setting among the servers
			}
			all = append(all, Server{Name: name, Err: fmt.Errorf("it is no object but %T", tree[name])})
			continue
		}
		all = append(all, entry(name, members, filepath.Dir(path), filepath.Base(path)))
	}
	return all, nil
}

// decode reads YAML, or JSON with comments, into plain values.
func decode(path string, data []byte) (map[string]any, error) {
	tree := map[string]any{}
	if strings.Contains(filepath.Base(path), ".json") {
		plain, err := hujson.Standardize(data)
		if err != nil {
			return nil, fmt.Errorf("not valid JSON: %w", err)
		}
		if err := jsonx.Unmarshal(plain, &tree); err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		return tree, nil
	}
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	return tree, nil
}

// entry reads one server of those formats, which differ little in their names.
func entry(name string, m map[string]any, dir, file string) Server {
	e := &tree{Server: Server{Name: name}, members: m}
	d := &e.Def
	command := e.list("command")
	if cmd := e.text("cmd"); cmd != "" {
		command = []string{cmd}
	}
	if len(command) > 0 {
		d.Command, d.Args = command[0], append(command[1:], e.list("args")...)
	}
	d.Env = e.table("env", "envs", "environment")
	for _, key := range e.list("env_keys") { // goose keeps their values in its key ring
		if d.Env == nil {
			d.Env = map[string]string{}
		}
		d.Env[key] = "${" + key + "}"
		e.note("set %s in the environment: its value is in the other host's key ring", key)
	}
	d.Headers, d.URL = e.table("headers"), e.text("url", "uri", "serverUrl")
	d.Dir, d.Description = e.text("cwd", "workingDirectory"), e.text("description")
	kind := strings.ToLower(e.text("type", "transport"))
	switch kind {
	case "sse":
		d.Type = "sse"
	case "http", "streamable_http", "streamable-http", "remote":
		if d.URL != "" && kind != "remote" {
			d.Type = "http"
		}
	case "builtin", "platform", "frontend", "inline_python", "inprocess":
		e.Err = fmt.Errorf("it is part of the other host (%s)", kind)
	}
	if enabled, said := m["enabled"].(bool); said && !enabled {
		d.Disabled = true
	}
	if off, _ := m["disabled"].(bool); off {
		d.Disabled = true
	}
	// goose and crush count in seconds, the others in milliseconds.
	unit := time.Millisecond
	if strings.Contains(file, "crush") || file == "config.yaml" {
		unit = time.Second
	}
	if t := number(m["timeout"]); t > 0 {
		d.Timeout = time.Duration(t * float64(unit)).String()
	}
	d.Tools = hostconfig.ChoiceOf(append(e.list("allowedTools"), e.list("available_tools")...), append(e.list("excludedTools"), e.list("disabled_tools")...))
	if e.Err == nil && (d.Command == "") == (d.URL == "") {
		e.Err = errors.New("it has neither a command nor a url, or both")
	}
	e.place(dir)
	e.texts(func(text string) string { return ownVariables(braces.ReplaceAllString(text, `$1$${$2}`), false) })
	return e.Server
}

// braces are opencode's variables: {env:NAME}.
var braces = regexp.MustCompile(`(^|[^$])\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

// tree is an entry whose members are plain values.
type tree struct {
	Server
	members map[string]any
}

func (e *tree) text(names ...string) string {
	for _, name := range names {
		if s, ok := e.members[name].(string); ok {
			return s
		}
	}
	return ""
}

// list accepts a list of texts, or one text for a list of one.
func (e *tree) list(name string) []string {
	switch v := e.members[name].(type) {
	case string:
		return []string{v}
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			list = append(list, scalar(item))
		}
		return list
	}
	return nil
}

func (e *tree) table(names ...string) map[string]string {
	for _, name := range names {
		if m, ok := e.members[name].(map[string]any); ok && len(m) > 0 {
			table := make(map[string]string, len(m))
			for key, value := range m {
				table[key] = scalar(value)
			}
			return table
		}
	}
	return nil
}

// scalar is a value as a text, for the environment.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	case json.Number:
		return v.String()
	}
	return fmt.Sprint(v)
}

func number(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return 0
}
