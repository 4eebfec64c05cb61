package httpguard

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupe-dev/troupe/internal/mirror"
)

// ErrHeader says that a header of the configuration cannot be sent.
var ErrHeader = errors.New("unusable header")

// ours are the headers that the transport itself sets, and those that would change
// how a message is framed.
var ours = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true, "Content-Type": true,
	"Expect": true, "Host": true, "Keep-Alive": true, "Last-Event-Id": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Mcp-Session-Id": true, "Mcp-Protocol-Version": true, "Mcp-Method": true, "Mcp-Name": true,
}

// CheckHeader checks headers that come from a configuration or a callback: names
// are tokens and not the transport's own, values hold no line break or other
// control character. The error wraps [ErrHeader] and names the header, not its
// value.
func CheckHeader(h http.Header) error {
	for name, values := range h {
		key := http.CanonicalHeaderKey(name)
		switch {
		case !mirror.IsToken(name):
			return fmt.Errorf("%w: %.100q is not a header's name", ErrHeader, name)
		case ours[key] || strings.HasPrefix(key, "Mcp-Param-"):
			return fmt.Errorf("%w: %s is set by the transport itself", ErrHeader, key)
		}
		for _, v := range values {
			if !ValidValue(v) {
				return fmt.Errorf("%w: the value of %s holds a control character", ErrHeader, key)
			}
		}
	}
	return nil
}

// ValidValue reports whether a value can be sent in a header: it holds no control
// character but the tab (RFC 9110, 5.5).
func ValidValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
