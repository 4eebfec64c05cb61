package jobapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrHookRefused is the error of a URL to which no webhook is sent.
var ErrHookRefused = errors.New("the URL is refused")

// sendTime bounds one attempt to deliver a webhook.
const sendTime = 15 * time.Second

// maxHookURL bounds the URL of a webhook, in bytes.
const maxHookURL = 2048

// Guard decides which URLs get webhooks: those of https at public addresses, and others that
// the user allows.
type Guard struct {
	hosts []string       // "host" or "host:port", in small letters
	nets  []netip.Prefix // private networks
}

// NewGuard returns a guard that also allows these: "host" and "host:port", at any address and
// over plain http too, addresses and networks such as "10.1.0.0/16".
func NewGuard(allow []string) (*Guard, error) {
	g := new(Guard)
	for _, a := range allow {
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
			return nil, fmt.Errorf("webhooks may not go to %.80q: want a host, host:port, or a network such as 10.1.0.0/16", a)
		}
		g.hosts = append(g.hosts, a)
	}
	return g, nil
}

// Check checks a URL without a look-up of its address.
func (g *Guard) Check(raw string) error {
	_, err := g.parse(raw)
	return err
}

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrHookRefused, fmt.Sprintf(format, args...))
}

func (g *Guard) parse(raw string) (*url.URL, error) {
	if len(raw) > maxHookURL {
		return nil, refuse("it is longer than %d bytes", maxHookURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, refuse("it is no URL")
	}
	allowed := g.allowsHost(u)
	ip, ipErr := netip.ParseAddr(strings.Trim(u.Hostname(), "[]"))
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.Opaque != "":
		return nil, refuse("want https://host/path")
	case u.User != nil:
		return nil, refuse("it has a user or a password in it")
	case u.Fragment != "":
		return nil, refuse("it has a fragment")
	case u.Scheme == "http" && !allowed && (ipErr != nil || !g.allowsAddr(ip)):
		return nil, refuse("want https; plain http is only for hosts that the configuration allows")
	case ipErr == nil && !allowed && !g.allowsAddr(ip) && !public(ip):
		return nil, refuse("its address is not public")
	}
	return u, nil
}

// allowsHost reports whether the user allows the host.
func (g *Guard) allowsHost(u *url.URL) bool {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, net.JoinHostPort(host, port(u)))
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

// public reports whether an address is one of the public internet.
func public(ip netip.Addr) bool {
	if ip.Zone() != "" {
		return false
	}
	ip = ip.Unmap()
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(ip) })
}

var errRedirect = errors.New("it redirects, which is not followed")

// client returns a client for one URL that has passed [Guard.Check]. It checks the address
// of the connection itself, so that the name cannot lead elsewhere in between (SECA-16). It
// uses no proxy of the environment, which would look the name up.
func (g *Guard) client(u *url.URL) *http.Client {
	named := g.allowsHost(u)
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return refuse("%v", err)
		}
		if !named && !g.allowsAddr(ap.Addr()) && !public(ap.Addr()) {
			return refuse("the host %s is at %s, which is not public", u.Hostname(), ap.Addr())
		}
		return nil
	}}
	return &http.Client{
		Timeout:       sendTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: nil, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10, TLSHandshakeTimeout: 5 * time.Second,
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, address)
			},
		},
	}
}
