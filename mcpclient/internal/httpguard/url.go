package httpguard

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// ErrURL says that an address cannot be used.
var ErrURL = errors.New("unusable server address")

const (
	schemeUnix    = "unix"
	maxURL        = 8 << 10
	maxSocketPath = 107 // what a socket address has room for on Linux, less on others
	// socketSuffix marks the host name that stands for a socket, so that sockets are
	// pooled with all other connections. No name on a network ends so.
	socketSuffix = ".socket.troupe.invalid"
)

// ParseURL reads the address of a server:
//
//   - http://host/path or https://host/path, without user name and fragment;
//   - unix:///path/of/socket#/path for HTTP over a socket; without the fragment
//     the path is "/".
//
// The error wraps [ErrURL] and does not repeat the query.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, fmt.Errorf("%w: longer than %d bytes", ErrURL, maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	if err := check(u); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return u, nil
}

func check(u *url.URL) error {
	switch {
	case u.User != nil:
		return errors.New("it holds a user name; use a header for credentials")
	case strings.EqualFold(u.Scheme, "pipe"):
		return errors.New("named pipes are not supported")
	case u.Scheme == schemeUnix:
		_, err := socketURL(u)
		return err
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the scheme is %.20q, want http, https or unix", u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return errors.New("it names no host")
	case strings.ContainsAny(u.Host, "\\ \t%") || isSocketHost(u.Hostname()):
		return errors.New("its host is not valid")
	case u.Fragment != "":
		return errors.New("it has a fragment (#), which no server would see")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("port %.10q is not valid", port)
		}
	}
	return nil
}

// socketURL returns the URL that stands for one of scheme unix.
func socketURL(u *url.URL) (*url.URL, error) {
	switch {
	case u.Host != "" || u.Opaque != "" || !path.IsAbs(u.Path):
		return nil, errors.New("want unix:///path/of/socket#/path")
	case len(u.Path) > maxSocketPath || strings.ContainsRune(u.Path, 0):
		return nil, fmt.Errorf("the path of a socket has at most %d bytes", maxSocketPath)
	case u.RawQuery != "":
		return nil, errors.New("the query belongs behind the fragment's path: unix:///path/of/socket#/path?query")
	}
	sub := u.EscapedFragment()
	if sub == "" {
		sub = "/"
	}
	out, err := url.ParseRequestURI(sub)
	if err != nil || sub[0] != '/' || strings.HasPrefix(sub, "//") {
		return nil, errors.New("the fragment of a unix: address is a path that begins with one /")
	}
	out.Scheme, out.Host = "http", hex.EncodeToString([]byte(u.Path))+socketSuffix
	return out, nil
}

func isSocketHost(host string) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.ToLower(host), "."), socketSuffix)
}

func socketPath(host string) (string, error) {
	b, err := hex.DecodeString(strings.TrimSuffix(host, socketSuffix))
	return string(b), err
}

// Origin returns the origin of an address: its scheme, host and port, the port
// only where it is not the usual one; of a socket its path. It is fit to be shown.
func Origin(u *url.URL) string {
	if u.Scheme == schemeUnix {
		return (&url.URL{Scheme: schemeUnix, Path: u.Path}).String()
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" && !(u.Scheme == "http" && port == "80") && !(u.Scheme == "https" && port == "443") {
		host += ":" + port
	}
	return strings.ToLower(u.Scheme) + "://" + host
}

// SameOrigin reports whether two addresses have one origin (SSE-04, ROB-6). Names
// that only resolve to the same machine are different.
func SameOrigin(a, b *url.URL) bool { return Origin(a) == Origin(b) }
