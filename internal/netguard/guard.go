// Package netguard makes the HTTP clients that contact addresses which a peer has named:
// webhooks, metadata, client id documents, keys, token endpoints.
//
// A [Guard] lets through https at public addresses, and what its user allows. [Guard.Check]
// judges an address by its text. The clients of a guard judge the address of the connection
// as well, when it is made: a name cannot lead elsewhere between the two (SECA-16). They
// follow no redirect, use no proxy unless they are told to, because that looks names up itself,
// keep no connection, and bound the time and the size of an answer.
//
// A guard and its clients may be used from any goroutine.
package netguard

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// ErrRefused is the error of an address that the guard does not let through.
var ErrRefused = errors.New("the URL is refused")

// maxURL bounds an address, in bytes.
const maxURL = 2048

// Options changes what a guard lets through; nil is the same as the zero value.
type Options struct {
	// Allow names what is let through though it is not public: "host" and "host:port", at
	// any address, IP addresses, and networks such as "10.1.0.0/16".
	Allow []string
	// PlainHTTP lets http through for what Allow names.
	PlainHTTP bool
	// Loopback lets http and https through to this machine, by the names and addresses that
	// stand for it and no others.
	Loopback bool
}

// Guard decides which addresses are contacted.
type Guard struct {
	hosts     []string       // "host" or "host:port", in small letters
	nets      []netip.Prefix // private networks
	plainHTTP bool
	loopback  bool
	resolver  *net.Resolver // of tests; nil is the system's
}

// New returns a guard. It refuses an entry of Allow that it does not understand.
func New(opts *Options) (*Guard, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	g := &Guard{plainHTTP: o.PlainHTTP, loopback: o.Loopback}
	for _, a := range o.Allow {
		a = strings.ToLower(strings.TrimSpace(a))
		if p, err := netip.ParsePrefix(a); err == nil {
			g.nets = append(g.nets, p.Masked())
			continue
		}
		if ip, err := netip.ParseAddr(a); err == nil {
			g.nets = append(g.nets, netip.PrefixFrom(ip, ip.BitLen()))
			continue
		}
		if a == "" || strings.ContainsAny(a, "/@?# *") {
			return nil, fmt.Errorf("%.80q: want a host, host:port, or a network such as 10.1.0.0/16", a)
		}
		g.hosts = append(g.hosts, a)
	}
	return g, nil
}

// Check judges an address by its text, without a look-up of its host.
func (g *Guard) Check(raw string) error {
	if len(raw) > maxURL {
		return refuse("it is longer than %d bytes", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return refuse("it is no URL")
	}
	return g.check(u)
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

func (g *Guard) check(u *url.URL) error {
	named := g.allowsHost(u.Hostname(), port(u))
	local := g.loopback && IsLoopback(u.Hostname())
	ip, ipErr := netip.ParseAddr(strings.Trim(u.Hostname(), "[]"))
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.Opaque != "":
		return refuse("want https://host/path")
	case u.User != nil:
		return refuse("it has a user or a password in it")
	case u.Fragment != "":
		return refuse("it has a fragment")
	case u.Scheme == "http" && !local && !(g.plainHTTP && (named || ipErr == nil && g.allowsAddr(ip))):
		if g.plainHTTP {
			return refuse("want https; plain http is only for hosts that the configuration allows")
		}
		return refuse("want https")
	case ipErr == nil && !local && !named && !g.allowsAddr(ip) && !Public(ip):
		return refuse("its address is not public")
	}
	return nil
}

// IsLoopback reports whether a host, without its port, is a name or an address that stands
// for this machine whatever any name server says (RFC 6761).
func IsLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// allowsHost reports whether the user allows the host by its name.
func (g *Guard) allowsHost(host, port string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, net.JoinHostPort(host, port))
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	}
	return "443"
}

func (g *Guard) allowsAddr(ip netip.Addr) bool {
	ip = ip.Unmap()
	return slices.ContainsFunc(g.nets, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// notPublic are the networks that are not the public internet, and those in which
// addresses of others are wrapped.
var notPublic = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

func prefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// Public reports whether an address is one of the public internet.
func Public(ip netip.Addr) bool {
	if !ip.IsValid() || ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) })
}
