package httpguard

import (
	"fmt"
	"net/http"
	"net/url"
)

// maxRedirects are followed for one GET.
const maxRedirects = 3

// RedirectError is a redirect that was not followed: what the request carries must
// not go anywhere else (ROB-6, SECA-22).
type RedirectError struct {
	Method string
	Status int
	From   string // origin
	To     string // origin, and the path if it is the same
	Why    string
}

func (e *RedirectError) Error() string {
	return fmt.Sprintf("%s answers %s with a redirect (%d) to %.200s, which is not followed: %s", e.From, e.Method, e.Status, e.To, e.Why)
}

// Refused is the error of a redirect that answers something other than a GET at from.
func Refused(from *url.URL, resp *http.Response) *RedirectError {
	e := &RedirectError{
		Method: http.MethodPost, Status: resp.StatusCode, From: Origin(from), To: "an address that it does not name", Why: "only a GET may be redirected",
	}
	if to, err := from.Parse(resp.Header.Get("Location")); err == nil && resp.Header.Get("Location") != "" {
		e.To = target(from, to)
	}
	return e
}

// target is what may be shown of where a redirect leads.
func target(from, to *url.URL) string {
	if SameOrigin(from, to) {
		return Origin(to) + to.EscapedPath()
	}
	return Origin(to)
}

// checkRedirect is asked by [http.Client] before it follows a redirect.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first, last := via[0], via[len(via)-1]
	e := &RedirectError{Method: first.Method, From: Origin(last.URL), To: target(last.URL, next.URL)}
	if next.Response != nil {
		e.Status = next.Response.StatusCode
	}
	switch {
	case first.Method != http.MethodGet:
		e.Why = "only a GET may be redirected"
	case !SameOrigin(last.URL, next.URL):
		e.Why = "it leads to another origin"
	case next.URL.User != nil:
		e.Why = "it holds a user name"
	case len(via) > maxRedirects:
		e.Why = fmt.Sprintf("it is the %dth in a row", len(via))
	default:
		return nil
	}
	return e
}
