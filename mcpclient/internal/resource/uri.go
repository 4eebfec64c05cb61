// Package resource checks what servers publish as resources: URIs, and the entries of skills.
package resource

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// maxURI bounds the URI of a resource, in bytes.
const maxURI = 16 << 10

// CheckURI refuses all but absolute URIs (RES-08, RFC 3986).
func CheckURI(uri string) error {
	if len(uri) > maxURI {
		return fmt.Errorf("the URI is longer than %d bytes", maxURI)
	}
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f || r == utf8.RuneError }) {
		return fmt.Errorf("%.200q is not a URI", uri)
	}
	for i := range len(uri) {
		if uri[i] == '%' && (len(uri) < i+3 || !isHex(uri[i+1]) || !isHex(uri[i+2])) {
			return fmt.Errorf("%.200q is not a URI", uri)
		}
	}
	if u, err := url.Parse(uri); err != nil || u.Scheme == "" {
		return fmt.Errorf("%.200q is not an absolute URI", uri)
	}
	return nil
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }
