package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/actors/call"
	"github.com/troupe-dev/troupe/actors/conn"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/hostconfig"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// testStep is one thing that "mcp test" tries.
type testStep struct {
	Name   string  `json:"step"`
	Millis float64 `json:"ms"`
	Said   string  `json:"result,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// TestReport is what "mcp test" finds out about a server.
type TestReport struct {
	Server       string     `json:"server"`
	OK           bool       `json:"ok"`
	Era          string     `json:"era,omitempty"`
	Revision     string     `json:"revision,omitempty"`
	CallsItself  string     `json:"callsItself,omitempty"`
	Capabilities []string   `json:"capabilities,omitempty"`
	Steps        []testStep `json:"steps"`
	Fix          string     `json:"fix,omitempty"`
	Stderr       string     `json:"stderr,omitempty"`
	Err          error      `json:"-"`
}

func testCommand(e *env.Env) *cobra.Command {
	var (
		f       setup.ServerFlags
		asJSON  bool
		timeout time.Duration
	)
	cmd := &cobra.Command{
		Use:   "test [SERVER...]",
		Short: "Connect to servers, say what they speak and how fast, and what to mend",
		Long: `Connect to servers and try what every host needs: the handshake, a sign of life, the lists of what they offer. It prints
the era and revision of the protocol, the capabilities and how long each step took; where one fails, how to mend it.`,
		Example: "  troupe mcp test\n  troupe mcp test filesystem --json\n  troupe mcp test --mcp https://docs.example/mcp",
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			servers, err := setup.Pick(e, &f, args)
			if err != nil {
				return err
			}
			reports := make([]*TestReport, 0, len(servers))
			var failed error
			for i := range servers {
				ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, env.ErrTimeout)
				r := &TestReport{Server: servers[i].Name}
				if r.Err = f.MayStart(ctx, s, &servers[i]); r.Err == nil {
					TryServer(ctx, e, s, r, servers[i])
				}
				cancel()
				if r.OK = r.Err == nil; !r.OK {
					r.Fix = FixOf(r.Err, &servers[i])
					failed = r.Err
				}
				reports = append(reports, r)
				if !asJSON {
					printReport(e, r)
				}
			}
			if asJSON {
				if err := e.PrintJSON(reports); err != nil {
					return err
				}
			}
			return env.ExitWith(testExit(failed), failed)
		}),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "give each server this `TIME`")
	return cmd
}

func testExit(err error) int {
	if e, ok := errors.AsType[*env.ExitError](err); ok {
		return e.Code
	}
	return setup.CallExit(err)
}

// TryServer goes through the steps until one fails, with the login at the server that s has.
func TryServer(ctx context.Context, e *env.Env, s store.Store, r *TestReport, def mcpclient.Server) {
	log, err := e.Logger()
	if err != nil {
		r.Err = err
		return
	}
	opts := &mcpclient.Options{
		Logger:  log,
		Consent: func(context.Context, mcpclient.Server) error { return nil }, // given before
	}
	authorizer, err := setup.OpenAuthorizer(e, s, []mcpclient.Server{def}, setup.AuthorizerOptions{Patience: time.Millisecond})
	if err != nil {
		r.Err = err
		return
	}
	if authorizer != nil {
		opts.Authorizer = authorizer
		defer func() { _ = authorizer.Close() }()
	}
	var client *mcpclient.Client
	r.step("connect", func() (string, error) {
		client, err = mcpclient.Dial(ctx, def, opts)
		switch {
		case errors.Is(err, auth.ErrLogin):
			return "", env.ExitWith(env.ExitLogin, err)
		case err != nil:
			return "", env.ExitWith(env.ExitUnreachable, err)
		}
		info, err := client.Info(ctx)
		if err != nil {
			return "", env.ExitWith(env.ExitUnreachable, err)
		}
		r.Era, r.Revision, r.Capabilities = info.Era.String(), string(info.Version), capabilitiesOf(info)
		if info.Server != nil {
			r.CallsItself = strings.TrimSpace(info.Server.Name + " " + info.Server.Version)
		}
		return fmt.Sprintf("MCP %s (%s era)", info.Version, info.Era), nil
	})
	if client == nil {
		return
	}
	defer func() {
		if r.Err != nil {
			r.Stderr = client.Status().Stderr
		}
		r.step("close", func() (string, error) { return "", client.Close() })
	}()
	r.step("sign of life", func() (string, error) {
		err := client.Ping(ctx)
		if errors.Is(err, mcp.ErrMethodNotFound) { // it lives, and breaks the protocol
			return "the server does not know ping, as every server must", nil
		}
		return "", err
	})
	if r.Err != nil {
		return
	}
	caps := &client.Status().Info.Capabilities
	r.list("tools", caps.Tools != nil, func() (int, error) { l, err := client.ListTools(ctx); return len(l), err })
	r.list("resources", caps.Resources != nil, func() (int, error) { l, err := client.ListResources(ctx); return len(l), err })
	r.list("resource templates", caps.Resources != nil, func() (int, error) { l, err := client.ListResourceTemplates(ctx); return len(l), err })
	r.list("prompts", caps.Prompts != nil, func() (int, error) { l, err := client.ListPrompts(ctx); return len(l), err })
	_, skills := caps.Extension(mcp.ExtensionSkills)
	r.list("skills", skills, func() (int, error) { l, err := client.ListSkills(ctx); return len(l), err })
}

// step tries one thing, unless another has failed.
func (r *TestReport) step(name string, f func() (string, error)) {
	if r.Err != nil && name != "close" {
		return
	}
	begun := time.Now()
	said, err := f()
	s := testStep{Name: name, Millis: float64(time.Since(begun).Microseconds()) / 1000, Said: said}
	if err != nil {
		s.Error = err.Error()
		r.Err = errors.Join(r.Err, err)
	}
	r.Steps = append(r.Steps, s)
}

// list tries a list, if the server says that it has one.
func (r *TestReport) list(what string, offered bool, f func() (int, error)) {
	if !offered {
		return
	}
	r.step(what, func() (string, error) {
		n, err := f()
		if errors.Is(err, mcp.ErrMethodNotFound) { // the rest of it may work
			return "declared, and the server does not know the request: it has none", nil
		}
		return fmt.Sprint(n), err
	})
}

// capabilitiesOf names what a server declares, in a fixed order.
func capabilitiesOf(info *mcpclient.Info) []string {
	c := &info.Capabilities
	var names []string
	add := func(there bool, name string, flags ...string) {
		if !there {
			return
		}
		if flags = slices.DeleteFunc(flags, func(s string) bool { return s == "" }); len(flags) > 0 {
			name += " (" + strings.Join(flags, ", ") + ")"
		}
		names = append(names, name)
	}
	flag := func(set bool, name string) string {
		if set {
			return name
		}
		return ""
	}
	if t := c.Tools; t != nil {
		add(true, "tools", flag(t.ListChanged, "listChanged"))
	}
	if t := c.Resources; t != nil {
		add(true, "resources", flag(t.Subscribe, "subscribe"), flag(t.ListChanged, "listChanged"))
	}
	if t := c.Prompts; t != nil {
		add(true, "prompts", flag(t.ListChanged, "listChanged"))
	}
	add(c.Completions != nil, "completions")
	add(c.Logging != nil, "logging")
	add(c.Tasks != nil, "tasks")
	for _, id := range slices.Sorted(maps.Keys(c.Extensions)) {
		add(true, id)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Experimental)) {
		add(true, "experimental "+id)
	}
	return names
}

func printReport(e *env.Env, r *TestReport) {
	verdict := "works"
	if !r.OK {
		verdict = "does not work"
	}
	fmt.Fprintf(e.Stdout, "%s %s\n", env.Plain(r.Server), verdict)
	rows := [][]string{}
	if r.Revision != "" {
		rows = append(rows, []string{"  revision", r.Revision + ", " + r.Era + " era"},
			[]string{"  calls itself", r.CallsItself}, []string{"  capabilities", strings.Join(r.Capabilities, ", ")})
	}
	for _, s := range r.Steps {
		said := s.Said
		if s.Error != "" {
			said = "failed: " + s.Error
		}
		rows = append(rows, []string{"  " + s.Name, fmt.Sprintf("%.1f ms", s.Millis), said})
	}
	if err := e.Table(rows); err != nil {
		e.Note("%v", err)
	}
	if r.Stderr != "" {
		fmt.Fprintf(e.Stdout, "  its last words: %s\n", env.PlainLines(r.Stderr))
	}
	if r.Fix != "" {
		fmt.Fprintf(e.Stdout, "  to mend it: %s\n", env.PlainLines(r.Fix))
	}
}

// FixOf says how to mend what has failed, as exactly as it is known.
func FixOf(err error, def *mcpclient.Server) string {
	var exit *mcpclient.ExitError
	var version *mcpclient.VersionError
	var config *hostconfig.ConfigError
	timeout := errors.Is(err, conn.ErrConnectTimeout)
	var peer *mcp.Error
	var status *call.TransportError
	switch {
	case errors.As(err, &config):
		return fmt.Sprintf("edit %s, line %d", config.File, config.Line)
	case env.ExitCode(err) == env.ExitDenied:
		return "troupe mcp approve " + def.Name
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("install %s, or give its whole path: it is not in PATH", def.Command)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("make %s executable: chmod +x %[1]s", def.Command)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("check that the command %s and the folder %s exist", def.Command, def.Dir)
	case errors.As(err, &version):
		return fmt.Sprintf("take --protocol off, or update the server: it speaks %v", version.Theirs)
	case errors.As(err, &exit):
		return fmt.Sprintf("run it by hand and read what it prints: %s", def.CommandLine())
	case timeout && def.URL == "":
		return fmt.Sprintf("it was started and did not answer; run it by hand and check that it speaks MCP on stdout: %s", def.CommandLine())
	case timeout, errors.Is(err, context.DeadlineExceeded):
		return "check that the address is right and the server runs; a slow one may need --timeout, or MCP_TIMEOUT in milliseconds"
	case errors.Is(err, env.ErrTimeout):
		return "it needs longer: --timeout 5m"
	case errors.Is(err, auth.ErrLogin):
		return "log in: troupe mcp login " + def.Name
	case errors.Is(err, mcpclient.ErrAuthRequired):
		return fmt.Sprintf("give it a token: TOKEN=… troupe mcp add --force --header 'Authorization: Bearer ${TOKEN}' %s %s", def.Name, def.Address())
	case errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusMethodNotAllowed):
		return fmt.Sprintf("check the path: there is a web server, and no MCP endpoint at %s (many have it at /mcp or /sse)", def.Address())
	case errors.As(err, &status) && status.Status >= 500:
		return fmt.Sprintf("the server is there and fails (HTTP status %d): its log says more; try again later", status.Status)
	case errors.As(err, &peer) && def.Protocol != "" && def.Protocol != mcpclient.ProtocolAuto:
		return "take --protocol " + def.Protocol + " off: the server does not speak that"
	case errors.As(err, &peer):
		return "the server answers with an error of its own; its log, or --log-level debug, says more"
	case errors.Is(err, call.ErrInvalidResponse):
		return "the server breaks the protocol; update it, or report it to its makers"
	case def.URL != "":
		return fmt.Sprintf("check that %s can be reached from here (proxy, VPN, certificate), and that its path is the MCP endpoint", def.Address())
	}
	return "see --log-level debug"
}
