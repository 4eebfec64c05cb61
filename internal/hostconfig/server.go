package hostconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/troupe-dev/troupe/internal/clip"
)

// field is one field of a server: its spellings in the files of all hosts, and its reader.
type field struct {
	keys []string // the first one is the field's name in entry.given
	read func(e *entry, key string, v *hujson.Value)
	many bool // several spellings of it may stand in one server
}

// fields are all fields of a server.
var fields = []field{
	{keys: []string{"type", "transport"}, read: (*entry).readType},
	{keys: []string{"command"}, read: (*entry).readCommand},
	{keys: []string{"args"}, read: func(e *entry, key string, v *hujson.Value) { e.Args = append(e.Args, e.list(key, v)...) }},
	{keys: []string{"env", "environment", "envs"}, read: (*entry).readEnv},
	{keys: []string{"envFile"}, read: textOf(func(e *entry) *string { return &e.EnvFile })},
	{keys: []string{"cwd", "workingDirectory"}, read: textOf(func(e *entry) *string { return &e.Dir })},
	{keys: []string{"url", "httpUrl", "serverUrl", "uri"}, read: textOf(func(e *entry) *string { return &e.URL })},
	{keys: []string{"headers"}, read: (*entry).readHeaders},
	{keys: []string{"headersHelper"}, read: textOf(func(e *entry) *string { return &e.HeadersHelper })},
	{keys: []string{"oauth", "auth"}, read: (*entry).readOAuth},
	{keys: []string{"timeout"}, read: (*entry).readTimeout},
	{keys: []string{"maxMessageBytes"}, read: (*entry).readMaxMessage},
	{keys: []string{"instructions"}, read: func(e *entry, key string, v *hujson.Value) { e.NoInstructions = !e.boolean(key, v) }},
	{keys: []string{"instances"}, read: (*entry).readInstances},
	{keys: []string{"heldInstances"}, read: (*entry).readHeldInstances},
	{keys: []string{"noAsk"}, read: func(e *entry, key string, v *hujson.Value) { e.NoAsk = e.boolean(key, v) }},
	{keys: []string{"disabled", "enabled"}, read: func(e *entry, key string, v *hujson.Value) {
		e.Disabled = e.boolean(key, v) == (key == "disabled")
	}},
	{keys: []string{"tools"}, read: (*entry).readTools},
	{keys: []string{"includeTools", "allowedTools", "enabled_tools"}, read: func(e *entry, key string, v *hujson.Value) { e.Allow = e.list(key, v) }},
	{keys: []string{"excludeTools", "excludedTools", "disabledTools", "disabled_tools"}, read: func(e *entry, key string, v *hujson.Value) { e.Deny = e.list(key, v) }},
	{keys: []string{"trust"}, read: func(e *entry, key string, v *hujson.Value) { e.TrustAll = e.boolean(key, v) }},
	{keys: []string{"alwaysAllow", "autoApprove"}, many: true, read: func(e *entry, key string, v *hujson.Value) {
		e.TrustTools = append(e.TrustTools, e.list(key, v)...)
	}},
	{keys: []string{"deferTools"}, read: (*entry).readDefer},
	{keys: []string{"sandbox", "sandboxEnabled"}, many: true, read: func(e *entry, key string, v *hujson.Value) {
		_, object := v.Value.(*hujson.Object)
		e.Sandbox = e.Sandbox || object || e.boolean(key, v)
	}},
	{keys: []string{"description"}, read: textOf(func(e *entry) *string { return &e.Description })},
}

func textOf(to func(*entry) *string) func(*entry, string, *hujson.Value) {
	return func(e *entry, key string, v *hujson.Value) { *to(e) = e.text(key, v) }
}

// quiet keys are kept as unknown without a warning: other hosts use them for themselves.
var quiet = []string{"dev", "gallery", "version", "_comment", "$comment", "name"}

// entry is one server being read.
type entry struct {
	*reader
	Server
	given  map[string]*hujson.ObjectMember // by the first key of its field
	faults []error
}

// server reads one member of the list of servers.
func (r *reader) server(m *hujson.ObjectMember) Server {
	e := &entry{reader: r, given: map[string]*hujson.ObjectMember{}}
	e.Name, e.File, e.Line = name(m), r.path, r.line(&m.Name)
	if e.Name == "" || len(e.Name) > 256 || strings.ContainsFunc(e.Name, isControl) {
		e.fail(&m.Name, "", "the name of a server must have 1 to 256 bytes, and no control characters")
	}
	object, ok := m.Value.Value.(*hujson.Object)
	if !ok {
		e.fail(&m.Value, "", "must be an object with command or url, is %s", kindOf(&m.Value))
		object = new(hujson.Object)
	}
	for i := range object.Members {
		e.member(&object.Members[i])
	}
	if ok {
		e.complete(m)
	}
	e.Disabled = e.Disabled || e.deselected(e.Name)
	e.Reach = reachOf(&e.Server)
	switch {
	case e.opts.Raw:
		if len(e.faults) == 0 && e.URL != "" && !strings.Contains(e.URL, "$") {
			e.checkURL()
		}
	case len(e.faults) == 0:
		e.expand()
	}
	e.Hash, e.EarlierHash = e.Reach.hash(), e.Reach.earlierHash()
	e.Err = errors.Join(e.faults...)
	if len(e.faults) == 1 {
		e.Err = e.faults[0]
	}
	return e.Server
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

// fail notes a fault of a field.
func (e *entry) fail(v *hujson.Value, field, format string, args ...any) {
	if len(e.faults) == maxFaults {
		return
	}
	line, col := e.position(v.StartOffset)
	e.faults = append(e.faults, &ConfigError{
		File: e.path, Line: line, Col: col, Server: e.Name, Field: field, Err: fmt.Errorf(format, args...),
	})
}

// warn notes that a field is ignored, and what to do about it.
func (e *entry) warn(v *hujson.Value, field, text string) {
	if len(e.Warnings) < maxFaults {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%s:%d: server %q: %s %s", e.path, e.line(v), e.Name, field, text))
	}
}

// member reads one key of a server.
func (e *entry) member(m *hujson.ObjectMember) {
	key := name(m)
	at := slices.IndexFunc(fields, func(f field) bool { return slices.Contains(f.keys, key) })
	if at < 0 {
		e.unknown(m, key)
		return
	}
	f := &fields[at]
	if other := e.given[f.keys[0]]; other != nil && !f.many {
		e.fail(&m.Name, key, "says the same as %q; keep one of them", name(other))
		return
	}
	e.given[f.keys[0]] = m
	f.read(e, key, &m.Value)
}

// unknown keeps a key that no field has, with a warning.
func (e *entry) unknown(m *hujson.ObjectMember, key string) {
	if e.Unknown == nil {
		e.Unknown = make(map[string]json.RawMessage)
	}
	e.Unknown[key] = raw(&m.Value)
	if slices.Contains(quiet, key) {
		return
	}
	var known []string
	for _, f := range fields {
		known = append(known, f.keys...)
	}
	slices.Sort(known)
	e.warnKey(m, key, e.Name, known...)
	e.warn(&m.Name, key, "is not known and is ignored")
}

func (e *entry) readDefer(key string, v *hujson.Value) {
	if e.DeferTools = e.text(key, v); e.DeferTools != "never" {
		e.warn(v, key, `is not supported yet, so all tools of the server are offered from the start; choose among them with "tools"`)
	}
}

func (e *entry) text(field string, v *hujson.Value) string {
	s, ok := text(v)
	switch {
	case !ok:
		e.fail(v, field, "must be a string, is %s%s", kindOf(v), quoteHint(v))
	case strings.ContainsRune(s, 0):
		e.fail(v, field, "must not have a NUL character")
	}
	return s
}

// quoteHint shows how a bare number or boolean is written as text.
func quoteHint(v *hujson.Value) string {
	if lit := literal(v); lit != "" && lit != "null" {
		return fmt.Sprintf("; write %q", lit)
	}
	return ""
}

func (e *entry) boolean(field string, v *hujson.Value) bool {
	lit := literal(v)
	if lit != "true" && lit != "false" {
		e.fail(v, field, "must be true or false, is %s", kindOf(v))
	}
	return lit == "true"
}

func (e *entry) list(field string, v *hujson.Value) []string {
	if _, ok := v.Value.(*hujson.Array); !ok {
		e.fail(v, field, "must be an array of strings, is %s", kindOf(v))
		return nil
	}
	list := []string{}
	for i, item := range elements(v) {
		list = append(list, e.text(fmt.Sprintf("%s[%d]", field, i), item))
	}
	return list
}

func (e *entry) readType(key string, v *hujson.Value) {
	switch s := e.text(key, v); strings.ToLower(s) {
	case "stdio", "local":
		e.Type = TypeStdio
	case "http", "streamable-http", "streamablehttp", "streamable_http":
		e.Type = TypeHTTP
	case "sse":
		e.Type = TypeSSE
	case "remote", "": // HTTP, or SSE if that fails
	default:
		e.fail(v, key, "%q is not known; it is stdio, http or sse", clip.Text(s, maxShown))
	}
}

// readCommand accepts a text, or a list of the command and its first arguments.
func (e *entry) readCommand(key string, v *hujson.Value) {
	if _, ok := v.Value.(*hujson.Array); !ok {
		e.Command = e.text(key, v)
		return
	}
	if list := e.list(key, v); len(list) > 0 {
		e.Command, e.Args = list[0], append(list[1:], e.Args...)
	}
}

// object calls f for each member of an object of texts whose name is good; what is what such
// a name stands for.
func (e *entry) object(key string, v *hujson.Value, what string, good func(string) bool, f func(name string, v *hujson.Value)) {
	o, ok := v.Value.(*hujson.Object)
	if !ok {
		e.fail(v, key, "must be an object of strings, is %s", kindOf(v))
		return
	}
	for i := range o.Members {
		m := &o.Members[i]
		if n := name(m); good(n) {
			f(n, &m.Value)
		} else {
			e.fail(&m.Name, key, "%q cannot be the name of a %s", clip.Text(n, maxShown), what)
		}
	}
}

// readEnv accepts texts, null to remove a variable, and the values that other hosts turn into
// text.
func (e *entry) readEnv(key string, v *hujson.Value) {
	e.Env = make(map[string]*string)
	e.object(key, v, "variable", func(n string) bool { return n != "" && !strings.ContainsAny(n, "=\x00") }, func(n string, v *hujson.Value) {
		lit := literal(v)
		switch lit {
		case "null":
			e.Env[n] = nil
			return
		case "":
			lit = e.text(key+"."+n, v)
		}
		e.Env[n] = &lit
	})
}

func (e *entry) readHeaders(key string, v *hujson.Value) {
	e.Headers = make(map[string]string)
	e.object(key, v, "header", func(n string) bool {
		return n != "" && !strings.ContainsFunc(n, func(c rune) bool { return !isToken(c) })
	},
		func(n string, v *hujson.Value) { e.Headers[n] = e.text(key+"."+n, v) })
}

// isToken is the alphabet of header names (RFC 9110, 5.6.2).
func isToken(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c)
}

// readTimeout accepts milliseconds or a duration such as "30s".
func (e *entry) readTimeout(key string, v *hujson.Value) {
	if s, ok := text(v); ok {
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			e.fail(v, key, `%q is not a duration; write milliseconds as a number, or a text like "30s"`, clip.Text(s, maxShown))
		}
		e.Timeout = d
		return
	}
	ms, err := strconv.ParseFloat(literal(v), 64)
	if err != nil || ms <= 0 || ms > math.MaxInt64/float64(2*time.Millisecond) {
		e.fail(v, key, `must be a number of milliseconds above 0, or a text like "30s"`)
		return
	}
	e.Timeout = time.Duration(ms * float64(time.Millisecond))
}

func (e *entry) readInstances(key string, v *hujson.Value) {
	e.Instances = e.number(key, v, "whole number", MaxInstances)
}

// readHeldInstances keeps none apart from the default.
func (e *entry) readHeldInstances(key string, v *hujson.Value) {
	if e.HeldInstances = -1; literal(v) != "0" {
		e.HeldInstances = e.number(key, v, "whole number", MaxInstances)
	}
}

func (e *entry) readMaxMessage(key string, v *hujson.Value) {
	e.MaxMessage = e.number(key, v, "number of bytes", MaxMessage)
}

// number reads a whole number from 1 to most.
func (e *entry) number(key string, v *hujson.Value, what string, most int) int {
	n, err := strconv.Atoi(literal(v))
	if err != nil || n < 1 || n > most {
		e.fail(v, key, "must be a %s from 1 to %d", what, most)
		return 0
	}
	return n
}

// readTools accepts Copilot's list, where "*" is all, or {allow, deny}.
func (e *entry) readTools(key string, v *hujson.Value) {
	if _, ok := v.Value.(*hujson.Object); ok {
		if allow := member(v, "allow"); allow != nil {
			e.Allow = e.list(key+".allow", allow)
		}
		if deny := member(v, "deny"); deny != nil {
			e.Deny = e.list(key+".deny", deny)
		}
		return
	}
	if e.Allow = e.list(key, v); slices.Contains(e.Allow, "*") {
		e.Allow = nil
	}
}

// complete checks that the fields make one server, and settles its type.
func (e *entry) complete(m *hujson.ObjectMember) {
	command, address := e.given["command"], e.given["url"]
	switch {
	case command != nil && address != nil:
		e.fail(&address.Name, name(address), "a server has either a command or a url; keep one of them")
	case command == nil && address == nil:
		e.fail(&m.Name, "", "it has neither a command nor a url; add one of them")
	case command != nil && (e.Type == TypeHTTP || e.Type == TypeSSE):
		e.fail(&e.given["type"].Value, "type", "is %s, which needs a url, but there is a command", e.Type)
	case address != nil && e.Type == TypeStdio:
		e.fail(&e.given["type"].Value, "type", "is stdio, which needs a command, but there is a url")
	case command != nil:
		e.Type = TypeStdio
		if strings.TrimSpace(e.Command) == "" {
			e.fail(&command.Value, "command", "is empty")
		}
	case e.Type == "" && name(address) == "httpUrl":
		e.Type = TypeHTTP
	}
}

// expand replaces the variables in every field that may have them. Of a disabled server only the file of its
// environment is looked at, for its approval.
func (e *entry) expand() {
	vars, err := e.envFile()
	if e.EnvFile != "" {
		e.Reach.sets(vars)
	}
	if e.Disabled {
		return
	}
	if err != nil {
		e.fail(e.at("envFile", ""), "envFile", "%w", err)
	}
	e.expandText("command", "command", &e.Command)
	for i := range e.Args {
		e.expandText("args", fmt.Sprintf("args[%d]", i), &e.Args[i])
	}
	for _, key := range slices.Sorted(maps.Keys(e.Env)) {
		if e.Env[key] != nil {
			e.expandText("env", "env."+key, e.Env[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Headers)) {
		value := e.Headers[key]
		e.expandText("headers", "headers."+key, &value)
		if strings.ContainsFunc(value, func(c rune) bool { return isControl(c) && c != '\t' }) {
			e.fail(e.at("headers", key), "headers."+key, "its value has a line break or another control character")
		}
		e.Headers[key] = value
	}
	e.expandOAuth()
	e.noted = make(map[string]string)
	e.expandText("url", "url", &e.URL)
	e.InURL, e.noted = e.noted, nil
	e.expandText("cwd", "cwd", &e.Dir)
	if len(e.faults) > 0 {
		return
	}
	e.settle(vars)
}

// settle makes paths absolute, adds the variables of a file that the entry does not set itself, and checks the
// expanded texts.
func (e *entry) settle(vars map[string]string) {
	if e.Type == TypeStdio {
		if e.Dir = e.absolute(e.Dir); strings.TrimSpace(e.Command) == "" {
			e.fail(e.at("command", ""), "command", "is empty once its variables are expanded")
		}
	}
	if e.URL != "" || e.given["url"] != nil {
		e.checkURL()
	}
	if e.Env == nil && vars != nil {
		e.Env = make(map[string]*string, len(vars))
	}
	for name, value := range vars {
		if _, set := e.Env[name]; !set {
			e.Env[name] = &value
		}
	}
	e.checkPath()
}

// checkPath refuses a PATH that finds programs by where the server runs, which is the folder of a project as a rule:
// what is shown as npx would run a file of the project.
func (e *entry) checkPath() {
	for name, value := range e.Env {
		if value == nil || !strings.EqualFold(name, "PATH") {
			continue
		}
		elements := filepath.SplitList(*value)
		if *value == "" {
			elements = []string{""}
		}
		for i, element := range elements {
			if !filepath.IsAbs(element) {
				e.fail(e.at("env", name), "env."+name, "its element %d, %q, is not an absolute path: programs would be looked for in the folder "+
					"that the server runs in; write it in full, as in ${workspaceFolder}/bin, or leave it out", i+1, clip.Text(element, maxShown))
			}
		}
	}
}

// absolute resolves a path against the folder of the file.
func (e *entry) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(e.base, path)
}

func (e *entry) checkURL() {
	u, err := url.Parse(e.URL)
	if err != nil {
		var bad *url.Error // its text would repeat the address, secrets included
		if errors.As(err, &bad) {
			err = bad.Err
		}
		e.fail(e.at("url", ""), "url", "is not a URL: %w", err)
		return
	}
	switch u.Scheme {
	case "http", "https":
		if u.Host == "" {
			e.fail(e.at("url", ""), "url", "has no host")
		}
	case "unix", "pipe":
		if u.Path == "" {
			e.fail(e.at("url", ""), "url", "has no path")
		}
	default:
		e.fail(e.at("url", ""), "url", "must begin with http://, https://, unix:// or pipe://")
	}
}

// at returns the place of a field, or of its member key if there is one.
func (e *entry) at(field, key string) *hujson.Value {
	m := e.given[field]
	if m == nil {
		return &e.root
	}
	if inner := member(&m.Value, key); inner != nil {
		return inner
	}
	return &m.Value
}

// expandText replaces the variables of one text, or notes why that fails.
func (e *entry) expandText(field, shown string, s *string) {
	expanded, err := e.expandString(*s)
	if err != nil {
		at := e.at(field, "")
		if key, ok := strings.CutPrefix(shown, field+"."); ok {
			at = e.at(field, key)
		}
		if i, err := strconv.Atoi(strings.Trim(strings.TrimPrefix(shown, field), "[]")); err == nil {
			if list := elements(at); i < len(list) {
				at = list[i]
			}
		}
		e.fail(at, shown, "%w", err)
		return
	}
	*s = expanded
}

// envFile reads the file of the server's environment; nil without one. It sets EnvFile to its absolute path.
func (e *entry) envFile() (map[string]string, error) {
	if e.EnvFile == "" {
		return nil, nil
	}
	path, err := e.expandString(e.EnvFile)
	if err != nil {
		return nil, err
	}
	e.EnvFile = e.absolute(path)
	if info, err := os.Stat(e.EnvFile); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", e.EnvFile) // a pipe could keep us waiting
	}
	f, err := os.Open(e.EnvFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxEnvFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", e.EnvFile, maxEnvFile)
	}
	vars, err := parseDotenv(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.EnvFile, err)
	}
	return vars, nil
}
