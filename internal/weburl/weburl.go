// Package weburl judges web addresses that a peer wants a person to open.
//
// [Check] either refuses an address or returns it in the one form in which it is
// then shown and opened: only printable ASCII, the host as a browser sees it. The
// package never touches the network (URL-10).
//
// It may be used from any goroutine.
package weburl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// View is an address that has passed, as it is to be shown.
type View struct {
	URL      string   // exactly what is to be shown and opened
	Host     string   // as the browser sees it, without port; an IPv6 address without brackets
	Domain   string   // the registrable domain, to be made evident (URL-14); "" if there is none
	Warnings []string // what is odd about it, in words
}

// ErrRefused is what every error of [Check] is.
var ErrRefused = errors.New("the URL is refused")

const (
	// maxURL is how long an address may be, in bytes. Those of sign-in pages have
	// up to 4 KiB.
	maxURL = 8 << 10
	// longURL is from where on its length is worth a warning: a terminal's page.
	longURL = 1000
)

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Check holds raw against the rules for addresses that come from a server (URL-16):
// https only, http on this machine; nothing that hides where it leads. Checking
// View.URL again gives the same View.URL.
func Check(raw string) (*View, error) {
	scheme, authority, rest, err := split(raw)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(scheme + "://" + authority + rest)
	if err != nil {
		return nil, refuse("it is malformed") // the error would repeat it
	}
	if u.User != nil || strings.Contains(authority, "@") {
		return nil, refuse("it has a user name before the host, which can be taken for the host")
	}
	v := new(View)
	addr, err := v.host(u.Hostname())
	if err != nil {
		return nil, err
	}
	if err := v.scheme(scheme, addr); err != nil {
		return nil, err
	}
	port, err := v.port(scheme, u.Port())
	if err != nil {
		return nil, err
	}
	shown := v.Host
	if addr.Is6() {
		shown = "[" + shown + "]"
	}
	v.URL = scheme + "://" + shown + port + behindHost(u)
	if len(v.URL) > maxURL {
		return nil, refuse("it is longer than %d bytes", maxURL)
	}
	if len(v.URL) > longURL {
		v.warn("It is very long: %d characters.", len(v.URL))
	}
	return v, nil
}

func (v *View) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// split takes an address apart by hand, because parsers differ in just the cases
// that deceive: where the host begins, where it ends, and what may stand in it.
func split(raw string) (scheme, authority, rest string, err error) {
	if len(raw) > maxURL {
		return "", "", "", refuse("it is longer than %d bytes", maxURL)
	}
	if !utf8.ValidString(raw) {
		return "", "", "", refuse("it is not valid UTF-8")
	}
	for _, r := range raw {
		if r == '\\' {
			return "", "", "", refuse("it has a backslash, which browsers take for a slash")
		}
		if odd(r) {
			return "", "", "", refuse("it has the character U+%04X, which is invisible or stands for a space", r)
		}
	}
	scheme, rest, found := strings.Cut(raw, ":")
	scheme = strings.ToLower(scheme)
	switch {
	case !found:
		return "", "", "", refuse("it has no scheme")
	case scheme != "https" && scheme != "http":
		return "", "", "", refuse("its scheme is not https")
	case !strings.HasPrefix(rest, "//"):
		return "", "", "", refuse("it has no // before the host")
	}
	rest = rest[2:]
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest = rest[:end], rest[end:]
	switch {
	case authority == "":
		return "", "", "", refuse("it has no host")
	case strings.Contains(authority, "%"):
		return "", "", "", refuse("its host is encoded")
	}
	return scheme, authority, rest, nil
}

// odd reports characters that have no place in an address: white space, controls,
// and all that is not seen or changes the order of the others.
func odd(r rune) bool {
	return r <= ' ' || r == 0x7f ||
		unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Z, unicode.Noncharacter_Code_Point,
			unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// scheme allows http on this machine only (URL-16).
func (v *View) scheme(scheme string, addr netip.Addr) error {
	if scheme == "https" {
		return nil
	}
	if !v.local(addr) {
		return refuse("it is not encrypted: http is for this machine only")
	}
	v.warn("It is not encrypted (http).")
	return nil
}

// local reports whether the host is this machine, whatever any name server says
// (RFC 6761).
func (v *View) local(addr netip.Addr) bool {
	return addr.Unmap().IsLoopback() || v.Host == "localhost" || strings.HasSuffix(v.Host, ".localhost")
}

// port returns the port with its colon, "" for the usual one.
func (v *View) port(scheme, port string) (string, error) {
	if port == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0:
		return "", refuse("its port is not a number from 1 to 65535")
	case scheme == "https" && n == 443, scheme == "http" && n == 80:
		return "", nil
	}
	v.warn("It has an unusual port, %d.", n)
	return ":" + strconv.FormatUint(n, 10), nil
}

// behindHost writes path, query and fragment with nothing in them but what RFC 3986
// allows there; what is encoded already stays as it is.
func behindHost(u *url.URL) string {
	s := encode(u.EscapedPath(), "/")
	if s == "" {
		s = "/" // as every browser does
	}
	if u.RawQuery != "" || u.ForceQuery {
		s += "?" + encode(u.RawQuery, "/?")
	}
	if u.Fragment != "" {
		s += "#" + encode(u.EscapedFragment(), "/?")
	}
	return s
}

// encode percent-encodes every byte that RFC 3986 does not allow, and each percent
// sign that begins no encoded byte.
func encode(s, also string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]),
			c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-._~!$&'()*+,;=:@", c) >= 0, strings.IndexByte(also, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
