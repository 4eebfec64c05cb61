package env

import (
	"net"
	"net/netip"
	"strings"
)

// ListenAddress returns the host and port of an address to listen at. Without a host it is the one of this machine only.
func ListenAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", Usagef("%q: want host:port, or :port for this machine only: %w", address, err)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", "", Usagef("%q: want a port from 0 to 65535", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if !isHost(host) {
		return "", "", Usagef("%q: want an IP address or a name before the port", address)
	}
	return host, port, nil
}

// FromFlag is err, which is about a value, with where that comes from: a key of the configuration that says the same, or
// else the flag.
func FromFlag(s *Settings, flag, value, key, configured string, err error) error {
	if value == configured {
		return Usagef("%w", s.Fault(key, err))
	}
	return Usagef("%s %w", flag, err)
}

// isHost reports whether a text is an IP address or may be a name: one whose last label is a number never is
// (WHATWG URL, 3.5).
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	last := text[strings.LastIndexByte(text, '.')+1:]
	return len(text) <= 253 && strings.Trim(last, "0123456789") != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}
