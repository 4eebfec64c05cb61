package oauth

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-dev/troupe/internal/netguard"
	"github.com/troupe-dev/troupe/internal/sanitize"
)

// Codes of errors that a client acts upon: RFC 6749, 7591, 8628, 8707 and 9449.
const (
	CodeInvalidRequest         = "invalid_request"
	CodeInvalidClient          = "invalid_client"
	CodeInvalidGrant           = "invalid_grant"
	CodeInvalidScope           = "invalid_scope"
	CodeInvalidTarget          = "invalid_target"
	CodeUnauthorizedClient     = "unauthorized_client"
	CodeAccessDenied           = "access_denied"
	CodeServerError            = "server_error"
	CodeTemporarilyUnavailable = "temporarily_unavailable"
	CodeInvalidRedirectURI     = "invalid_redirect_uri"
	CodeInvalidClientMetadata  = "invalid_client_metadata"
	CodeAuthorizationPending   = "authorization_pending"
	CodeSlowDown               = "slow_down"
	CodeExpiredToken           = "expired_token"
	CodeUseDPoPNonce           = "use_dpop_nonce"
)

// Error is a refusal of an authorization server. It has nothing of the answer but these
// fields, and none of the secrets of the request.
type Error struct {
	Op          string        // what was asked for
	Status      int           // of HTTP; 0 if it came with a redirect
	Code        string        // such as "invalid_grant"; "" if the answer has none
	Description string        // cleaned: one line, at most 300 characters
	RetryAfter  time.Duration // that the server asks for; 0 if it does not
}

func (e *Error) Error() string {
	text := cmp.Or(e.Code, "no error code")
	if e.Status != 0 {
		text = fmt.Sprintf("%d %s", e.Status, text)
	}
	if e.Description != "" {
		text += " (" + e.Description + ")"
	}
	return fmt.Sprintf("%s: the server answers %s", e.Op, text)
}

// CodeOf returns the code of an [Error]; "" of any other.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Temporary reports whether the same request may succeed later, because the network or the
// server is in trouble. The server may have carried it out all the same.
func Temporary(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		switch e.Code {
		case "":
			return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout
		case CodeServerError, CodeTemporarilyUnavailable, CodeSlowDown, CodeAuthorizationPending:
			return true
		}
		return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
	}
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	if cert || errors.Is(err, netguard.ErrRefused) || errors.Is(err, context.Canceled) {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF)
}

// maxRetryAfter bounds what a server may ask for.
const maxRetryAfter = time.Hour

// errorAnswer is the JSON of a refusal.
type errorAnswer struct {
	Code        string `json:"error"`
	Description string `json:"error_description"`
}

// refusal makes an [Error] of an answer. Sent are the secrets of the request, which a server
// may repeat.
func refusal(op string, a *answer, sent []Secret) error {
	e := &Error{Op: op, Status: a.status}
	var said errorAnswer
	if a.isObject() && a.decodeSecret(&said) == nil {
		e.Code, e.Description = cleanCode(said.Code, sent), cleanText(said.Description, sent)
	}
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = min(time.Duration(min(s, 1<<20))*time.Second, maxRetryAfter)
	}
	return e
}

// cleanCode returns a code, or "" for a text that RFC 6749 does not allow as one.
func cleanCode(code string, sent []Secret) string {
	if len(code) > 64 || strings.ContainsFunc(code, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return ""
	}
	return withoutSecrets(code, sent)
}

func cleanText(text string, sent []Secret) string {
	return sanitize.Line(withoutSecrets(sanitize.Line(text, 0), sent), 300)
}

// minSecret is the least length of a secret that is looked for: a shorter one is in many texts.
const minSecret = 6

// withoutSecrets hides secrets in a text, as they are and as a form encodes them.
func withoutSecrets(text string, sent []Secret) string {
	var forms []string
	for _, s := range sent {
		if len(s.Reveal()) >= minSecret {
			forms = append(forms, s.Reveal(), url.QueryEscape(s.Reveal()))
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be in another
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, hidden)
	}
	return text
}
