package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/internal/shellwords"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
)

// Hints is what the server says of its own tool.
func Hints(t *mcp.Tool) string {
	switch {
	case t.Annotations.ReadOnly():
		return "reads"
	case t.Annotations.Destructive():
		return "may destroy"
	}
	return "writes"
}

// Reach is all that is started, contacted or sent, in one line, as it is shown for consent. What stands in the user's
// own file is hidden where it may be secret.
func Reach(s *mcpclient.Server) string { return strings.Join(reachOf(s), "; ") }

// ReachLines is [Reach] in a line for each part, safe to print.
func ReachLines(s *mcpclient.Server) string {
	lines := reachOf(s)
	for i := range lines {
		lines[i] = env.Plain(lines[i])
	}
	return strings.Join(lines, "\n  ")
}

// reachOf hides nothing of a file that may be in a repository.
func reachOf(s *mcpclient.Server) []string { return s.Reach(s.File == "" || Own(s)) }

// ServerFlags choose the MCP servers of a command.
type ServerFlags struct {
	Commands []string // --mcp
	Files    []string // --mcp-config
	Only     []string // --server
	trust    []string // --trust
	protocol string

	typedIn  string          // the folder of Commands that the command line has; empty is the working folder
	recalled recalledServers // what a run was started with

	ProtocolFlag string // the name of its flag; empty is protocol
	KeepDisabled bool   // for commands that only list
	Service      bool   // the command serves others: see service.go
	configNamed  bool   // the command line of a service names the configuration that its files are of
}

func (f *ServerFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.Commands, "mcp", nil, "use this MCP server: `[NAME=]COMMAND` with its arguments, no shell, or [NAME=]URL (repeat for more)")
	flags.StringArrayVar(&f.Files, "mcp-config", nil, "use the servers of this `FILE` in the format of .mcp.json (repeat for more)")
	flags.StringSliceVar(&f.Only, "server", nil, "use only the server `NAME` of the files")
	flags.StringSliceVar(&f.trust, "trust", nil, "believe what the server `NAME` says of its own tools, such as that one only reads")
	flags.StringVar(&f.protocol, cmp.Or(f.ProtocolFlag, "protocol"), "", "speak this `REVISION` of MCP: auto (default), legacy, modern, or a date")
}

// named reports whether the command line itself names the file, which is consent
// to start its servers.
func (f *ServerFlags) named() bool { return f.configNamed || len(f.Files) > 0 && !f.recalled.files }

// errNotNamed refuses a server of the project's file that was not approved.
var errNotNamed = errors.New("it was not approved, and the command line does not name its file")

// consent is the [agent.Options].Consent of the flags.
func (f *ServerFlags) consent(_ context.Context, s mcpclient.Server) error {
	switch {
	case f.named(), Own(&s), f.recalled.files && f.recalled.knows(&s):
		return nil
	case f.recalled.files:
		return errOtherNow
	}
	return errNotNamed
}

// ServersOf collects what the flags, or the project's file, say.
func ServersOf(e *env.Env, f *ServerFlags) ([]mcpclient.Server, error) {
	var all []mcpclient.Server
	for i, line := range f.Commands {
		s, err := ServerOf(line)
		if err != nil {
			return nil, err
		}
		if s.Command != "" && i >= f.recalled.commands {
			s.Dir = f.typedIn
		}
		all = append(all, s)
	}
	settings, err := e.Config()
	if err != nil {
		return nil, err
	}
	files, found := f.Files, false
	if len(files) == 0 && len(f.Commands) == 0 {
		if files, err = defaultFiles(e); err != nil {
			return nil, err
		}
		if f.Service { // other commands may do this several times at once
			f.configNamed = e.ConfigPath != "" && settings.MCP.Files != nil
		}
		found = true
	}
	if f.Service {
		for _, file := range slices.Concat(settings.Config.Files, files) {
			if err := onlyOurs(file); err != nil {
				return nil, err
			}
		}
	}
	for _, file := range files {
		more, err := mcpclient.LoadConfig(file)
		if found && settings.MCP.Files != nil {
			err = settings.Fault("mcp.files", err)
		}
		if err != nil {
			return nil, env.Usagef("%w", err)
		}
		for _, s := range more {
			if found && slices.ContainsFunc(all, func(a mcpclient.Server) bool { return a.Name == s.Name }) {
				continue // the project's takes the place of the user's
			}
			all = append(all, s)
		}
	}
	return f.choose(all, &settings.MCP)
}

// WarnOf says what of the definitions is ignored: the log, where a host says it too, is
// quiet unless asked for.
func WarnOf(e *env.Env, servers []mcpclient.Server) {
	for i := range servers {
		for _, w := range servers[i].Warnings {
			e.Note("warning: %s", env.Plain(w))
		}
	}
}

// choose applies the flags that are about single servers, and the settings for what neither
// a flag nor the server's definition says.
func (f *ServerFlags) choose(all []mcpclient.Server, settings *config.MCP) ([]mcpclient.Server, error) {
	connect, err := millisecondsOf("MCP_TIMEOUT")
	if err != nil {
		return nil, err
	}
	call, err := millisecondsOf("MCP_TOOL_TIMEOUT")
	if err != nil {
		return nil, err
	}
	var kept []mcpclient.Server
	for _, s := range all {
		s.ConnectTimeout, s.CallTimeout = cmp.Or(s.ConnectTimeout, connect), cmp.Or(s.CallTimeout, call)
		if slices.ContainsFunc(kept, func(k mcpclient.Server) bool { return k.Name == s.Name }) {
			return nil, env.Usagef("two servers are called %q: name one of them with --mcp NAME=COMMAND", s.Name)
		}
		if (s.Disabled && !f.KeepDisabled) || (len(f.Only) > 0 && s.File != "" && !slices.Contains(f.Only, s.Name)) {
			continue
		}
		s.Trusted = s.Trusted || slices.Contains(f.trust, s.Name) && (!f.recalled.trust || f.recalled.knows(&s))
		s.Protocol = cmp.Or(f.protocol, s.Protocol, settings.Protocol)
		s.Instances = cmp.Or(s.Instances, settings.Instances)
		s.HeldInstances = cmp.Or(s.HeldInstances, settings.HeldInstances)
		kept = append(kept, s)
	}
	for _, names := range [][]string{f.Only, f.trust} {
		for _, name := range names {
			if f.recalled.trust && slices.Contains(f.trust, name) {
				continue // the run goes on without it where it can
			}
			if !slices.ContainsFunc(all, func(s mcpclient.Server) bool { return s.Name == name }) {
				return nil, NoServer(name, all)
			}
		}
	}
	return kept, nil
}

// millisecondsOf reads a limit that users of other hosts set for all servers; what a
// server's definition says comes first. It is zero where the variable is not set.
func millisecondsOf(variable string) (time.Duration, error) {
	text := os.Getenv(variable)
	if text == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(text, 10, 32)
	if err != nil || ms <= 0 {
		return 0, env.Usagef("%s=%q: want milliseconds, such as 5000", variable, text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// NoServer is the usage error for a name that no server has.
func NoServer(name string, all []mcpclient.Server) error {
	if len(all) == 0 {
		return env.Usagef("there is no server %q; none is configured: name a file with --mcp-config, or write a %s", name, ProjectFile)
	}
	if meant := env.DidYouMean(name, NamesOf(all)); meant != "" {
		return env.Usagef("there is no server %q%s", name, meant)
	}
	return env.Usagef("there is no server %q; there are %s", name, strings.Join(NamesOf(all), ", "))
}

func NamesOf(servers []mcpclient.Server) []string {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.Name
	}
	return names
}

var NamePrefix = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)=(.*)$`)

// ServerOf reads the value of one --mcp.
func ServerOf(line string) (mcpclient.Server, error) {
	name := ""
	if m := NamePrefix.FindStringSubmatch(line); m != nil {
		name, line = m[1], m[2]
	}
	parts, err := shellwords.Split(line)
	if err != nil {
		return mcpclient.Server{}, env.Usagef("--mcp %q: %w", line, err)
	}
	var s mcpclient.Server
	if IsURL(parts[0]) {
		if len(parts) > 1 {
			return s, env.Usagef("--mcp %q: a URL takes no arguments; headers need a file, see troupe mcp add --help", line)
		}
		s = mcpclient.Server{Name: HostName(parts[0]), URL: parts[0]}
	} else {
		s = mcpclient.Command(parts[0], parts[1:]...)
	}
	if name != "" {
		s.Name = name
	}
	return s, nil
}

// IsURL tells the address of a server from a command.
func IsURL(word string) bool {
	for _, scheme := range []string{"http://", "https://", "unix://"} {
		if strings.HasPrefix(word, scheme) {
			return true
		}
	}
	return false
}

// HostName guesses a short name from a server's address.
func HostName(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "server"
	}
	name := u.Hostname()
	if net.ParseIP(name) != nil {
		return "server"
	}
	labels := strings.Split(name, ".")
	for len(labels) > 1 && (labels[0] == "www" || labels[0] == "mcp" || labels[0] == "api") {
		labels = labels[1:]
	}
	return labels[0]
}

// errConnecting is said of a server that has neither failed nor answered.
var errConnecting = errors.New("it is still connecting")

// startingText says which servers are still waited for.
func startingText(all []mcpclient.ServerStatus) string {
	var names []string
	used := 0
	for _, s := range all {
		if s.Disabled {
			continue
		}
		if used++; s.Info == nil && s.Err == nil && s.ListErr == nil {
			names = append(names, env.Plain(s.Name))
		}
	}
	if len(names) == 0 {
		return "listing the tools of the servers"
	}
	return fmt.Sprintf("starting servers, %d of %d are ready; waiting for %s", used-len(names), used, strings.Join(names, ", "))
}

// loginText says which login a server lacks.
func loginText(l *mcpclient.Login) string {
	ask, err := l.Ask()
	if err != nil {
		return env.Plain(err.Error())
	}
	return "a person has to log in first: " + env.Plain(ask.Login.Command)
}

// greetServers waits until every server is ready or has failed, and says so. A
// server of the command line that failed ends the program; one of a file costs
// its tools only.
func greetServers(ctx context.Context, e *env.Env, f *ServerFlags, rt *agent.Runtime, servers []mcpclient.Server) error {
	starting := e.NewStatus()
	if len(servers) > 0 {
		starting.Follow(func() string { return startingText(rt.Host().Servers()) })
	}
	statuses, err := rt.Servers(ctx)
	starting.Close()
	if err != nil {
		return err
	}
	working, refused := 0, 0
	for _, s := range statuses {
		err := cmp.Or(s.ListErr, s.Err)
		if err == nil && s.Info != nil {
			working++
			e.Note("%s: %d tools, MCP %s", env.Plain(s.Name), s.Tools, s.Info.Version)
			continue
		}
		if s.Login != nil { // runs wait for it
			working++
			e.Note("%s: %s", env.Plain(s.Name), loginText(s.Login))
			continue
		}
		err = cmp.Or(err, errConnecting)
		if se, ok := errors.AsType[*mcpclient.ServerError](err); ok {
			err = se.Err // it is named anyway
		}
		at := slices.IndexFunc(servers, func(d mcpclient.Server) bool { return d.Name == s.Name })
		if at >= 0 && servers[at].File == "" {
			return env.ExitWith(env.ExitUnreachable, fmt.Errorf("the server %s: %w", s.Name, err))
		}
		if errors.Is(err, mcpclient.ErrNotApproved) {
			refused++
			if f.Service { // announce has said it, without secrets
				continue
			}
		}
		e.Note("%s: %s", env.Plain(s.Name), env.PlainLines(err.Error()))
	}
	switch {
	case len(statuses) == 0 || working > 0:
	case refused == len(statuses):
		return env.ExitWith(env.ExitDenied, errors.New("none of the MCP servers is approved"))
	default:
		return env.ExitWith(env.ExitUnreachable, errors.New("none of the MCP servers could be started"))
	}
	return nil
}
