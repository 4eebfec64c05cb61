package hostconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"
)

// MaxFileBytes bounds a configuration file.
const MaxFileBytes = 4 << 20

const (
	maxServers  = 1000 // of a file; inputs as well
	maxWarnings = 50
	maxFaults   = 20       // of a server
	maxExpanded = 16 << 20 // bytes of all expanded texts of a file
)

// MaxInstances is the most that [Server].Instances may be.
const MaxInstances = 64

// Kinds of transport, in [Server.Type].
const (
	TypeStdio = "stdio"
	TypeHTTP  = "http"
	TypeSSE   = "sse"
)

// Server is one configured server. Its texts are expanded, unless it is
// disabled or Err is set.
type Server struct {
	Name string
	// Type is TypeStdio, TypeHTTP or TypeSSE. Empty, with a URL: HTTP, and SSE if that fails.
	Type string
	// Disabled servers are kept and not started.
	Disabled    bool
	Description string

	// Command is looked up in PATH. It and Args are never given to a shell.
	Command string
	Args    []string
	// Env is added to a minimal environment; nil removes a variable. It
	// includes the variables of EnvFile that the file itself does not set.
	Env     map[string]*string
	EnvFile string // absolute; empty if none
	Dir     string // absolute; where the command runs

	URL     string // http, https, unix or pipe
	Headers map[string]string
	// HeadersHelper is a command that prints headers as JSON when connecting.
	HeadersHelper string
	OAuth         json.RawMessage // as it stands in the file

	Timeout time.Duration // of a call; zero if not said
	// Instances bounds the processes among which calls are distributed; zero if not said.
	// NoAsk says that the server asks neither a person nor a model anything.
	Instances int
	NoAsk     bool
	Allow     []string // only these tools; nil is all
	Deny      []string // not these tools, even if allowed
	// TrustAll and TrustTools are proposals to a human: the file asks for it,
	// which is no consent.
	TrustAll   bool
	TrustTools []string
	DeferTools string // auto, never, always or empty
	// Sandbox is asked for: a host that has none must not start the server.
	Sandbox bool
	// MaxMessage bounds a message in bytes; zero if not said.
	MaxMessage int
	// NoInstructions keeps the server's instructions from models.
	NoInstructions bool
	// Warnings name ignored parts of the definition, and what to do about them.
	Warnings []string

	// Unknown are the members that no field has.
	Unknown map[string]json.RawMessage

	File string // absolute path of the configuration
	Line int    // of the name in it, from 1
	// Hash identifies the command or address, before expansion:
	// approvals are for a file, a name and a hash.
	Hash string
	// Err says why this server cannot be used; one or more [*ConfigError].
	Err error
}

// MaxMessage is the largest bound on a message that a file may set, in bytes.
const MaxMessage = 1 << 30

// Input is a value that a VS Code file asks its user for.
type Input struct {
	ID          string
	Type        string // promptString, pickString or command
	Description string
	Default     string
	Password    bool
	Options     []string // of pickString
	Line        int
}

// File is one configuration file.
type File struct {
	Path     string   // absolute
	Servers  []Server // in the order of the file
	Inputs   []Input
	Warnings []string // about ignored parts; each once
}

// Options says which values expansion may use; nil is the same as the zero value.
type Options struct {
	// LookupEnv finds a variable. Nil is os.LookupEnv.
	LookupEnv func(string) (string, bool)
	// Input asks for the value of ${input:id}, once for each id, after the
	// environment variable TROUPE_INPUT_ID. Nil never asks: the value is missing.
	// It is called while reading: a host that asks for approval first reads the
	// file without it, then again with it.
	Input func(Input) (string, error)
	// WorkspaceFolder is ${workspaceFolder}. Empty is the directory of the
	// file, or the one above if that is .vscode, .cursor or .gemini. Relative
	// paths, and commands without cwd, use that directory in any case.
	WorkspaceFolder string
	// UserHome is ${userHome}. Empty is os.UserHomeDir.
	UserHome string
	// Raw keeps variables as they stand, to show or copy a definition: nothing is
	// expanded, made absolute or read.
	Raw bool
}

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
	var d Options
	if o != nil {
		d = *o
	}
	if d.LookupEnv == nil {
		d.LookupEnv = os.LookupEnv
	}
	d.WorkspaceFolder = cmp.Or(d.WorkspaceFolder, workspace)
	if d.UserHome == "" {
		d.UserHome, _ = os.UserHomeDir() // an error shows where ${userHome} is used
	}
	return d
}

var (
	// ErrUnset says that a variable has no value and no default.
	ErrUnset = errors.New("variable is not set")
	// ErrInput says that the value of an input must come from a human, or from the environment.
	ErrInput = errors.New("input has no value")
	// ErrNoServers says that a file has no list of servers at all.
	ErrNoServers = errors.New("no servers in the file")
)

// ConfigError is a fault in a file: where it is, and how to mend it.
type ConfigError struct {
	File   string
	Line   int    // from 1; 0 if it is about the file
	Col    int    // in characters, from 1
	Server string // empty if it is about the file
	Field  string // such as env.TOKEN or args[1]
	Err    error
}

func (e *ConfigError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Col)
	}
	b.WriteString(": ")
	if e.Server != "" {
		fmt.Fprintf(&b, "server %q: ", e.Server)
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	return b.String() + e.Err.Error()
}

func (e *ConfigError) Unwrap() error { return e.Err }

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

// reader reads one document.
type reader struct {
	*document
	opts    Options
	file    *File
	base    string            // what relative paths start from, and where commands run
	spent   int               // bytes of expanded texts
	gemini  bool              // $VAR expands, and the file holds other settings
	warned  map[string]bool   // unknown keys
	answers map[string]answer // of inputs

	allowed, excluded []string // Gemini's choice of servers by name; nil allows all
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
	r.warn("line %d: %sunknown key %q is ignored%s", r.line(&m.Name), where, shorten(key), hint)
}
