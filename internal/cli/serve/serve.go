// Package serve has the command "troupe serve", which offers agents and the tools of other
// servers as one MCP server.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent"
	"github.com/troupe-dev/troupe/agent/expose"
	"github.com/troupe-dev/troupe/internal/cli/console"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/internal/cli/version"
	"github.com/troupe-dev/troupe/internal/config"
	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpserver"
)

// Command returns the command.
func Command(e *env.Env) *cobra.Command {
	f := serveFlags{Flags: setup.Flags{ServerFlags: setup.ServerFlags{ProtocolFlag: "server-protocol", Service: true}, All: true, NoWait: true}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Be an MCP server: offer agents, or the tools of many servers",
		Long: `Be an MCP server, over stdin and stdout or over HTTP, of the old and the new protocol at once.

With --expose agents (the default) each agent is a tool that runs it, its instructions are a prompt and its runs are
resources: those of the configuration, or else one named "main" of the flags. With --expose tools the tools, resources
and prompts of all MCP servers of the configuration are there, too: a gateway. What servers ask (forms, pages, sampling,
roots) and what needs approval goes to the client whose call it is for; what the client cannot be asked waits in
"troupe inbox", or is declined. Each client has connections of its own to the servers.

Over HTTP the address is /mcp, /sse for clients of 2024-11-05, and /healthz says that all is well; --metrics has /metrics and
/readyz at an address of their own. Without a host the
address is that of this machine only; any other needs a token, which clients send as "Authorization: Bearer". Set it as
$TROUPE_TOKEN or as serve.auth.token of the configuration: what is on the command line others can see. Or name the
authorization server that issues the tokens with --auth-issuer, and the address of this server with --auth-resource,
or both in serve.auth of the configuration. A team that has none uses --auth-embedded: this program is the authorization
server, too, and the users of a file log in at a page of it.

SIGTERM and SIGINT drain: no more calls are taken and those under way have --drain-timeout; a second one leaves at once.`,
		Example: `  troupe serve --stdio
  troupe serve --http :8080 --expose agents,tools
  claude mcp add troupe -- troupe serve --stdio --expose tools --mcp-config servers.json
  troupe serve users add users.txt alice && troupe serve --http :8080 --auth-embedded --auth-users users.txt`,
		Args: env.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			e.LogFrom("warn", cmd) // a server that clients are served without is said
			f.httpGiven = cmd.Flags().Changed("http")
			return serve(cmd.Context(), e, &f)
		},
	}
	f.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.stdio, "stdio", false, "serve the client at stdin and stdout")
	flags.StringVar(&f.http, "http", "", "serve clients over HTTP at this `ADDRESS`; without a host it is that of this machine only; \"\" undoes the configuration's")
	flags.StringVar(&f.console, "console", "", "serve the console at this `ADDRESS` of this machine; stderr has a login link")
	flags.StringVar(&f.metrics, "metrics", "", "answer /metrics, /readyz and /healthz at this `ADDRESS`, never where clients are served; one that others can reach takes a token, $"+metricsToken)
	flags.StringVar(&f.protocol, "protocol", "", "speak `WHICH` revisions to clients: both (default), legacy, modern")
	flags.StringSliceVar(&f.expose, "expose", nil, "offer `WHAT`: agents (default), tools (of all servers), or both")
	flags.StringVar(&f.names, "names", "", "name the servers' tools `HOW`: qualified, as server__tool (default), or plain where only one server has the name")
	flags.StringArrayVar(&f.auth.tokens, "token", nil, "accept only requests with this `TOKEN`, or NAME=TOKEN for several, each a principal of its own (repeat; better: $TROUPE_TOKEN, one on each line)")
	flags.StringVar(&f.auth.issuer, "auth-issuer", "", "accept only requests with a token of this authorization server, the `URL` of the issuer")
	flags.StringVar(&f.auth.resource, "auth-resource", "", "the `URL` of this server's endpoint, which those tokens must be for")
	flags.StringSliceVar(&f.auth.scopes, "auth-scopes", nil, "each request needs these `SCOPES`")
	flags.StringArrayVar(&f.auth.tools, "auth-tool", nil, "a tool, prompt or resource needs more scopes: `PATTERN=SCOPES`, such as files__*=files:write (repeat for more)")
	flags.StringVar(&f.auth.introspect, "auth-introspect", "", "ask the issuer about each token, as this `CLIENT`, whose secret is $"+secretVariable)
	flags.BoolVar(&f.auth.embedded, "auth-embedded", false, "be the authorization server, too: clients register here, and people log in and consent at pages of this server")
	flags.StringVar(&f.auth.users, "auth-users", "", "the users of this `FILE` may log in (see troupe serve users)")
	flags.StringVar(&f.auth.login, "auth-login", "", "people log in at this OpenID provider, the `URL` of its issuer")
	flags.StringVar(&f.auth.client, "auth-client", "", "this server is the `CLIENT` of that provider, whose secret is $"+secretVariable+"; it sends people back to /login/callback")
	flags.BoolVar(&f.auth.retryPublic, "auth-retry-public", false, "a client without a secret, too, gets the same tokens again if it asks with the same refresh token within ten seconds and has not used the new one")
	flags.DurationVar(&f.auth.maxLife, "auth-max-life", 0, "a token is good for this `TIME` since it was issued at most, whatever it says (default 24h)")
	flags.BoolVar(&f.auth.subjects, "auth-client-subjects", false, "accept tokens that name no subject: their client is the subject")
	flags.StringVar(&f.unanswered, "unanswered", "", "`WHERE` questions go that the client cannot be asked: inbox (default), decline")
	flags.StringSliceVar(&f.hosts, "allow-host", nil, "let clients call this server `HOST`, beside localhost (repeat for more)")
	flags.StringSliceVar(&f.origins, "allow-origin", nil, "let web pages of this `ORIGIN` in, such as https://app.example (repeat for more)")
	flags.BoolVar(&f.behindProxy, "behind-proxy", false, "clients come through a proxy on this machine or in a private network, which adds the address of its client to X-Forwarded-For: limits are by that address")
	flags.DurationVar(&f.drain, "drain-timeout", 10*time.Second, "calls under way have this time when the server ends")
	flags.BoolVar(&f.shareLogins, "share-logins", false, "let all clients act with your logins at the servers behind (default: who has a token of --token NAME= or of an issuer has logins of their own, made with troupe mcp login SERVER --for PRINCIPAL)")
	flags.IntVar(&f.clients, "max-clients", 0, "serve so many clients at once (default 1000)")
	flags.DurationVar(&f.listWait, "list-wait", 30*time.Second, "a client's first list waits this `TIME` for servers that are starting")
	flags.DurationVar(&f.idle, "idle-servers", 2*time.Minute, "end the servers of an HTTP session after this `TIME` without a request or stream; the next request starts them again (0: keep them)")
	flags.DurationVar(&f.session, "idle-session", 30*time.Minute, "forget an HTTP session after this `TIME` without a request or stream")
	offered := flags.Lookup("agent")
	offered.Value, offered.Usage = (*nameList)(&f.agents), "offer this `AGENT` of the configuration (repeat for more; default: all)"
	offered.DefValue = ""
	cmd.AddCommand(usersCommand(e))
	return cmd
}

// DryRun reports what the start of "troupe serve --http" would refuse of the configuration and of the variables of the
// environment. E is one for dry runs.
func DryRun(ctx context.Context, e *env.Env) error {
	cmd := Command(e)
	if err := e.FromEnvironment(cmd, nil); err != nil {
		return err
	}
	cmd.SetContext(ctx)
	return cmd.RunE(cmd, nil)
}

func serve(ctx context.Context, e *env.Env, f *serveFlags) (err error) {
	settings, err := e.Section("serve")
	if err != nil {
		return err
	}
	if e.DryRun {
		f.stdio, f.console = false, ""
		if f.http = cmp.Or(f.http, settings.Serve.HTTP, "127.0.0.1:0"); f.http != settings.Serve.HTTP {
			f.httpGiven = true
		}
	}
	if err := f.settle(&settings.Serve, e.NoStore); err != nil {
		return err
	}
	var web *webServer // first: an address that cannot be had is known at once
	if f.http != "" {
		if web, err = listenWeb(e, f, settings); err != nil {
			return err
		}
		defer web.close()
	}
	ops, err := listenOperations(e, f, settings)
	if err != nil {
		return err
	}
	if ops != nil {
		log, err := e.Logger()
		if err != nil {
			return errors.Join(err, ops.listener.Close())
		}
		ops.serve(e, log)
		defer ops.close()
	}
	var at net.Listener
	if f.console != "" {
		if at, err = console.Listen("--console", f.console); err != nil {
			return err
		}
		defer at.Close() // it may be closed already
	}
	f.WithOptions = func(o *agent.Options) {
		o.Host.Lazy = true                         // each client has connections of its own
		o.MaxTenants = 2 * cmp.Or(f.clients, 1000) // those that are ending count, too
		if o.Model == nil {
			o.Sampling = nil // there is nothing to lend
		}
	}
	o, err := setup.Open(ctx, e, &f.Flags)
	if err != nil {
		return err
	}
	defer o.Close(&err)
	front, err := newFront(ctx, e, o, f, web, &settings.Serve)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, front.Close()) }()
	if e.DryRun {
		return nil
	}
	admin := setup.AdminOptions(o, "serve", o.Runtime.Wake, nil, func() any { return map[string]int{"clients": front.Clients()} })
	defer setup.OpenAdmin(e, o, admin)()
	if at != nil {
		pages, err := console.Serve(e, at, o.Store, o.Log, &admin)
		if err != nil {
			return err
		}
		defer pages.Close()
		pages.Announce(e)
	}
	if ops != nil {
		if err := ops.started(o, front, func() bool { return ctx.Err() != nil }); err != nil {
			return err
		}
	}
	if web != nil {
		return serveWeb(ctx, e, f, web, front, o.Log)
	}
	return servePipe(ctx, f, front)
}

// newFront makes what is served. Web is nil on a pipe.
func newFront(ctx context.Context, e *env.Env, o *setup.Opened, f *serveFlags, web *webServer, c *config.Serve) (*expose.Front, error) {
	opts := &expose.Options{
		Info: mcp.Implementation{Name: "troupe", Title: "Troupe", Version: version.Current().Version}, Logger: o.Log,
		Gateway: slices.Contains(f.expose, "tools"), Servers: c.Servers, Names: expose.NameMode(f.names),
		Unanswered: expose.Fallback(f.unanswered), MaxClients: f.clients,
		IdleServers: cmp.Or(f.idle, -1), ListWait: f.listWait,
		Server: mcpserver.Options{
			Versions: versionsOf(f.protocol), Logger: o.Log,
			HTTP: mcpserver.HTTPOptions{AllowedHosts: f.hosts, AllowedOrigins: f.origins, SessionTTL: f.session},
		},
	}
	if f.Only != nil {
		opts.Servers = f.Only
	}
	for _, name := range opts.Servers {
		if names := setup.NamesOf(o.Servers); opts.Gateway && !slices.Contains(names, name) {
			return nil, env.Usagef("%w", o.Settings.Fault("serve.servers", setup.NoServer(name, o.Servers)))
		}
	}
	if web != nil {
		var err error
		if web.embedded, err = f.auth.embed(ctx, e, o, web); err != nil {
			return nil, err
		}
		if web.metadata, err = f.auth.apply(&opts.Server.HTTP, o.Log, web.embedded); err != nil {
			return nil, err
		}
	}
	if shared := f.shareLogins || c.ShareLogins != nil && *c.ShareLogins; !shared {
		opts.Authorizer = (&logins{env: e, o: o}).of
	}
	if o.Telling != nil {
		opts.Server.Middleware = append(opts.Server.Middleware, o.Telling.Middleware)
	}
	if slices.Contains(f.expose, "agents") {
		agents, err := offered(o, f.agents)
		if err != nil {
			return nil, err
		}
		opts.Agents = agents
	}
	front, err := expose.New(o.Runtime, opts)
	if err != nil {
		return nil, env.Usagef("%w", err)
	}
	return front, nil
}

// offered are the agents of these names; without names those of the configuration, or
// else the main one.
func offered(o *setup.Opened, names []string) ([]*agent.Agent, error) {
	if names == nil {
		names = slices.Sorted(maps.Keys(o.Agents))
		if o.Main != nil && len(names) > 1 {
			names = slices.DeleteFunc(names, func(name string) bool { return name == o.Main.Name() && name == config.MainAgent })
		}
	}
	var agents []*agent.Agent
	for _, name := range names {
		a := o.Agents[name]
		if a == nil {
			known := slices.Sorted(maps.Keys(o.Agents))
			return nil, env.Usagef("there is no agent %q; there are %s%s", name, strings.Join(known, ", "), env.DidYouMean(name, known))
		}
		agents = append(agents, a)
	}
	return agents, nil
}

// versionsOf are the revisions of --protocol.
func versionsOf(protocol string) []mcp.Version {
	if protocol == "both" {
		return nil
	}
	era := mcp.EraLegacy
	if protocol == "modern" {
		era = mcp.EraModern
	}
	return slices.DeleteFunc(mcp.Versions(), func(v mcp.Version) bool { return v.Era() != era })
}

// servePipe serves the client that has started the program.
func servePipe(ctx context.Context, f *serveFlags, front *expose.Front) error {
	over := make(chan error, 1)
	go func() { over <- front.ServeStdio(context.WithoutCancel(ctx)) }() // ends with the client, or the front
	select {
	case err := <-over:
		if err != nil {
			return fmt.Errorf("serving stdin and stdout: %w", err)
		}
		return nil
	case <-ctx.Done():
		err := drain(f.drain, front)
		<-over // it ends with the front; why is known
		return err
	}
}
