package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/troupe-dev/troupe/internal/jsonx"
	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/sanitize"
	"github.com/troupe-dev/troupe/internal/weburl"
)

// maxBody bounds an answer, in bytes, whatever the client allows.
const maxBody = 64 << 10

// ErrMalformed is the error of a document that does not have the form it must have.
var ErrMalformed = errors.New("the document is malformed")

// answer is an answer, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request and reads the answer.
func do(hc *http.Client, req *http.Request) (*answer, error) {
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "troupe")
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = netguard.ErrTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", req.URL.Host, err)
	}
	return &answer{resp.StatusCode, resp.Header, body}, nil
}

// isObject reports whether the answer is meant as a JSON object, and not as a page.
func (a *answer) isObject() bool {
	return bytes.HasPrefix(bytes.TrimLeft(a.body, " \t\r\n"), []byte("{"))
}

// decode reads a document without secrets: an error may say what is wrong with it.
func (a *answer) decode(v any) error {
	if err := jsonx.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("%w: %s", ErrMalformed, sanitize.Line(err.Error(), 200))
	}
	return nil
}

// decodeSecret reads a document with secrets: an error does not quote it.
func (a *answer) decodeSecret(v any) error {
	if jsonx.Unmarshal(a.body, v) != nil {
		return fmt.Errorf("%w: it is not one JSON object with members of the right types", ErrMalformed)
	}
	return nil
}

// ErrNoMetadata is the error of metadata that is at none of its places: each of them
// answered, and none with a document.
var ErrNoMetadata = errors.New("there is no metadata")

// find asks addresses, in order, for a document, and reads the first that there is. A place
// that cannot be asked, or answers that it is in trouble, may have one: then the error is not
// ErrNoMetadata.
func find[T any](ctx context.Context, hc *http.Client, places []string, header http.Header, read func(at string, a *answer) (*T, error)) (*T, error) {
	var trouble []error
	for _, at := range places {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err != nil {
			return nil, err
		}
		for name, values := range header {
			req.Header[name] = values
		}
		switch a, err := do(hc, req); {
		case err != nil:
			trouble = append(trouble, err)
		case a.status == http.StatusOK && a.isObject():
			doc, err := read(at, a)
			if err != nil {
				return nil, fmt.Errorf("%.200s: %w", at, err)
			}
			return doc, nil
		case a.status >= 500 || a.status == http.StatusTooManyRequests:
			trouble = append(trouble, &Error{Op: fmt.Sprintf("reading %.200s", at), Status: a.status})
		}
		if ctx.Err() != nil {
			break
		}
	}
	if trouble != nil {
		return nil, errors.Join(trouble...)
	}
	return nil, fmt.Errorf("%w at %.600s", ErrNoMetadata, strings.Join(places, ", "))
}

// checkAddress returns an address that a peer has named in the one form in which it is used.
// Only a server on this machine may name addresses on it.
func checkAddress(what, raw string, loopback bool) (string, error) {
	v, err := weburl.Check(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case strings.Contains(v.URL, "#"):
		return "", fmt.Errorf("%s: %w: it has a fragment", what, weburl.ErrRefused)
	case !loopback && netguard.IsLoopback(v.Host):
		return "", fmt.Errorf("%s: %w: it leads to this machine, and the MCP server is not on it", what, weburl.ErrRefused)
	}
	return v.URL, nil
}

// parse takes apart an address whose parts are compared. It refuses dot segments, which a
// comparison reads in one way and a server in another.
func parse(what, raw string, loopback bool) (*url.URL, error) {
	clean, err := checkAddress(what, raw, loopback)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(clean)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, weburl.ErrRefused)
	}
	for segment := range strings.SplitSeq(u.Path, "/") { // decoded: %2e is a dot
		if segment == "." || segment == ".." {
			return nil, fmt.Errorf("%s: %w: it has the segment %q", what, weburl.ErrRefused, segment)
		}
	}
	return u, nil
}

// OnLoopback reports whether an MCP server is on this machine, by its address: then its
// authorization server may be, too, and without https.
func OnLoopback(mcpURL string) bool {
	v, err := weburl.Check(mcpURL)
	return err == nil && netguard.IsLoopback(v.Host)
}

// origin returns scheme, host and port.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }
