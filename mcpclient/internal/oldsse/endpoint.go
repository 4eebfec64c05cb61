package oldsse

import (
	"fmt"
	"net/url"

	"github.com/troupe-dev/troupe/mcpclient/internal/httpguard"
)

// endpoint resolves what the first event says against the stream's address, and
// checks that it stays at its origin (SSE-04). The error does not repeat it: its
// query is a secret.
func endpoint(stream *url.URL, said string) (*url.URL, error) {
	ref, err := url.Parse(said)
	if said == "" || err != nil {
		return nil, fmt.Errorf("%w: what it says is no address", ErrEndpoint)
	}
	var u *url.URL
	if stream.Scheme == "unix" {
		u = onSocket(stream, ref)
	} else {
		u = stream.ResolveReference(ref)
	}
	if u.User == nil && !httpguard.SameOrigin(stream, u) {
		return nil, fmt.Errorf("%w: it is at %.200s, and the stream at %s", ErrEndpoint, httpguard.Origin(u), httpguard.Origin(stream))
	}
	if stream.Scheme != "unix" {
		u.Fragment, u.RawFragment = "", ""
	}
	if _, err := httpguard.ParseURL(u.String()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEndpoint, err)
	}
	return u, nil
}

// onSocket resolves an address on a socket, whose path stands in the fragment. The
// server knows itself by the name that we use there.
func onSocket(stream, ref *url.URL) *url.URL {
	base := &url.URL{Scheme: "http", Host: "localhost", Path: "/"}
	if p, err := url.Parse(stream.EscapedFragment()); err == nil && p.Path != "" {
		base.Path, base.RawPath = p.Path, p.RawPath
	}
	u := base.ResolveReference(ref)
	if !httpguard.SameOrigin(base, u) || u.User != nil {
		return u
	}
	out, err := url.Parse(httpguard.Origin(stream) + "#" + u.RequestURI())
	if err != nil {
		return u
	}
	return out
}
