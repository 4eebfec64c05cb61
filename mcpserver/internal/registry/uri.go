package registry

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/troupe-dev/troupe/internal/uritemplate"
	"github.com/troupe-dev/troupe/mcp"
)

// CheckURI holds a URI to RFC 3986 (RES-07, RES-08), but for characters beyond ASCII,
// as people write them.
func CheckURI(uri string) error {
	if len(uri) > uritemplate.MaxURI {
		return fmt.Errorf("the URI is longer than %d bytes", uritemplate.MaxURI)
	}
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok || !IsScheme(strings.ToLower(scheme)) {
		return fmt.Errorf("the URI %.100q has no scheme", uri)
	}
	if !utf8.ValidString(uri) || strings.ContainsFunc(rest, isNoURI) || !isEncoded(rest) {
		return fmt.Errorf("the URI %.100q has characters that are not allowed in a URI", uri)
	}
	return nil
}

// Climbs reports whether a URI that passes CheckURI could lead a handler out of its
// folder: by dot segments, encoded or not, which no URI in its normal form has, or by
// zero bytes, and in file URIs by hosts, and by separators that are encoded or of
// another system (SECA-46).
func Climbs(uri string) bool {
	scheme, rest, _ := strings.Cut(uri, ":")
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	authority := ""
	if strings.HasPrefix(rest, "//") {
		if i := strings.IndexByte(rest[2:], '/'); i >= 0 {
			authority, rest = rest[2:2+i], rest[2+i:]
		} else {
			authority, rest = rest[2:], ""
		}
	}
	path, err := url.PathUnescape(rest)
	if err != nil || strings.IndexByte(path, 0) >= 0 {
		return true
	}
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return strings.EqualFold(scheme, "file") && (authority != "" || strings.ContainsRune(path, '\\') ||
		strings.Count(path, "/") != strings.Count(rest, "/"))
}

// IsScheme reports whether s is a URI scheme in lower case.
func IsScheme(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '+' && c != '.') {
			return false
		}
	}
	return s != ""
}

// isNoURI reports whether no URI has the character (RFC 3986, appendix A).
func isNoURI(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("\"<>\\^`{|}", r)
}

// isEncoded reports whether every percent sign begins a triplet.
func isEncoded(s string) bool {
	_, err := url.PathUnescape(s)
	return err == nil
}

// CheckDescribed checks the parts that definitions have in common.
func CheckDescribed(icons []mcp.Icon, a *mcp.Annotations) error {
	for _, icon := range icons { // ICON-01
		src := strings.ToLower(icon.Src)
		if !strings.HasPrefix(src, "https://") && !strings.HasPrefix(src, "data:") {
			return fmt.Errorf("the icon %.100q is neither an https nor a data URL", icon.Src)
		}
		if icon.Theme != "" && icon.Theme != "light" && icon.Theme != "dark" {
			return fmt.Errorf("the icon %.100q has the unknown theme %q", icon.Src, icon.Theme)
		}
	}
	if a == nil {
		return nil
	}
	if a.Priority != nil && !(*a.Priority >= 0 && *a.Priority <= 1) { // RES-10
		return fmt.Errorf("the priority %v is not between 0 and 1", *a.Priority)
	}
	for _, role := range a.Audience {
		if !role.Valid() {
			return fmt.Errorf("the audience %q is neither user nor assistant", role)
		}
	}
	if a.LastModified == "" {
		return nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00"} {
		if _, err := time.Parse(layout, a.LastModified); err == nil {
			return nil
		}
	}
	return fmt.Errorf("the time %q is not of ISO 8601", a.LastModified)
}
