package mcpclient

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/troupe-dev/troupe/mcp"
	"github.com/troupe-dev/troupe/mcpclient/internal/weblink"
)

// Values of [Server].Transport for a server with a URL.
const (
	TransportAuto = "auto" // Streamable HTTP, or the old one if the server only has that (SSE-10)
	TransportHTTP = "http" // Streamable HTTP
	TransportSSE  = "sse"  // HTTP+SSE of 2024-11-05
)

// ErrAuthRequired is what an [AuthRequiredError] is.
var ErrAuthRequired = errors.New("mcpclient: the server wants authorization")

// AuthRequiredError says that a server does not let us in: HTTP status 401 or 403.
type AuthRequiredError struct {
	Status    int
	Challenge string // its WWW-Authenticate header, fit to be shown
	// Challenges are the values of that header as they came, at most 16 of together 8 KiB.
	// They are the server's text: not to be shown, or to be believed.
	Challenges []string
	Err        error // what it says beside that
}

func (e *AuthRequiredError) Error() string {
	text := "the server wants authorization"
	if e.Status == http.StatusForbidden {
		text = "the server refuses access"
	}
	if e.Challenge != "" {
		text += " (" + e.Challenge + ")"
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Is reports that the error is [ErrAuthRequired].
func (e *AuthRequiredError) Is(target error) bool { return target == ErrAuthRequired }

// Unwrap returns what the server says.
func (e *AuthRequiredError) Unwrap() error { return e.Err }

func denied(status int, challenges []string, shown string, err error) error {
	return &AuthRequiredError{Status: status, Challenge: shown, Challenges: challenges, Err: err}
}

// newWeb returns the server's side over HTTP, nil for a server without a URL.
func (c dialing) newWeb() *weblink.Server {
	s := &c.server
	if s.URL == "" {
		return nil
	}
	return weblink.New(weblink.Options{
		Server: s.Name, URL: s.URL, Headers: s.Headers, HeadersFunc: s.HeadersFunc, OldOnly: s.Transport == TransportSSE,
		Client: c.opts.httpClient, Go: c.sys.Go, Log: c.log, MaxMessage: s.maxMessage(), TooLong: s.tooLong,
		Denied: denied, WantsAuthorization: func(err error) bool { return errors.Is(err, ErrAuthRequired) },
		Eras: c.opts.eras, Changed: func() { c.status(c.conn.Status()) },
	})
}

// checkURL says what is wrong with what only servers over HTTP have.
func (s *Server) checkURL() error {
	switch s.Transport {
	case "", TransportAuto, TransportHTTP:
	case TransportSSE:
		if v := mcp.Version(s.Protocol); s.Protocol == ProtocolModern || v.Era() == mcp.EraModern {
			return fmt.Errorf("the transport sse has no revision %s", s.Protocol) // SSE-12
		}
	default:
		return fmt.Errorf("unknown transport %.40q: want auto, http or sse", s.Transport)
	}
	return nil
}

// eraKey is what a verdict on the server's era is kept under: its endpoint over HTTP,
// which all clients of this server share, else its definition (ERA-01).
func (s *Server) eraKey() string {
	if s.URL == "" {
		return s.hash()
	}
	return "at " + weblink.Endpoint(s.URL)
}
