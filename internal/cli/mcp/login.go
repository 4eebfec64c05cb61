package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/internal/browser"
	"github.com/troupe-dev/troupe/internal/cli/env"
	"github.com/troupe-dev/troupe/internal/cli/setup"
	"github.com/troupe-dev/troupe/mcpclient"
	"github.com/troupe-dev/troupe/mcpclient/auth"
	"github.com/troupe-dev/troupe/store"
)

// loginTime bounds a login.
const loginTime = 10 * time.Minute

func loginCommand(e *env.Env) *cobra.Command {
	var (
		f      setup.ServerFlags
		scopes []string
		paste  bool
		device bool
		again  bool

		principal string
	)
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Log in at a server over HTTP, in your browser",
		Long: `Log in at a server over HTTP. The address of the server's authorization server is shown and opened in your browser; when you have
agreed there, the tokens are kept, sealed, in the store. Runs, jobs and other commands that wait for the login go on by themselves.
Where no browser opens on this machine, or with --device, a code is shown to be typed in on another one, if the authorization server
has such codes. With --paste open the address on another machine: at the end the browser is sent to an address that it cannot reach;
copy that address from its address bar and paste it.`,
		Example: "  troupe mcp login notion\n  troupe mcp login notion --device\n  troupe mcp login notion --paste\n  troupe mcp login notion --scopes files:read,files:write",
		Args:    env.OneArg("a server"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) error {
			if paste && device {
				return env.Usagef("--paste and --device exclude each other")
			}
			picked, err := setup.Pick(e, &f, args)
			if err != nil {
				return err
			}
			def := picked[0]
			if !setup.MayLogIn(&def) {
				return env.Usagef("there is no login at the server %s: it is not at a URL, its oauth is false, or it has a header Authorization or a headersHelper", def.Name)
			}
			if scopes != nil {
				def.OAuth.Scopes = scopes
			}
			l := login{env: e, flags: &f, store: s, principal: principal, paste: paste, device: device}
			return l.run(cmd.Context(), def, again)
		}),
	}
	f.Add(cmd)
	cmd.Flags().StringSliceVar(&scopes, "scopes", nil, "ask for these `SCOPES`, in place of those that the server wants")
	cmd.Flags().BoolVar(&paste, "paste", false, "open no browser; read the address that it is sent to at the end from stdin")
	cmd.Flags().BoolVar(&device, "device", false, "open no browser; show a code to be typed in on another machine")
	addPrincipal(cmd, &principal)
	cmd.Flags().BoolVar(&again, "again", false, "log in anew, with another account for example")
	return cmd
}

// login is one login from the command line.
type login struct {
	env    *env.Env
	flags  *setup.ServerFlags
	store  store.Store
	paste  bool
	device bool
	asked  bool

	principal string // of the gateway; empty is the user of this machine
}

// addPrincipal adds the flag that says whose logins a command is about.
func addPrincipal(cmd *cobra.Command, principal *string) {
	cmd.Flags().StringVar(principal, "for", "", "the login of this `PRINCIPAL` of \"troupe serve\", as its log names it (default: yours)")
}

func (l *login) run(ctx context.Context, def mcpclient.Server, again bool) (err error) {
	if err := l.flags.MayStart(ctx, l.store, &def); err != nil {
		return err
	}
	log, err := l.env.Logger()
	if err != nil {
		return err
	}
	a, err := setup.OpenAuthorizer(l.env, l.store, []mcpclient.Server{def}, setup.AuthorizerOptions{Principal: l.principal, Patience: loginTime, Ask: l.ask})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	if again {
		if _, err := a.Logout(ctx, &def); err != nil {
			l.env.Note("the account that was used before could not be logged out at its server: %v", err)
		}
	}
	client, err := mcpclient.Dial(ctx, def, &mcpclient.Options{
		Logger: log, Authorizer: a, Consent: func(context.Context, mcpclient.Server) error { return nil }, // given above
	})
	if err != nil {
		return env.ExitWith(env.ExitLogin, err)
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if _, err := client.ListTools(ctx); err != nil && !errors.Is(err, mcpclient.ErrUnsupported) { // some servers refuse only here
		return env.ExitWith(env.ExitLogin, err)
	}
	if !l.asked { // some servers refuse only calls, or have given less
		if err := a.Login(ctx, &def); err != nil && !errors.Is(err, auth.ErrNotWanted) {
			return env.ExitWith(env.ExitLogin, err)
		}
	}
	l.env.WakeAll(ctx)
	return l.report(ctx, a, &def)
}

// report says what the login has brought.
func (l *login) report(ctx context.Context, a *auth.Authorizer, def *mcpclient.Server) error {
	accounts, err := a.Accounts(ctx)
	for _, account := range accounts {
		if !account.At(def.URL) {
			continue
		}
		word := "logged in"
		if !l.asked {
			word = "logged in already"
		}
		fmt.Fprintf(l.env.Stdout, "%s: %s, by %s%s\n", def.Name, word, env.Plain(account.Issuer), scopeText(account.Scopes))
		return err
	}
	fmt.Fprintf(l.env.Stdout, "%s: the server wants no login\n", def.Name)
	return err
}

func scopeText(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return ", for " + env.Plain(strings.Join(scopes, " "))
}

// ask is an [auth.AuthorizeFunc].
func (l *login) ask(ctx context.Context, r *auth.Request) error {
	l.asked = true
	out := l.env.Stderr
	fmt.Fprintf(out, "The server %s wants a login: %s.\n", env.Plain(r.Server), env.Plain(r.Why))
	fmt.Fprintf(out, "  log in at    %s\n  as client    %s\n  for          %s\n", env.Plain(r.Issuer), env.Plain(r.ClientID), env.Plain(r.Resource))
	if len(r.Scopes) > 0 {
		fmt.Fprintf(out, "  scopes       %s\n", env.Plain(strings.Join(r.Scopes, " ")))
	}
	if len(r.New) > 0 && len(r.New) < len(r.Scopes) {
		fmt.Fprintf(out, "  new of them  %s\n", env.Plain(strings.Join(r.New, " ")))
	}
	if l.device {
		return l.byCode(ctx, r)
	}
	fmt.Fprintf(out, "Open this address:\n\n  %s\n\n", r.URL)
	if l.paste {
		return l.pasted(ctx, r)
	}
	err := browser.Open(ctx, r.URL)
	if err == nil {
		return nil
	}
	fmt.Fprintf(out, "No browser was opened: %v.\n", err)
	if bad := l.byCode(ctx, r); bad == nil || ctx.Err() != nil {
		return bad
	}
	fmt.Fprintln(out, "Open the address yourself on this machine, or begin anew with --paste on another.")
	return nil
}

// byCode shows a code to be typed in on another machine.
func (l *login) byCode(ctx context.Context, r *auth.Request) error {
	code, err := r.Device(ctx)
	switch {
	case errors.Is(err, auth.ErrNoDevice):
		return fmt.Errorf("%w; use --paste", err)
	case err != nil:
		return err
	}
	out := l.env.Stderr
	fmt.Fprintf(out, "On any machine open this address, and type in the code:\n\n  %s\n  %s\n\n", code.URL, env.Plain(code.Code))
	if code.FullURL != "" {
		fmt.Fprintf(out, "This address has the code in it: check that the page shows the same one.\n\n  %s\n\n", code.FullURL)
	}
	fmt.Fprintf(out, "The code is good until %s.\n", code.Expires.Local().Format(time.TimeOnly))
	return nil
}

// maxPaste bounds a pasted address, in bytes.
const maxPaste = 16 << 10

// pasted reads the address that the browser was sent to, until it is the right one.
func (l *login) pasted(ctx context.Context, r *auth.Request) error {
	fmt.Fprintln(l.env.Stderr, "When you have agreed, copy the address that the browser was sent to, and paste it here:")
	lines := make(chan string)
	go func() { // a read of stdin cannot be given up: it ends with the program
		defer close(lines)
		in := bufio.NewScanner(l.env.Stdin)
		in.Buffer(nil, maxPaste)
		for in.Scan() {
			select {
			case lines <- strings.TrimSpace(in.Text()):
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-lines:
			switch {
			case !ok:
				return errors.New("no address was pasted")
			case line == "":
				continue
			}
			if err := r.Redirected(ctx, line); !errors.Is(err, auth.ErrForeign) {
				return err
			}
			fmt.Fprintln(l.env.Stderr, "That is not the address; it begins with http://127.0.0.1 and has a code in it. Paste it here:")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func logoutCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var principal string
	cmd := &cobra.Command{
		Use:     "logout SERVER",
		Short:   "Forget the login at a server, and revoke its tokens",
		Long:    "Forget the tokens for a server, and have its authorization server revoke them where it can.",
		Example: "  troupe mcp logout notion",
		Args:    env.OneArg("a server"),
		RunE: e.Stored(func(cmd *cobra.Command, args []string, s store.Store) (err error) {
			picked, err := setup.Pick(e, &f, args)
			if err != nil {
				return err
			}
			a, err := setup.OpenAuthorizer(e, s, picked, setup.AuthorizerOptions{Principal: principal})
			if err != nil || a == nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			had, err := a.Logout(cmd.Context(), &picked[0])
			switch {
			case !had && err == nil:
				fmt.Fprintf(e.Stdout, "%s: not logged in\n", picked[0].Name)
			case err != nil && had:
				fmt.Fprintf(e.Stdout, "%s: logged out\n", picked[0].Name)
				e.Note("the authorization server was not told: %v", err)
				return nil
			case err == nil:
				fmt.Fprintf(e.Stdout, "%s: logged out\n", picked[0].Name)
			}
			return err
		}),
	}
	f.Add(cmd)
	addPrincipal(cmd, &principal)
	return cmd
}

func authCommand(e *env.Env) *cobra.Command {
	return env.Group(&cobra.Command{
		Use:   "auth",
		Short: "The logins at servers that are kept",
		Long:  `The logins at servers over HTTP that are kept. "troupe mcp login" makes one, "troupe mcp logout" ends it.`,
	}, authLsCommand(e))
}

func authLsCommand(e *env.Env) *cobra.Command {
	var f setup.ServerFlags
	var asJSON bool
	var principal string
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the logins at servers",
		Long:    "List the logins that are kept: at which server, by which authorization server, and what for.",
		Example: "  troupe mcp auth ls\n  troupe mcp auth ls --json",
		Args:    env.NoArgs,
		RunE: e.Stored(func(cmd *cobra.Command, _ []string, s store.Store) (err error) {
			servers, err := setup.AllServers(e, &f)
			if err != nil {
				return err
			}
			all := []loginView{}
			a, err := setup.OpenAuthorizer(e, s, servers, setup.AuthorizerOptions{Principal: principal})
			if err != nil {
				return err
			}
			if a != nil {
				defer func() { err = errors.Join(err, a.Close()) }()
				accounts, bad := a.Accounts(cmd.Context())
				if bad != nil {
					e.Note("%v", bad)
				}
				for _, account := range accounts {
					all = append(all, loginViewOf(&account, servers))
				}
			}
			return env.PrintList(e, asJSON, all, "SERVER|URL|ISSUER|SCOPES|RENEWED|SINCE", func(v loginView) []string {
				renewed := "by itself"
				if !v.Renews {
					renewed = "by a new login"
				}
				return []string{v.Server, v.URL, v.Issuer, strings.Join(v.Scopes, " "), renewed, v.Since.Local().Format(time.DateTime)}
			})
		}),
	}
	f.Add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	addPrincipal(cmd, &principal)
	return cmd
}

// loginView is a login as "mcp auth ls" shows it.
type loginView struct {
	Server  string    `json:"server,omitempty"` // its configured name; empty if none has that URL
	URL     string    `json:"url"`
	Issuer  string    `json:"issuer"`
	Client  string    `json:"clientId"`
	Scopes  []string  `json:"scopes,omitempty"`
	Renews  bool      `json:"renews"`
	Expires time.Time `json:"expires,omitzero"`
	Since   time.Time `json:"since"`
}

func loginViewOf(a *auth.Account, servers []mcpclient.Server) loginView {
	v := loginView{URL: a.Server, Issuer: a.Issuer, Client: a.ClientID, Scopes: a.Scopes, Renews: a.Renews, Expires: a.Expires, Since: a.Updated}
	for i := range servers {
		if a.At(servers[i].URL) {
			v.Server = servers[i].Name
		}
	}
	return v
}
