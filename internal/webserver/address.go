package webserver

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Address returns where a request comes from: the address of its connection. With proxied a
// connection of this machine or of a private network is that of a proxy, which has added the
// address of its client to X-Forwarded-For as the last one; what stands before it the client may
// have made up.
func Address(r *http.Request, proxied bool) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if ip, err := netip.ParseAddr(host); err != nil || !proxied || !mayBeProxy(ip) {
		return host
	}
	forwarded := strings.Join(r.Header["X-Forwarded-For"], ",")
	last := strings.TrimSpace(forwarded[strings.LastIndexByte(forwarded, ',')+1:])
	from, err := netip.ParseAddr(last)
	if err != nil { // some add the port
		at, err := netip.ParseAddrPort(last)
		if err != nil {
			return host
		}
		from = at.Addr()
	}
	return from.Unmap().String()
}

// Source returns what limits count an address as: an IPv4 address by itself, an IPv6 address by its
// /64, of which one customer has all. What is no address stays as it is.
func Source(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is6() {
		if net, err := ip.Prefix(64); err == nil {
			return net.String()
		}
	}
	return ip.String()
}
