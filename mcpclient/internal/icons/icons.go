// Package icons tells the icons of servers that may be shown.
package icons

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/mcp"
)

// Max bounds an icon that comes within a data URL, in bytes of the URL.
const Max = 256 << 10

// Safe returns the icons that a renderer may use (ICON-03).
func Safe(icons []mcp.Icon, serverURL string) []mcp.Icon {
	own, err := url.Parse(serverURL)
	if err != nil {
		own = new(url.URL)
	}
	var safe []mcp.Icon
	for _, icon := range icons {
		if safeIcon(&icon, own) {
			safe = append(safe, icon)
		}
	}
	return safe
}

func safeIcon(icon *mcp.Icon, own *url.URL) bool {
	if icon.MIMEType != "" && imageType(icon.MIMEType) == "" || len(icon.Src) > Max {
		return false
	}
	if len(icon.Src) >= 5 && strings.EqualFold(icon.Src[:5], "data:") {
		return safeData(icon.Src[5:])
	}
	u, err := url.Parse(icon.Src)
	return err == nil && u.Scheme == "https" && u.User == nil && u.Host != "" &&
		own.Scheme == "https" && strings.EqualFold(u.Hostname(), own.Hostname()) && port(u) == port(own)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return "443"
}

// imageTypes are the kinds of picture with what they begin with; "" are those that
// need a closer look.
var imageTypes = map[string]string{
	"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff", "image/jpg": "\xff\xd8\xff",
	"image/gif": "GIF8", "image/webp": "RIFF", "image/svg+xml": "",
}

// imageType returns the media type if it is a picture's that we know, else "".
func imageType(s string) string {
	t, _, err := mime.ParseMediaType(s)
	if _, ok := imageTypes[t]; err != nil || !ok {
		return ""
	}
	return t
}

// safeData looks at a data URL without its scheme (RFC 2397).
func safeData(rest string) bool {
	head, data, ok := strings.Cut(rest, ",")
	head, encoded := strings.CutSuffix(head, ";base64")
	kind := imageType(head)
	if !ok || kind == "" {
		return false
	}
	text, err := url.PathUnescape(data)
	content := []byte(text)
	if err == nil && encoded {
		content, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return false
	}
	switch kind {
	case "image/webp":
		return bytes.HasPrefix(content, []byte("RIFF")) && len(content) >= 12 && string(content[8:12]) == "WEBP"
	case "image/svg+xml":
		content = bytes.TrimSpace(bytes.TrimPrefix(content, []byte("\ufeff")))
		return slices.ContainsFunc([]string{"<svg", "<?xml", "<!--", "<!DOCTYPE svg"}, func(s string) bool { return bytes.HasPrefix(content, []byte(s)) })
	}
	return bytes.HasPrefix(content, []byte(imageTypes[kind]))
}
