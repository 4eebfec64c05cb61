// flags.go: who may reach the console, from where, and by which name.

package console

import (
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/troupe-dev/troupe/agent/console"
	"github.com/troupe-dev/troupe/internal/cli/env"
)

// secretVariable has the secret of --auth-client, which no command line shows.
const secretVariable = "TROUPE_AUTH_SECRET"

// consoleFlags are the flags of "troupe console".
type consoleFlags struct {
	http      string
	open      bool
	users     string
	issuer    string
	client    string
	scopes    []string
	claim     string
	roles     []string
	hosts     []string
	cert, key string
	proxy     bool

	tls *tls.Config // settle makes it; nil for none
}

func (f *consoleFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.http, "http", "127.0.0.1:0", "listen on this `ADDRESS`; port 0 is a free one. Others than this machine reach it only with a login, --host and https")
	flags.BoolVar(&f.open, "open", false, "open the console in a browser")
	flags.StringVar(&f.users, "users", "", "people log in by names and passwords of this `FILE`: see troupe serve users add --role")
	flags.StringVar(&f.issuer, "auth-issuer", "", "people log in at this OpenID provider, a `URL`; the secret of its client is $"+secretVariable)
	flags.StringVar(&f.client, "auth-client", "", "`ID` of the client at the provider, whose redirect address is https://HOST/login/callback")
	flags.StringSliceVar(&f.scopes, "auth-scopes", nil, "`SCOPES` to ask the provider for beside openid, such as email,groups")
	flags.StringVar(&f.claim, "auth-claim", "groups", "`NAME` of the claim, a text or a list, whose values --auth-role gives a role")
	flags.StringArrayVar(&f.roles, "auth-role", nil, "`VALUE=ROLE`: who has this value in the claim may look, answer or operate; the value * is of all who can log in (repeat)")
	flags.StringArrayVar(&f.hosts, "host", nil, "`NAME` by which browsers reach the console, such as console.example.com (repeat)")
	flags.StringVar(&f.cert, "tls-cert", "", "`FILE` of the certificate, with its chain: serve https")
	flags.StringVar(&f.key, "tls-key", "", "`FILE` of the certificate's key")
	flags.BoolVar(&f.proxy, "behind-proxy", false, "a proxy serves https, and adds the address of its client to X-Forwarded-For")
}

// settle refuses what lets in more than is meant, before anything is opened.
func (f *consoleFlags) settle() error {
	at, err := netip.ParseAddrPort(f.http)
	if err != nil {
		return env.Usagef("--http %q: want an address with a port, such as 127.0.0.1:8440", f.http)
	}
	login := f.users != "" || f.issuer != ""
	switch {
	case f.users != "" && f.issuer != "":
		return env.Usagef("--users and --auth-issuer exclude each other")
	case (f.cert == "") != (f.key == ""):
		return env.Usagef("--tls-cert and --tls-key belong together")
	case f.cert != "" && f.proxy:
		return env.Usagef("--tls-cert and --behind-proxy exclude each other: one of them serves https")
	case (f.proxy || len(f.hosts) > 0) && !login:
		return env.Usagef("--host and --behind-proxy let others than this machine in: say who may, with --users FILE or --auth-issuer URL")
	case f.issuer == "" && (f.client != "" || len(f.roles) > 0 || len(f.scopes) > 0):
		return env.Usagef("--auth-client, --auth-role and --auth-scopes need --auth-issuer")
	case f.issuer != "" && (f.client == "" || len(f.roles) == 0):
		return env.Usagef("--auth-issuer needs --auth-client, and --auth-role to say who may do what, such as --auth-role admins=operate")
	case at.Addr().IsLoopback():
	case !login:
		return env.Usagef("--http %q: want an address of this machine with a port, such as 127.0.0.1:8440, or say who may log in with --users FILE or --auth-issuer URL: who reaches the console sees all runs", f.http)
	case len(f.hosts) == 0:
		return env.Usagef("--http %q: say by which name browsers reach the console: --host console.example.com", f.http)
	case f.cert == "" && !f.proxy:
		return env.Usagef("--http %q needs https, or passwords and sessions are read on the way: give --tls-cert and --tls-key, or --behind-proxy where a proxy serves https", f.http)
	}
	if f.proxy && len(f.hosts) == 0 {
		return env.Usagef("--behind-proxy: say by which name browsers reach the console: --host console.example.com")
	}
	for _, host := range f.hosts {
		if host == "" || strings.ContainsAny(host, "/@?# *") {
			return env.Usagef("--host %q: want a name, with the port where it is not the one of https: console.example.com", host)
		}
	}
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return env.Usagef("--tls-cert, --tls-key: %w", err)
		}
		f.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	return nil
}

// listen opens the address.
func (f *consoleFlags) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", f.http)
	if err != nil {
		return nil, env.Usagef("--http: %w", err)
	}
	return l, nil
}

// scheme is how browsers reach the console.
func (f *consoleFlags) scheme() string {
	if f.tls != nil || f.proxy {
		return "https"
	}
	return "http"
}

// options sets who may reach the console that listens at an address, and returns the address of its pages.
func (f *consoleFlags) options(o *console.Options, l net.Listener) (base string, err error) {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return "", err
	}
	for _, host := range f.hosts {
		if _, _, err := net.SplitHostPort(host); err != nil && f.tls != nil && port != "443" {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		o.Hosts = append(o.Hosts, host)
	}
	at := l.Addr().String()
	if len(o.Hosts) > 0 {
		at = o.Hosts[0]
	}
	base, o.HTTPS = f.scheme()+"://"+at, f.proxy
	switch {
	case f.users != "":
		o.Login = console.Users(f.users)
	case f.issuer != "":
		roles := make(map[string]console.Role)
		for _, rule := range f.roles {
			cut := strings.LastIndexByte(rule, '=')
			if cut < 1 {
				return "", env.Usagef("--auth-role %q: want VALUE=ROLE, such as admins=operate", rule)
			}
			role, ok := console.ParseRole(rule[cut+1:])
			if !ok {
				return "", env.Usagef("--auth-role %q: the role is look, answer or operate", rule)
			}
			roles[rule[:cut]] = role
		}
		o.Login = console.OIDC(console.OIDCOptions{Issuer: f.issuer, ClientID: f.client, ClientSecret: os.Getenv(secretVariable), Scopes: f.scopes,
			Address: base, Claim: f.claim, Roles: roles})
	}
	return base, nil
}
