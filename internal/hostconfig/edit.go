package hostconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tailscale/hujson"

	"github.com/troupe-dev/troupe/internal/jsonx"
)

// Definition is a server as it is written to a file, in our own spelling. Texts
// are written as they are: variables in them expand when the file is read.
type Definition struct {
	Type          string            `json:"type,omitempty"`
	Command       string            `json:"command,omitempty"`
	Args          []string          `json:"args,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	EnvFile       string            `json:"envFile,omitempty"`
	Dir           string            `json:"cwd,omitempty"`
	URL           string            `json:"url,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	HeadersHelper string            `json:"headersHelper,omitempty"`
	OAuth         any               `json:"oauth,omitempty"`
	Timeout       string            `json:"timeout,omitempty"` // a duration such as 30s
	Instances     int               `json:"instances,omitzero"`
	NoAsk         bool              `json:"noAsk,omitzero"`
	Disabled      bool              `json:"disabled,omitzero"`
	Tools         *Choice           `json:"tools,omitempty"`
	Description   string            `json:"description,omitempty"`
}

// Choice is what a definition allows of a server's tools.
type Choice struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Definition returns the server as it would be written: without OAuth, and without what
// only a file of another host says. Variables that it removes are not in Env.
func (s *Server) Definition() Definition {
	d := Definition{
		Type: s.Type, Command: s.Command, Args: s.Args, EnvFile: s.EnvFile, Dir: s.Dir, URL: s.URL, Headers: s.Headers,
		HeadersHelper: s.HeadersHelper, Disabled: s.Disabled, Description: s.Description, Tools: ChoiceOf(s.Allow, s.Deny),
	}
	for name, value := range s.Env {
		if d.Env == nil {
			d.Env = make(map[string]string, len(s.Env))
		}
		if value != nil {
			d.Env[name] = *value
		}
	}
	if s.Timeout > 0 {
		d.Timeout = s.Timeout.String()
	}
	return d
}

// ChoiceOf is the choice of these lists; nil where both are empty.
func ChoiceOf(allow, deny []string) *Choice {
	if len(allow)+len(deny) == 0 {
		return nil
	}
	return &Choice{Allow: allow, Deny: deny}
}

var (
	// ErrExists says that a file has a server of that name already.
	ErrExists = errors.New("there is a server of this name already")
	// ErrNoServer says that a file has no server of that name.
	ErrNoServer = errors.New("there is no server of this name")
)

// Add writes a server into a file, which is made if it is missing, with mode 0600:
// definitions sometimes hold secrets. Comments, order and everything else stay as
// they are. A server of that name is [ErrExists] unless replace is set. The result
// is read back before it replaces the file, so that an unreadable definition is an
// error and changes nothing.
func Add(path, server string, d *Definition, replace bool) error {
	return edit(path, server, func(doc *document) error {
		list, err := listOf(doc)
		if err != nil {
			return err
		}
		text, err := jsonx.Marshal(d)
		if err != nil {
			return &ConfigError{File: doc.path, Server: server, Err: err}
		}
		var lines bytes.Buffer // one member a line
		if err := json.Indent(&lines, text, "", "\t"); err != nil {
			return &ConfigError{File: doc.path, Server: server, Err: err}
		}
		value, err := hujson.Parse(lines.Bytes())
		if err != nil {
			return &ConfigError{File: doc.path, Server: server, Err: err}
		}
		for i := range list.Members {
			if name(&list.Members[i]) != server {
				continue
			}
			if !replace {
				return &ConfigError{File: doc.path, Line: doc.line(&list.Members[i].Name), Col: 1, Server: server, Err: ErrExists}
			}
			list.Members[i].Value = value
			return nil
		}
		member := hujson.ObjectMember{Name: hujson.Value{BeforeExtra: hujson.Extra("\n"), Value: hujson.String(server)}, Value: value}
		list.Members = append(list.Members, member)
		return nil
	})
}

// Remove removes a server from a file; an unknown one is [ErrNoServer].
func Remove(path, server string) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &ConfigError{File: path, Server: server, Err: ErrNoServer}
	}
	return edit(path, server, func(doc *document) error {
		list, err := listOf(doc)
		if err != nil {
			return err
		}
		for i := range list.Members {
			if name(&list.Members[i]) == server {
				list.Members = append(list.Members[:i], list.Members[i+1:]...)
				return nil
			}
		}
		return &ConfigError{File: doc.path, Server: server, Err: ErrNoServer}
	})
}

// listOf returns the object that holds the servers, which is made where the file
// has none.
func listOf(doc *document) (*hujson.Object, error) {
	top, ok := doc.root.Value.(*hujson.Object)
	if !ok {
		return nil, doc.fault(&doc.root, "the file must be a JSON object with mcpServers or servers")
	}
	for _, key := range []string{"mcpServers", "servers"} {
		v := member(&doc.root, key)
		if v == nil {
			continue
		}
		list, ok := v.Value.(*hujson.Object)
		if !ok {
			return nil, doc.fault(v, "the servers must be an object with a member for each, is %s", kindOf(v))
		}
		return list, nil
	}
	list := &hujson.Object{AfterExtra: hujson.Extra("\n")}
	top.Members = append(top.Members, hujson.ObjectMember{
		Name: hujson.Value{BeforeExtra: hujson.Extra("\n"), Value: hujson.String("mcpServers")}, Value: hujson.Value{Value: list},
	})
	return list, nil
}

// edit changes a file as a whole: readers see the old or the new one. The server that it
// changes must be valid afterwards, if it is there.
func edit(path, server string, change func(*document) error) error {
	data, err := os.ReadFile(path)
	mode := fs.FileMode(0o600)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		data = []byte("{\n}\n")
	case err != nil:
		return fmt.Errorf("reading the server configuration: %w", err)
	default:
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{\n}\n")
	}
	doc, err := parseDocument(path, data)
	if err != nil {
		return err
	}
	if err := change(doc); err != nil {
		return err
	}
	doc.root.Format()
	text := doc.root.Pack()
	file, err := Parse(path, text, &Options{Raw: true})
	if err != nil {
		return err
	}
	for i := range file.Servers {
		if s := &file.Servers[i]; s.Name == server && s.Err != nil {
			return s.Err
		}
	}
	return replaceFile(path, text, mode)
}

// replaceFile writes beside the file and moves over it. A symbolic link stays one.
func replaceFile(path string, text []byte, mode fs.FileMode) (err error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing the server configuration: %w", err)
	}
	f, err := os.CreateTemp(dir, ".mcp-*.json")
	if err != nil {
		return fmt.Errorf("writing the server configuration: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("writing the server configuration: %w", err)
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
