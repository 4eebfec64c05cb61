package httpguard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/troupe-dev/troupe/internal/sanitize"
)

// minSecret is the shortest text that is taken for a secret: less is in every other word.
const minSecret = 4

// Redact makes a text of a server fit to be shown: one line of at most n characters,
// without what is secret if the server repeats it (SECA-27). That is the values of
// header, also behind a word such as Bearer, the query of the address, and more.
func Redact(text string, n int, header http.Header, at *url.URL, more ...string) string {
	secrets := append(slices.Clone(more), at.RawQuery)
	query := at.Query()
	if at.Scheme == schemeUnix { // its query stands in the fragment
		_, raw, _ := strings.Cut(at.EscapedFragment(), "?")
		secrets = append(secrets, raw)
		query, _ = url.ParseQuery(raw)
	}
	for _, values := range query {
		secrets = append(secrets, values...)
	}
	for _, values := range header {
		for _, v := range values {
			_, token, _ := strings.Cut(v, " ")
			secrets = append(secrets, v, token)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	for _, s := range secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return sanitize.Line(text, n)
}
