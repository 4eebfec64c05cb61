package web

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
)

// guard decides from where requests may come (SHL-02, SHM-02): any page that a browser shows
// can send them, and a foreign host name can resolve to this machine (SECA-1, SECA-2).
//
// Hosts on the loopback interface are always allowed.
type guard struct {
	hosts   map[authority]bool // port "" is any
	origins map[origin]bool
	last    atomic.Pointer[allowedHost] // nil before the first request
}

// allowedHost remembers how a Host was read: most requests have the same.
type allowedHost struct {
	text string
	authority
}

// authority is a host in its usual form, and a port.
type authority struct{ host, port string }

type origin struct {
	scheme string
	authority
}

// newGuard reads the allowed hosts and origins.
func newGuard(hosts, origins []string) (*guard, error) {
	g := &guard{hosts: make(map[authority]bool), origins: make(map[origin]bool)}
	for _, text := range hosts {
		a, ok := readAuthority(text)
		if !ok {
			return nil, fmt.Errorf("mcpserver: AllowedHosts: %q is not a host or host:port", text)
		}
		g.hosts[a] = true
	}
	for _, text := range origins {
		o, ok := readOrigin(text)
		if !ok {
			return nil, fmt.Errorf("mcpserver: AllowedOrigins: %q is not scheme://host or scheme://host:port", text)
		}
		g.origins[o] = true
	}
	return g, nil
}

// check says why a request is refused; empty if it is allowed.
func (g *guard) check(r *http.Request) (why string) {
	last := g.last.Load()
	if last == nil || last.text != r.Host {
		host, ok := readAuthority(r.Host)
		if !ok || !g.host(host) {
			return "the host is not allowed"
		}
		last = &allowedHost{r.Host, host}
		g.last.Store(last)
	}
	host := last.authority
	site := r.Header["Sec-Fetch-Site"]
	from := r.Header["Origin"]
	switch {
	case len(from) == 0 && len(site) == 0:
		return "" // no browser
	case len(from) > 1 || len(site) > 1:
		return "the origin is not clear"
	case len(from) == 0:
		if site[0] == "same-origin" || site[0] == "none" {
			return ""
		}
		return "the origin is not allowed"
	}
	o, ok := readOrigin(from[0])
	switch {
	case !ok:
		return "the origin is not allowed"
	case g.origins[o]:
		return ""
	case len(site) > 0 && site[0] == "cross-site":
		return "the origin is not allowed"
	case isLoopback(o.host) && isLoopback(host.host):
		return ""
	case !g.same(o, host) || r.TLS != nil && o.scheme != "https":
		return "the origin is not allowed"
	}
	return ""
}

func (g *guard) host(a authority) bool {
	return isLoopback(a.host) || g.hosts[a] || g.hosts[authority{host: a.host}]
}

// same reports whether a page comes from the host of its request. Only a proxy in front of the server may
// know whether that is reached by https.
func (g *guard) same(o origin, a authority) bool {
	if a.port == "" {
		a.port = o.usualPort()
	}
	return o.authority == a
}

// isLoopback reports whether a host in its usual form is of this machine. Names below
// localhost are not: some resolvers ask the network for them.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// readOrigin reads an Origin header: scheme, host and port (RFC 6454, 7). The port is always
// filled in. It refuses the opaque origin, null.
func readOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	o := origin{scheme: strings.ToLower(scheme)}
	if !ok || !isScheme(o.scheme) {
		return origin{}, false
	}
	if o.authority, ok = readAuthority(rest); !ok {
		return origin{}, false
	}
	if o.port == "" {
		o.port = o.usualPort()
	}
	return o, true
}

func (o origin) usualPort() string {
	switch o.scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

// isScheme reports whether s is a URI scheme in lower case: browser extensions have their own.
func isScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '+' && c != '.') {
			return false
		}
	}
	return s != ""
}

// readAuthority reads host or host:port, as in a Host header. It refuses notations that parsers
// disagree on: user names, escapes, a trailing dot, unusual addresses (SECA-3).
func readAuthority(text string) (authority, bool) {
	if text == "" || len(text) > 300 {
		return authority{}, false
	}
	if text[0] == '[' {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return authority{}, false
		}
		ip, err := netip.ParseAddr(text[1:end])
		port, ok := readPort(text[end+1:])
		if err != nil || !ok || ip.Is4() || ip.Zone() != "" {
			return authority{}, false
		}
		return authority{ip.String(), port}, true
	}
	host, after := text, ""
	if i := strings.IndexByte(text, ':'); i >= 0 {
		host, after = text[:i], text[i:]
	}
	port, ok := readPort(after)
	if !ok || !isHostName(host) {
		return authority{}, false
	}
	return authority{strings.ToLower(host), port}, true
}

// readPort reads an empty text, or a colon and a port without leading zeros.
func readPort(text string) (string, bool) {
	if text == "" {
		return "", true
	}
	if text[0] != ':' || len(text) < 2 || text[1] == '0' || text[1] == '+' {
		return "", false
	}
	_, err := strconv.ParseUint(text[1:], 10, 16)
	return text[1:], err == nil
}

// isHostName reports whether s is labels between dots, or an IPv4 address of four
// decimal numbers: browsers read a last label of digits as a number in several notations,
// other parsers do not.
func isHostName(s string) bool {
	last := s[strings.LastIndexByte(s, '.')+1:]
	if last == "" {
		return false
	}
	if last[0] >= '0' && last[0] <= '9' {
		ip, err := netip.ParseAddr(s)
		return err == nil && ip.Is4()
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
