package asks

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// MaxRoots bounds what a server is told.
const MaxRoots = 1000

// CheckRoots holds each root against what may be exposed (ROOT-04, SECA-46).
func CheckRoots(roots []mcp.Root) ([]mcp.Root, error) {
	if len(roots) > MaxRoots {
		return nil, fmt.Errorf("mcpclient: more than %d roots", MaxRoots)
	}
	for _, r := range roots {
		if _, err := RootPath(r.URI); err != nil {
			return nil, fmt.Errorf("mcpclient: root %q: %w", r.URI, err)
		}
	}
	return slices.Clone(roots), nil
}

// IsThere reports whether the path of a root leads to something.
func IsThere(p string) bool {
	_, err := os.Stat(hostPath(p))
	return err == nil
}

// hostPath takes the slash before a drive away.
func hostPath(p string) string {
	if len(p) >= 3 && p[0] == '/' && p[2] == ':' && os.PathSeparator == '\\' {
		return p[1:]
	}
	return p
}

// RootPath returns the path of a root: an absolute file:// URI without a host, that
// says what it means.
func RootPath(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, "file://")
	if !ok {
		return "", errors.New("not a file:// URI")
	}
	if strings.ContainsAny(rest, "?#\\") {
		return "", errors.New("a path with a query, a fragment or a backslash")
	}
	if !strings.HasPrefix(rest, "/") {
		return "", errors.New("a URI with a host")
	}
	if lower := strings.ToLower(rest); strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(lower, "%00") {
		return "", errors.New("an escaped separator or NUL in the path")
	}
	p, err := url.PathUnescape(rest)
	if err != nil {
		return "", errors.New("a malformed escape in the path")
	}
	if strings.HasPrefix(p, "//") { // a host by another name
		return "", errors.New("a path that begins with two slashes")
	}
	if clean := path.Clean(p); clean != p && clean+"/" != p {
		return "", errors.New("a path that is not in its shortest form")
	}
	return p, nil
}
